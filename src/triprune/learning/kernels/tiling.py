"""Owns how images lie in memory and are divided among programs; refuses to know what those do."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
from torch import Tensor

_MOST_IDLE = 1.25  # channels that programs make room for, over those that are there
LARGEST = 2**31  # numbers that 32-bit indices can tell apart


def in_nhwc(*tensors: Tensor) -> bool:
    """Whether all are N×C×H×W, held in NHWC, and small enough for the kernels' indices."""
    return all(
        each.dim() == 4
        and each.numel() < LARGEST
        and each.is_contiguous(memory_format=torch.channels_last)
        for each in tensors
    )


def new_image(x: Tensor, channels: int, size: Sequence[int] | None = None) -> Tensor:
    """Return room for as many images as ``x`` has, of its size or another, in NHWC; no view."""
    shape, kind = (len(x), channels, *(size or x.shape[2:])), {"dtype": x.dtype, "device": x.device}
    return torch.empty(shape, **kind, memory_format=torch.channels_last)


def row_of(x: Tensor) -> int:
    """Return how far a pixel is from the next: its channels, or those that these are some of."""
    return x.shape[1] if x.is_contiguous(memory_format=torch.channels_last) else x.stride(3)


def tile_of(channels: int) -> int:
    """Return how many channels a program takes: many, but not many more than there are."""
    padded = {tile: -(-channels // tile) * tile for tile in (64, 32, 16)}
    few_idle = [tile for tile, room in padded.items() if room <= _MOST_IDLE * channels]
    return few_idle[0] if few_idle else min(padded, key=padded.__getitem__)


def vector_of(channels: int) -> int:
    """Return how many channels surely lie side by side at an even place: they are read at once.

    A kernel is told the number of such vectors, so that its compiler knows it too.
    """
    return next(size for size in (8, 4, 2, 1) if channels % size == 0)


def room_for(numbers: int) -> int:
    """Return how many numbers a program makes room for: a power of two, enough for a product."""
    return triton.next_power_of_2(max(16, numbers))
