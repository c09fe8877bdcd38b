"""Owns turning sources into image sets; refuses unreadable images unless told to leave them out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from triprune.errors import DataError, InputError
from triprune.learning.datasets.sources import Parts, Size, Source, TensorSource, fit
from triprune.learning.images import ImageSet, SealedTest, Splits, pixel_statistics
from triprune.learning.reading import Faults, read_batches

Normalisation = tuple[tuple[float, ...], tuple[float, ...]]

# What most public weights expect: the mean and std of ImageNet's pixels.
IMAGENET: Normalisation = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))

_ASKED_FOR_SIZE = 64
_BATCH = 256


@dataclass(frozen=True, slots=True)
class Reading:
    """How images are read.

    ``resolution_px=None`` keeps the stored size, where all have the same. ``channels`` is 3 or 1:
    grey images are read in colour. ``normalisation=None`` takes mean and std of the training
    pixels; give those on your model's card where it has one. ``bad_images="drop"`` leaves
    unreadable ones out and names them in ``Splits.left_out``.
    """

    resolution_px: int | None = None
    channels: int = 3
    normalisation: Normalisation | None = None
    bad_images: Literal["refuse", "drop"] = "refuse"

    def __post_init__(self) -> None:
        if self.resolution_px is not None and self.resolution_px < 1:
            raise InputError(
                f"resolution_px = {self.resolution_px}", "it is no size", "give pixels"
            )
        if self.bad_images not in ("refuse", "drop"):
            raise InputError(f"bad_images = {self.bad_images!r}", "it is unknown", "refuse or drop")


def load_splits(parts: Parts, reading: Reading) -> Splits:
    """Read the parts into memory; all unreadable images are found before any is complained of."""
    size = _size(parts.train, reading)
    faults = Faults()
    sources = (parts.train, parts.validation or parts.train, parts.test)
    loaded = [_read(source, size, reading.channels, faults) for source in sources]
    if len(faults) and reading.bad_images == "refuse":
        raise DataError(
            "reading the images", str(faults), 'mend or delete them, or read with bad_images="drop"'
        )
    mean, std = reading.normalisation or pixel_statistics(loaded[0][0])
    train, validation, test = (
        ImageSet(images, labels, parts.train.classes, mean, std) for images, labels in loaded
    )
    return Splits(train, validation, SealedTest(test), left_out=tuple(faults))


def _size(source: Source, reading: Reading) -> Size:
    if reading.resolution_px is not None:
        return reading.resolution_px, reading.resolution_px
    step = max(1, len(source.labels) // _ASKED_FOR_SIZE)
    sizes: set[Size] = set()
    for index in range(0, len(source.labels), step):
        try:
            sizes.add(source.size(index))
        except Exception:  # it is found again, named and counted, by `_read`
            continue
    if len(sizes) == 1:
        return sizes.pop()
    found = "none could be read" if not sizes else f"their sizes differ: {_some(sizes)}"
    raise DataError("images as they are stored", found, "give resolution_px, the size to read at")


def _some(sizes: set[Size]) -> str:
    ordered = sorted(sizes)
    return " to ".join(f"{height}×{width}" for height, width in (ordered[0], ordered[-1]))


def _read(source: Source, size: Size, channels: int, faults: Faults) -> tuple[Tensor, Tensor]:
    if isinstance(source, TensorSource):
        parts = [fit(part, size, channels) for part in source.images.split(_BATCH)]
        return torch.cat(parts), source.labels
    count = len(source.labels)
    images = torch.empty(count, channels, *size, dtype=torch.uint8)
    readable = torch.ones(count, dtype=torch.bool)
    batches = [part.tolist() for part in torch.arange(count).split(_BATCH)]
    for pixels, indices, reasons in read_batches(source, batches, size=size, channels=channels):
        images[indices] = pixels
        for place, reason in reasons.items():
            index = int(indices[place])
            readable[index] = False
            faults.note(source.name(index), reason)
    if not readable.any():
        raise DataError("reading the images", str(faults), "give images that Pillow can open")
    if readable.all():
        return images, source.labels
    return images[readable], source.labels[readable]
