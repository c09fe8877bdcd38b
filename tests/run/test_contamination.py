"""A validation split that the weights have learned is told of, before and after the test."""

import dataclasses

import pytest
import torch
from torch import nn

from triprune.learning.images import SealedTest, Splits
from triprune.learning.weights import save_weights
from triprune.run.compress import compress
from triprune.run.contamination import notes_after, notes_before
from triprune.run.fake import FakeTrainer
from triprune.run.image_facts import digest
from triprune.run.spec import RunSpec
from triprune.run.trainer import ImageTrainer


class Knows(nn.Module):
    """Answers rightly for images it has seen, and always with the first class for others."""

    def __init__(self, parts) -> None:
        super().__init__()
        self.anchor = nn.Parameter(torch.zeros(1))
        self.labels = {
            self.key(image): int(label)
            for part in parts
            for image, label in zip(part.images, part.labels, strict=True)
        }
        self.scale = 255 * torch.tensor(parts[0].std).view(1, 3, 1, 1)
        self.shift = 255 * torch.tensor(parts[0].mean).view(1, 3, 1, 1)

    @staticmethod
    def key(image) -> bytes:
        return image.to(torch.uint8).numpy().tobytes()

    def forward(self, x):
        pixels = (x * self.scale + self.shift).round().clamp(0, 255)
        known = torch.tensor([self.labels.get(self.key(image), 0) for image in pixels])
        return nn.functional.one_hot(known, 10).float() + 0 * self.anchor


@pytest.fixture(scope="module")
def trainer(small):
    return ImageTrainer(small.splits(), small.RECIPE, "cpu")


def test_weights_that_know_both_parts_by_heart_are_suspected(trainer):
    parts = trainer.splits
    told = notes_before(trainer, None, Knows([parts.train, parts.validation]), 1.0)
    assert "100.00% of the validation and 100.00% of the training images" in told[0]
    assert 'validation = "test:2000"' in told[0]
    assert notes_before(trainer, None, Knows([parts.train]), 0.995)  # one mistake in 200
    honest = Knows([parts.train])
    assert notes_before(trainer, None, honest, 0.1) == ()
    untrained = Knows([parts.train.take(torch.arange(1))])
    assert notes_before(trainer, None, untrained, 0.1) == ()


def test_the_card_of_the_weights_is_believed(trainer, tmp_path):
    path, model = tmp_path / "w.safetensors", nn.Linear(1, 1)
    settings = {"budget": 0.5}
    spec = RunSpec.from_mapping({"model": "m", "weights": str(path), "settings": settings})
    both = Knows([trainer.splits.train, trainer.splits.validation])
    save_weights(model, path, {"trained_on": digest(trainer.splits.train)})
    assert notes_before(trainer, spec, both, 1.0) == ()
    save_weights(model, path, {"trained_on": "others"})
    assert "trained on other images than this run's" in notes_before(trainer, spec, both, 1.0)[0]


def test_the_test_split_shows_a_flattering_validation(trainer):
    assert (
        "99.70% on the validation images and 80.00% on the test"
        in (notes_after(trainer, 0.997, 0.80)[0])
    )
    assert notes_after(trainer, 0.82, 0.80) == ()
    fake = FakeTrainer(lambda scale: 1.0)
    assert notes_after(fake, 1.0, 0.5) == notes_before(fake, None, nn.Linear(1, 1), 1.0) == ()


def test_a_result_says_how_its_images_were_divided_and_what_its_test_showed(small, tmp_path):
    """Trained on the validation images alone, a model is flattered by them, and told so."""
    parts = small.splits(60)
    model = small.make()
    recipe = dataclasses.replace(small.RECIPE, epochs=100, batch_size=25, augment=False, rate=0.1)
    learned = parts.validation.take(torch.arange(50))
    small.train(small.Job(model, learned, recipe, device="cpu"))
    test = SealedTest(parts.validation.take(torch.arange(50, 200)))
    divided = Splits(parts.train, learned, test, notes=("divided by hand",))
    settings = small.settings(
        rounds=1, recipe=dataclasses.replace(recipe, round_epochs=1, final_epochs=1)
    )
    result = compress(model, divided, budget=0.5, settings=settings, out=tmp_path)
    assert "divided by hand" in result.outcome.notes
    assert any("validation flattered every observation" in n for n in result.outcome.notes)
