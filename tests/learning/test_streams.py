"""A stream gives the same training, evaluation and probes as the same images in memory."""

from dataclasses import dataclass, replace

import pytest
import torch

from triprune.learning.evaluation import evaluate, evaluate_final
from triprune.learning.images import ImageSet, SealedTest
from triprune.learning.job import Job
from triprune.learning.probe import probe_blocks
from triprune.learning.recipe import Recipe
from triprune.learning.training import train

RECIPE = Recipe(epochs=3, batch_size=16, rate=0.05, precision="fp32")


@dataclass(frozen=True)
class Streamed:
    held: ImageSet

    classes = property(lambda self: self.held.classes)
    mean = property(lambda self: self.held.mean)
    std = property(lambda self: self.held.std)
    resolution_px = property(lambda self: self.held.resolution_px)
    notes = ("one image was replaced",)

    def __len__(self):
        return len(self.held)

    def take(self, indices):
        return Streamed(self.held.take(indices))

    def batches(self, rows, *, resolution_px):
        for row in rows:
            part = self.held.take(torch.tensor(row)).at(resolution_px)
            yield part.images, part.labels


@pytest.mark.parametrize("resolution_px", [None, 6])
def test_training_equals_memory_bit_for_bit(tiny_net, coloured_images, tmp_path, resolution_px):
    images, validation = coloured_images(), coloured_images(40, seed=1)
    settings = {"resolution_px": resolution_px, "device": "cpu"}
    held = train(Job(tiny_net(), images, RECIPE, validation=validation, **settings))
    job = Job(
        tiny_net(),
        Streamed(images),
        RECIPE,
        validation=Streamed(validation),
        checkpoint=tmp_path / "c",
        **settings,
    )
    train(job, stop=lambda record: record.epoch == 1)
    streamed = train(replace(job, model=tiny_net(5)))
    for mine, theirs in zip(
        streamed.model.state_dict().values(), held.model.state_dict().values(), strict=True
    ):
        assert torch.equal(mine, theirs)
    assert streamed.accuracy == held.accuracy
    assert streamed.notes == ("one image was replaced",) * 2


def test_evaluation_equals_memory(tiny_net, coloured_images):
    model, images = tiny_net(), coloured_images()
    assert evaluate(model, Streamed(images)) == evaluate(model, images)
    assert evaluate_final(model, SealedTest(Streamed(images))) == evaluate(model, images)


def test_probes_equal_memory(tiny_net, coloured_images):
    model, images = tiny_net(), coloured_images()
    held = probe_blocks(model, ["block"], train=images, validation=images)
    stream = Streamed(images)
    assert probe_blocks(model, ["block"], train=stream, validation=stream) == held
