"""An original that does no better than guessing is told of, by as many images as there are."""

import pytest
import torch

from triprune.learning.images import ImageSet, SealedTest, Splits
from triprune.run.fake import FakeTrainer
from triprune.run.guessing import notes_on_guessing
from triprune.run.trainer import ImageTrainer


def trainer_of(small, *counts):
    """Return a trainer whose validation images have so many of each class."""
    labels = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    pixels = torch.zeros(len(labels), 3, 2, 2, dtype=torch.uint8)
    names = tuple(map(str, range(len(counts))))
    images = ImageSet(pixels, labels, names, (0.5,) * 3, (0.2,) * 3)
    return ImageTrainer(Splits(images, images, SealedTest(images)), small.RECIPE, "cpu")


@pytest.mark.parametrize(
    ("counts", "accuracy", "told"),
    [
        ((100, 100, 100, 100), 0.235, True),
        ((100, 100, 100, 100), 0.29, True),
        ((100, 100, 100, 100), 0.30, False),
        ((10, 10, 10, 10), 0.30, True),
        ((370, 10, 10, 10), 0.90, True),
        ((370, 10, 10, 10), 0.98, False),
    ],
)
def test_guessing_is_told(small, counts, accuracy, told):
    notes = notes_on_guessing(trainer_of(small, *counts), accuracy)
    assert bool(notes) == told
    if told:
        assert f"answers {accuracy:.2%} of the" in notes[0]
        assert "were its trained weights given (--weights)" in notes[0]


def test_any_other_score_is_taken_as_it_is():
    assert notes_on_guessing(FakeTrainer(lambda _: 0.0), 0.0) == ()
