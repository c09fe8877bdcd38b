"""Owns turning sources into image sets; refuses unreadable images unless told to leave them out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from triprune.errors import DataError, InputError
from triprune.learning.datasets.image_files import FileSource
from triprune.learning.datasets.sources import Parts, Size, Source, TensorSource, fit
from triprune.learning.images import ImageSet, SealedTest, Splits, pixel_statistics
from triprune.learning.memory import available_bytes
from triprune.learning.normalisation import Normalisation
from triprune.learning.reading import Faults, read_batches, undecodable
from triprune.learning.streaming import StreamedSet

_ASKED_FOR_SIZE = 64
_SAMPLED = 2048  # streamed images whose pixels give mean and std
_BATCH = 256
_GIVE_SIZE = "give the size to read at: --resolution-px, or resolution_px in a file or in Python"


@dataclass(frozen=True, slots=True)
class Reading:
    """How images are read.

    ``resolution_px=None`` keeps the stored size, where all have the same. ``channels`` is 3 or 1:
    grey images are read in colour. ``normalisation=None`` takes mean and std of the training
    pixels; give ``card_normalisation(model)`` where public weights are used.
    ``bad_images="drop"`` leaves unreadable ones out and names them in ``Splits.left_out``.
    ``in_memory=None`` keeps in memory what fits into half of what is free there and on the GPU,
    and streams the rest.
    """

    resolution_px: int | None = None
    channels: int = 3
    normalisation: Normalisation | None = None
    bad_images: Literal["refuse", "drop"] = "refuse"
    in_memory: bool | None = None

    def __post_init__(self) -> None:
        if self.resolution_px is not None and self.resolution_px < 1:
            raise InputError(
                f"resolution_px = {self.resolution_px} (--resolution-px)",
                "it is no size",
                "give a number of pixels from 1 up",
            )
        if self.bad_images not in ("refuse", "drop"):
            raise InputError(f"bad_images = {self.bad_images!r}", "it is unknown", "refuse or drop")
        if self.normalisation is not None and {*map(len, self.normalisation)} != {self.channels}:
            raise InputError(
                f"normalisation = {self.normalisation}",
                f"images are read with {self.channels} channels",
                "give a mean and a std for each channel",
            )


def load_splits(parts: Parts, reading: Reading) -> Splits:
    """Read the parts, or make them ready to stream; all faults are found before one is told."""
    assert parts.validation is not None
    size = _size(parts.train, reading)
    sources = [parts.train, parts.validation, parts.test]
    faults = Faults()
    if _held(sources, size, reading):
        images = [_read(source, size, reading.channels, faults) for source in sources]
        mean, std = reading.normalisation or pixel_statistics(images[0][0])
        classes = parts.train.classes
        loaded = [ImageSet(pixels, labels, classes, mean, std) for pixels, labels in images]
    else:
        side = _side(size)
        # A score must not rest on replaced images, so what is held out is decoded beforehand.
        found = [_unopened(sources[0])] + [undecodable(s, reading.channels) for s in sources[1:]]
        whole = [_sound(s, bad, faults) for s, bad in zip(sources, found, strict=True)]
        mean, std = reading.normalisation or _sampled_statistics(whole[0], size, reading.channels)
        loaded = [StreamedSet(source, side, mean, std) for source in whole]
    if len(faults) and reading.bad_images == "refuse":
        raise DataError(
            "reading the images",
            str(faults),
            "mend them or move them away (triprune data folder DIR names them all); in Python, "
            'load_data(source, Reading(bad_images="drop")) leaves them out',
        )
    train, validation, test = loaded
    _check_classes_left(loaded, faults)
    notes = (f"left out {faults}",) if len(faults) else ()
    return Splits(train, validation, SealedTest(test), left_out=tuple(faults), notes=notes)


def _check_classes_left(loaded: Sequence[ImageSet | StreamedSet], faults: Faults) -> None:
    for images, part in zip(loaded, ("train", "validation", "test"), strict=True):
        counts = torch.bincount(images.labels, minlength=len(images.classes)).tolist()
        gone = [name for name, left in zip(images.classes, counts, strict=True) if not left]
        if gone and len(faults):
            raise DataError(
                f"leaving out {faults}",
                f"no readable image of {gone[0]} is left in the {part} part",
                "mend or replace those images",
            )


def _held(sources: list[Source], size: Size, reading: Reading) -> bool:
    """Whether the images are to be kept in memory."""
    if reading.in_memory is not None or all(isinstance(s, TensorSource) for s in sources):
        return reading.in_memory is not False
    wanted = sum(len(source.labels) for source in sources) * reading.channels * size[0] * size[1]
    places = [torch.device("cpu")]
    if torch.cuda.is_available():
        places.append(torch.device("cuda"))
    return all(wanted < available_bytes(place) / 2 for place in places)


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
    raise DataError("images as they are stored", found, _GIVE_SIZE)


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


def _sound(source: Source, found: dict[int, str], faults: Faults) -> Source:
    for index, reason in found.items():
        faults.note(source.name(index), reason)
    if len(found) == len(source.labels):
        raise DataError("reading the images", str(faults), "give images that Pillow can open")
    kept = [index for index in range(len(source.labels)) if index not in found]
    return source.take(torch.tensor(kept)) if found else source


def _unopened(source: Source) -> dict[int, str]:
    """Return the files that cannot be opened as images; quick, and blind to torn ends."""
    found: dict[int, str] = {}
    if isinstance(source, FileSource):
        for index in range(len(source.labels)):
            try:
                source.size(index)
            except Exception as error:
                found[index] = str(error)
    return found


def _sampled_statistics(source: Source, size: Size, channels: int) -> Normalisation:
    step = max(1, len(source.labels) // _SAMPLED)
    rows = [part.tolist() for part in torch.arange(0, len(source.labels), step).split(_BATCH)]
    parts: list[Tensor] = []
    for images, _, reasons in read_batches(source, rows, size=size, channels=channels):
        good = [place for place in range(len(images)) if place not in reasons]
        parts.append(images[good])
    return pixel_statistics(torch.cat(parts))


def _side(size: Size) -> int:
    if size[0] != size[1]:
        raise DataError(
            f"streaming images of {size[0]}×{size[1]}", "they are not square", _GIVE_SIZE
        )
    return size[0]
