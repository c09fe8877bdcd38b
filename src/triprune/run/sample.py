"""Owns the few images that stay with a run, so that its models can be tried without its data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from triprune.learning.images import ImageSet, ImageStream
from triprune.run.artifacts import Parts
from triprune.run.trainer import ImageTrainer, Trainer

_IMAGES = 16


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """A few validation images and how pixels become inputs; all empty where data are not images.

    ``images`` is uint8, N×C×H×W, at full resolution.
    """

    images: Tensor
    labels: Tensor
    classes: tuple[str, ...] = ()
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    def to_parts(self) -> Parts:
        """Return the names and numbers as plain values, and the images."""
        values = {"classes": self.classes, "mean": self.mean, "std": self.std}
        return values, {"images": self.images, "labels": self.labels}

    @classmethod
    def from_parts(cls, values: dict[str, Any], tensors: dict[str, Tensor]) -> Sample:
        """Rebuild the sample."""
        given: dict[str, Any] = {name: tuple(each) for name, each in values.items()}
        return cls(tensors["images"], tensors["labels"], **given)


def sample(trainer: Trainer) -> Sample:
    """Return some of the validation images, spread over them all."""
    if not isinstance(trainer, ImageTrainer):
        empty = torch.zeros(0, *trainer.input_size, dtype=torch.uint8)
        return Sample(empty, torch.zeros(0, dtype=torch.int64))
    images = trainer.splits.validation
    spread = torch.linspace(0, len(images) - 1, min(_IMAGES, len(images))).long()
    pixels, labels = pixels_of(images.take(spread))
    return Sample(pixels, labels, images.classes, tuple(images.mean), tuple(images.std))


def pixels_of(images: ImageSet | ImageStream) -> tuple[Tensor, Tensor]:
    """Return all the images, uint8, and their labels, in memory."""
    if isinstance(images, ImageSet):
        return images.images.cpu(), images.labels.cpu()
    rows = [list(range(len(images)))]
    pixels, labels = next(iter(images.batches(rows, resolution_px=images.resolution_px)))
    return pixels.cpu(), labels.cpu()
