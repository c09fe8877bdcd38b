"""Owns a training's batch norm, with what follows it, as two kernels each way; needs Triton.

A step of a small network is a long row of short kernels. PyTorch takes five for a batch norm, a
sum with a shortcut and a ReLU, and as many for their gradients; here it is two and two. Each pair
is a pass that adds up columns and a pass that uses the sums. Sums are kept by part and added in one
order, so that the same inputs give the same bits. Refuses all but N×C×H×W in NHWC.
"""

# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import triton
from torch import Tensor
from torch.autograd.function import once_differentiable

from triprune.learning.kernels.norm_passes import (
    normalise_rows,
    pass_back,
    scale_rows,
    sum_columns,
)
from triprune.learning.kernels.tiling import in_nhwc, new_image, row_of, tile_of, vector_of

_NUMBERS = 8192  # that a program holds at once


@dataclass(frozen=True, slots=True)
class Norm:
    """The numbers of a batch norm that learn by themselves, or not at all."""

    running_mean: Tensor
    running_var: Tensor
    momentum: float
    eps: float


def suits(x: Tensor, residual: object) -> bool:
    """Whether the kernels can take ``x``, and ``residual`` beside it."""
    other = x if residual is None else residual
    if not isinstance(other, Tensor) or other.shape != x.shape or other.dtype != x.dtype:
        return False
    return x.is_floating_point() and in_nhwc(x, other) and x.numel() > x.shape[1]


def normalise(
    x: Tensor,
    residual: Tensor | None,
    affine: tuple[Tensor, Tensor],
    norm: Norm,
    *,
    rectified: bool,
) -> Tensor:
    """Return the batch norm of ``x`` in training, plus ``residual``, behind a ReLU if so asked."""
    with torch.cuda.device_of(x):  # a kernel is launched on the current device
        return _Normalise.apply(x, residual, *affine, norm, rectified)


class _Normalise(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        residual: Tensor | None,
        weight: Tensor,
        bias: Tensor,
        norm: Norm,
        rectified: bool,
    ) -> Tensor:
        sums = new_sums(x)
        add_up(x, sums)
        output, *statistics = normalised(
            x, residual, (weight, bias), norm, sums, rectified=rectified
        )
        # Without a residual, x tells what came out.
        added = residual is not None
        ctx.save_for_backward(x, output if added and rectified else None, weight, bias, *statistics)
        ctx.added, ctx.rectified = added, rectified
        return output

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, *slopes: Tensor
    ) -> Any:
        x, output, weight, bias, *statistics = ctx.saved_tensors
        given = slopes[0].contiguous(memory_format=torch.channels_last)
        slope, kept, *learned = passed_back(
            x, given, output, (weight, bias), statistics, rectified=ctx.rectified
        )
        return slope, kept if ctx.added else None, *learned, None, None


def new_sums(x: Tensor) -> Tensor:
    """Return room for the sums of every part of the rows, for each channel of ``x``."""
    channels = x.shape[1]
    parts = 128 if channels <= 32 else 64  # all who use them read them all
    return x.new_empty((parts, 2, channels), dtype=torch.float32)


def add_up(x: Tensor, sums: Tensor) -> None:
    """Add up the columns of ``x`` into ``sums``; both may be some of a larger tensor's channels."""
    tiles = _Tiles.of(x, sums)
    sum_columns[tiles.adders](
        *(x, x, x),
        *(sums, sums, sums, sums),
        x,
        sums,
        *tiles.sizes,
        backward=False,
        rectified=False,
        added=False,
        **tiles.shape,
    )


def normalised(
    x: Tensor,
    residual: Tensor | None,
    affine: tuple[Tensor, Tensor],
    norm: Norm,
    sums: Tensor,
    *,
    rectified: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return ``x`` normalised by its ``sums``, and its mean and one over its deviation."""
    tiles = _Tiles.of(x, sums)
    mean, scatter = (x.new_empty(tiles.channels, dtype=torch.float32) for _ in range(2))
    output = new_image(x, tiles.channels)
    normalise_rows[tiles.users](
        x,
        x if residual is None else residual,
        *affine,
        sums,
        norm.running_mean,
        norm.running_var,
        mean,
        scatter,
        output,
        *tiles.sizes[:2],
        norm.momentum,
        norm.eps,
        added=residual is not None,
        rectified=rectified,
        parts=sums.shape[0],
        **tiles.shape,
    )
    return output, mean, scatter


def scaled(
    x: Tensor,
    residual: Tensor | None,
    affine: tuple[Tensor, Tensor],
    norm: Norm,
    *,
    rectified: bool,
) -> Tensor:
    """Return the batch norm of ``x`` in evaluation, plus ``residual``; no gradients come of it."""
    channels = x.shape[1]
    tiles = _Tiles(x.numel() // channels, channels, channels, channels, 0)
    output = new_image(x, channels)
    with torch.cuda.device_of(x):
        scale_rows[tiles.users](
            x,
            x if residual is None else residual,
            *affine,
            norm.running_mean,
            norm.running_var,
            output,
            *tiles.sizes[:2],
            norm.eps,
            added=residual is not None,
            rectified=rectified,
            **tiles.shape,
        )
    return output


def passed_back(
    x: Tensor,
    given: Tensor,
    output: Tensor | None,
    affine: tuple[Tensor, Tensor],
    statistics: Sequence[Tensor],
    *,
    rectified: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of ``x``, of the residual, the weight and the bias.

    ``output`` is what came out where a residual was added before a ReLU.
    """
    added = output is not None
    sums = new_sums(x)
    tiles = _Tiles.of(x, sums)
    kept = torch.empty_like(given) if added else given
    sum_columns[tiles.adders](
        x,
        given,
        output if added else x,
        *affine,
        *statistics,
        kept,
        sums,
        *tiles.sizes,
        backward=True,
        rectified=rectified,
        added=added,
        **tiles.shape,
    )
    slope, slope_weight, slope_bias = (torch.empty_like(each) for each in (x, *affine))
    pass_back[tiles.users](
        x,
        kept,
        *affine,
        *statistics,
        sums,
        slope,
        slope_weight,
        slope_bias,
        *tiles.sizes[:2],
        rectified=rectified and not added,  # what was kept is rectified already
        parts=sums.shape[0],
        **tiles.shape,
    )
    return slope, kept, slope_weight, slope_bias


@dataclass(frozen=True, slots=True)
class _Tiles:
    """How a tensor's rows (the pixels of all images) and channels are divided among programs.

    ``x_row`` and ``sum_row`` are the channels of the tensors that these are some of.
    """

    rows: int
    channels: int
    x_row: int
    sum_row: int
    parts: int

    @classmethod
    def of(cls, x: Tensor, sums: Tensor) -> _Tiles:
        channels = x.shape[1]
        return cls(x.numel() // channels, channels, row_of(x), sums.stride(1), sums.shape[0])

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        size = self._vector
        return self.rows, self.channels // size, self.x_row // size, self.sum_row // size

    @property
    def shape(self) -> dict[str, int]:
        wide = tile_of(self.channels)
        return {
            "vector": self._vector,
            "tile_rows": _NUMBERS // wide,
            "tile_channels": wide,
        }

    @property
    def adders(self) -> tuple[int, int]:
        """The grid of the programs that add up."""
        return self.parts, self._across

    @property
    def users(self) -> tuple[int, int]:
        """The grid of the programs that use the sums."""
        return triton.cdiv(self.rows, self.shape["tile_rows"]), self._across

    @property
    def _vector(self) -> int:
        return vector_of(math.gcd(self.channels, self.x_row, self.sum_row))

    @property
    def _across(self) -> int:
        return triton.cdiv(self.channels, self.shape["tile_channels"])
