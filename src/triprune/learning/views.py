"""Owns how training shows an image: which of its crops, mirrored or not; refuses other tricks.

There are few enough views of an image to number them all, so that whatever depends on the view
alone can be computed once and looked up.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from triprune.learning.recipe import Padding


@dataclass(frozen=True, slots=True)
class Crops:
    """The crops of images of one size, after padding by an eighth on each side."""

    height: int
    width: int

    @property
    def pads(self) -> tuple[int, int]:
        """The rows and the columns added on each side."""
        return _pad(self.height), _pad(self.width)

    @property
    def grid(self) -> tuple[int, int]:
        """How many rows, and how many columns, a crop can begin at."""
        rows, columns = self.pads
        return 2 * rows + 1, 2 * columns + 1

    @property
    def views(self) -> int:
        """How many views an image has: every crop, as it is and mirrored."""
        rows, columns = self.grid
        return 2 * rows * columns


def crops_of(images: Tensor) -> Crops:
    """Return the crops of N×C×H×W images."""
    return Crops(*images.shape[-2:])


def draw_views(images: Tensor, generator: torch.Generator) -> Tensor:
    """Return a random view's number for every image; ``generator`` lives on their device."""
    rows, columns = crops_of(images).grid
    draw = torch.rand(3, len(images), generator=generator, device=images.device)
    row = (draw[0] * rows).long().clamp_max_(rows - 1)
    column = (draw[1] * columns).long().clamp_max_(columns - 1)
    return ((draw[2] >= 0.5).long() * rows + row) * columns + column


def show(images: Tensor, views: Tensor, padding: Padding = "zero") -> Tensor:
    """Return every image as its view's number says.

    Index arithmetic and one gather: no host synchronisation, so a CUDA graph can hold it.
    """
    crops = crops_of(images)
    count_rows, count_columns = crops.grid
    column, rest = views % count_columns, views // count_columns
    rows = _span(rest % count_rows, crops.height)
    columns = _span(column, crops.width)
    if padding == "zero":
        high, wide = crops.pads
        images = functional.pad(images, (wide, wide, high, high))
    else:
        rows = _mirrored(rows - crops.pads[0], crops.height)
        columns = _mirrored(columns - crops.pads[1], crops.width)
    columns = torch.where((rest // count_rows == 0).view(-1, 1), columns, columns.flip(1))
    batch = torch.arange(len(images), device=images.device).view(-1, 1, 1)
    # Indices on both sides of the channel slice put the channels last: N×H×W×C.
    gathered = images[batch, :, rows[:, :, None], columns[:, None, :]]
    return gathered.permute(0, 3, 1, 2)


def _pad(size: int) -> int:
    return min(max(1, round(size / 8)), size - 1)


def _span(first: Tensor, size: int) -> Tensor:
    return torch.arange(size, device=first.device) + first.view(-1, 1)


def _mirrored(position: Tensor, size: int) -> Tensor:
    position = position.abs()
    return torch.where(position < size, position, 2 * (size - 1) - position)
