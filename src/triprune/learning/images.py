"""Owns images in memory: the set, its splits, resizing; refuses to know of files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import torch
from torch import Tensor
from torch.nn import functional

from triprune.errors import InputError

Score = TypeVar("Score")
_RESIZE_CHUNK = 2048  # bounds the float copies that resizing makes of uint8 images


@dataclass(frozen=True, slots=True, eq=False)
class ImageSet:
    """Labelled images that fit in memory, on any device.

    ``images`` is uint8, N×C×H×W; ``labels`` int64, N. ``mean`` and ``std`` are per channel, of
    pixels scaled to [0, 1].
    """

    images: Tensor
    labels: Tensor
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        asked = "an image set"
        if self.images.dtype != torch.uint8 or self.images.ndim != 4 or not self.images.numel():
            found = f"images of {self.images.dtype} and shape {tuple(self.images.shape)}"
            raise InputError(asked, found, "give at least one image, as uint8, N×C×H×W")
        if self.labels.dtype != torch.int64 or self.labels.shape != self.images.shape[:1]:
            found = f"labels of {self.labels.dtype} and shape {tuple(self.labels.shape)}"
            raise InputError(asked, found, f"give {len(self.images)} int64 labels, one an image")
        lowest, highest = int(self.labels.min()), int(self.labels.max())
        if lowest < 0 or highest >= len(self.classes):
            found = f"labels from {lowest} to {highest} for {len(self.classes)} classes"
            raise InputError(asked, found, "number the classes from 0 and name each of them")
        channels = self.images.shape[1]
        if len(self.mean) != channels or len(self.std) != channels or min(self.std) <= 0:
            found = f"mean {self.mean} and std {self.std} for {channels} channels"
            raise InputError(asked, found, "give one mean and one positive std per channel")

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def resolution_px(self) -> int:
        """The side of the images; the longer one where they are not square."""
        return max(self.images.shape[-2:])

    def to(self, device: torch.device | str) -> ImageSet:
        """Return the same set on ``device``."""
        return replace(self, images=self.images.to(device), labels=self.labels.to(device))

    def take(self, indices: Tensor) -> ImageSet:
        """Return the images at ``indices``, in that order."""
        indices = indices.to(self.images.device)
        return replace(self, images=self.images[indices], labels=self.labels[indices])

    def at(self, resolution_px: int | None) -> ImageSet:
        """Return the set at ``resolution_px``; the set itself where it has that size already."""
        if resolution_px is None or tuple(self.images.shape[-2:]) == (resolution_px,) * 2:
            return self
        return replace(self, images=resize(self.images, resolution_px))

    def affine(self, device: torch.device | str) -> tuple[Tensor, Tensor]:
        """Return ``(scale, shift)``, 1×C×1×1, so that ``scale · pixel + shift`` is normalised."""
        return affine_of(self.mean, self.std, device)

    def digest(self) -> str:
        """Return a hash of every pixel and label, and of how they are described."""
        found = hashlib.sha256(described(self).encode())
        for tensor in (self.labels, self.images):
            found.update(tensor.cpu().contiguous().numpy().tobytes())
        return found.hexdigest()


class ImageStream(Protocol):
    """Labelled images that do not fit in memory, read in whatever order is asked."""

    @property
    def classes(self) -> tuple[str, ...]:
        """The name of every class."""
        ...

    @property
    def mean(self) -> tuple[float, ...]:
        """The mean of each channel, of pixels scaled to [0, 1]."""
        ...

    @property
    def std(self) -> tuple[float, ...]:
        """The standard deviation of each channel, of pixels scaled to [0, 1]."""
        ...

    @property
    def resolution_px(self) -> int:
        """The side that images have where no other is asked for."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What the result of a run must say about these images, such as unreadable ones."""
        ...

    def __len__(self) -> int: ...

    def digest(self) -> str:
        """Return a hash that tells these images from others, without reading them all."""
        ...

    def take(self, indices: Tensor) -> ImageStream:
        """Return the stream of the images at ``indices``, in that order."""
        ...

    def batches(
        self, rows: Sequence[Sequence[int]], *, resolution_px: int | None
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield for every row of indices its uint8 images, at that size, and its labels."""
        ...


class SealedTest:
    """The test split, closed: ``evaluate_final`` alone opens it (a test of the source holds this).

    It has a length, a hash, notes and a count of its openings, and nothing else, so that a training
    or a choice handed the test split by mistake fails at once.
    """

    __slots__ = ("__images", "__openings")

    def __init__(self, images: ImageSet | ImageStream) -> None:
        self.__images = images
        self.__openings = 0

    def __len__(self) -> int:
        return len(self.__images)

    @property
    def openings(self) -> int:
        """How often it was opened so far: a run's record can show that it was the last step."""
        return self.__openings

    @property
    def notes(self) -> tuple[str, ...]:
        """What a result must say about these images, such as unreadable ones."""
        return () if isinstance(self.__images, ImageSet) else self.__images.notes

    def digest(self) -> str:
        """Return a hash that tells the images from others and shows none of them."""
        return self.__images.digest()

    def open_once_for(self, score: Callable[[ImageSet | ImageStream], Score]) -> Score:
        """Return ``score`` of the test images; the library asks from ``evaluate_final`` alone."""
        self.__openings += 1
        return score(self.__images)


@dataclass(frozen=True, slots=True, eq=False)
class Splits:
    """What a run sees: ``validation`` is held out of the training data, ``test`` stays sealed.

    ``left_out`` names the images that could not be read, with the reason, where that was allowed;
    ``notes`` are for the result: that such were left out, and what was cut otherwise than a reader
    would expect.
    """

    train: ImageSet | ImageStream
    validation: ImageSet | ImageStream
    test: SealedTest
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def replaced(self) -> tuple[str, ...]:
        """What streams say so far of images that broke and were replaced by others."""
        parts = self.train, self.validation, self.test
        streams = [part for part in parts if not isinstance(part, ImageSet)]
        return tuple(note for stream in streams for note in stream.notes)


def described(images: ImageSet | ImageStream) -> str:
    """Return what is known of images without looking at one: counts, classes and statistics."""
    told = [len(images), images.resolution_px, list(images.classes), images.mean, images.std]
    return repr(told)


def affine_of(
    mean: Sequence[float], std: Sequence[float], device: torch.device | str
) -> tuple[Tensor, Tensor]:
    """Return ``(scale, shift)``, 1×C×1×1, so that ``scale · pixel + shift`` is normalised."""
    centre = torch.tensor(mean, device=device).view(1, -1, 1, 1)
    spread = torch.tensor(std, device=device).view(1, -1, 1, 1)
    return 1 / (255 * spread), -centre / spread


def normalised(
    pixels: Tensor, affine: tuple[Tensor, Tensor], layout: torch.memory_format
) -> Tensor:
    """Return pixels as a network wants them: ``affine`` is what ``affine_of`` gives."""
    scale, shift = affine
    return torch.addcmul(shift, pixels.float(), scale).contiguous(memory_format=layout)


def pixel_statistics(images: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and std of every channel of uint8 images, of pixels scaled to [0, 1]."""
    levels = torch.arange(256, dtype=torch.float64) / 255
    means: list[float] = []
    stds: list[float] = []
    for channel in range(images.shape[1]):
        counts = torch.zeros(256, dtype=torch.int64, device=images.device)
        for part in images[:, channel].split(_RESIZE_CHUNK):
            counts += torch.bincount(part.reshape(-1), minlength=256)
        shares = counts.cpu().double() / counts.sum().item()
        mean = float((shares * levels).sum())
        means.append(mean)
        stds.append(max(1e-3, float((shares * (levels - mean).square()).sum().sqrt())))
    return tuple(means), tuple(stds)


def resize(images: Tensor, resolution_px: int) -> Tensor:
    """Return images at ``resolution_px`` squared, bilinear with antialiasing, dtype kept."""
    if resolution_px < 1:
        raise InputError(
            f"resolution_px = {resolution_px}", "an image needs at least one pixel", "give more"
        )
    if tuple(images.shape[-2:]) == (resolution_px, resolution_px):
        return images
    size = (resolution_px, resolution_px)
    parts: list[Tensor] = []
    for part in images.split(_RESIZE_CHUNK):
        small = functional.interpolate(
            part.float(), size=size, mode="bilinear", antialias=True, align_corners=False
        )
        if images.dtype == torch.uint8:
            small = small.round_().clamp_(0, 255)
        parts.append(small.to(images.dtype))
    return torch.cat(parts)
