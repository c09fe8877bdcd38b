"""Owns the source: labelled images that can be read one by one; refuses to know where they lie."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from triprune.errors import DataError

Size = tuple[int, int]  # height, width


class Source(Protocol):
    """Labelled images, read one at a time; an image that cannot be read raises any exception."""

    @property
    def labels(self) -> Tensor:
        """The class of every image: int64, N."""
        ...

    @property
    def classes(self) -> tuple[str, ...]:
        """The name of every class."""
        ...

    def name(self, index: int) -> str:
        """Return what to call an image in a message."""
        ...

    def size(self, index: int) -> Size:
        """Return the stored size of an image."""
        ...

    def read(self, index: int, size: Size, channels: int) -> Tensor:
        """Return one image as uint8, ``channels``×height×width."""
        ...

    def mark(self, index: int, *, whole: bool) -> bytes:
        """Return what tells an image from others, cheaply; ``whole`` may read it, undecoded."""
        ...

    def take(self, indices: Tensor) -> Source:
        """Return the source of the images at ``indices``, in that order."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """A data set as its authors divide it; ``validation`` where they set some images aside."""

    train: Source
    test: Source
    validation: Source | None = None


@dataclass(frozen=True, slots=True, eq=False)
class TensorSource:
    """Images that are in memory already: uint8, N×C×H×W."""

    images: Tensor
    labels: Tensor
    classes: tuple[str, ...]

    def name(self, index: int) -> str:
        """Return what to call an image in a message."""
        return f"image {index}"

    def size(self, index: int) -> Size:
        """Return the stored size of an image."""
        height, width = self.images[index].shape[-2:]
        return height, width

    def read(self, index: int, size: Size, channels: int) -> Tensor:
        """Return one image as uint8, ``channels``×height×width."""
        return fit(self.images[index], size, channels)

    def mark(self, index: int, *, whole: bool) -> bytes:
        """Return the image's bytes, as they are in memory."""
        del whole
        return self.images[index].cpu().contiguous().numpy().tobytes()

    def take(self, indices: Tensor) -> TensorSource:
        """Return the source of the images at ``indices``, in that order."""
        return replace(self, images=self.images[indices], labels=self.labels[indices])


def fit(images: Tensor, size: Size, channels: int) -> Tensor:
    """Return uint8 images (one or many) with that many channels, cropped and resized to ``size``.

    The largest centred part of the wanted shape is kept, then resized bilinearly with antialiasing.
    """
    images = with_channels(images, channels)
    if tuple(images.shape[-2:]) == size:
        return images
    top, left, height, width = centred_box((images.shape[-2], images.shape[-1]), size)
    part = images[..., top : top + height, left : left + width].float()
    batch = part if part.dim() == 4 else part[None]
    small = functional.interpolate(
        batch, size=size, mode="bilinear", antialias=True, align_corners=False
    )
    return small.round_().clamp_(0, 255).to(torch.uint8).view(*images.shape[:-2], *size)


def with_channels(images: Tensor, channels: int) -> Tensor:
    """Return the images in grey or in colour, as ``channels`` says."""
    present = images.shape[-3]
    if present == channels:
        return images
    if present == 1:
        return images.expand(*images.shape[:-3], channels, *images.shape[-2:])
    if channels == 1 and present == 3:
        weights = torch.tensor([0.299, 0.587, 0.114]).view(3, 1, 1)  # ITU-R 601 luma, as Pillow's
        return (images * weights).sum(-3, keepdim=True).round_().to(torch.uint8)
    raise DataError(
        f"images of {channels} channels",
        f"these have {present}",
        f"read them with channels={present}, or convert them",
    )


def centred_box(stored: Size, wanted: Size) -> tuple[int, int, int, int]:
    """Return top, left, height and width of the largest centred part shaped like ``wanted``."""
    scale = min(stored[0] / wanted[0], stored[1] / wanted[1])
    height = min(stored[0], max(1, round(wanted[0] * scale)))
    width = min(stored[1], max(1, round(wanted[1] * scale)))
    return (stored[0] - height) // 2, (stored[1] - width) // 2, height, width
