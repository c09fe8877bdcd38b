"""Owns a training's batch norm, with what follows it, as two kernels each way; needs Triton.

A step of a small network is a long row of short kernels. PyTorch takes five for a batch norm, a
sum with a shortcut and a ReLU, and as many for their gradients; here it is two and two. Each pair
is a pass that adds up columns and a pass that uses the sums. Sums are kept by part and added in one
order, so that the same inputs give the same bits. Refuses all but N×C×H×W in NHWC.
"""

# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
from torch import Tensor

from triprune.learning.kernels.norm_passes import normalise_rows, pass_back, sum_columns
from triprune.learning.kernels.tiling import in_nhwc, tile_of, vector_of

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
        tiles = _Tiles.of(x)
        mean, scatter = (x.new_empty(tiles.channels, dtype=torch.float32) for _ in range(2))
        sums = x.new_empty(tiles.sums, dtype=torch.float32)
        output = torch.empty_like(x)
        sum_columns[tiles.adders](
            x,
            x,
            x,
            mean,
            scatter,
            x,
            sums,
            *tiles.sizes,
            backward=False,
            rectified=False,
            keeps=False,
            **tiles.shape,
        )
        normalise_rows[tiles.users](
            x,
            x if residual is None else residual,
            weight,
            bias,
            sums,
            norm.running_mean,
            norm.running_var,
            mean,
            scatter,
            output,
            *tiles.sizes,
            norm.momentum,
            norm.eps,
            added=residual is not None,
            rectified=rectified,
            parts=tiles.parts,
            **tiles.shape,
        )
        ctx.save_for_backward(x, output if rectified else None, weight, mean, scatter)
        ctx.added = residual is not None
        return output

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        x, output, weight, mean, scatter = ctx.saved_tensors
        given = slopes[0].contiguous(memory_format=torch.channels_last)
        rectified = output is not None
        tiles = _Tiles.of(x)
        sums = x.new_empty(tiles.sums, dtype=torch.float32)
        keeps = ctx.added and rectified
        kept = torch.empty_like(x) if keeps else given
        sum_columns[tiles.adders](
            x,
            given,
            output if rectified else x,
            mean,
            scatter,
            kept,
            sums,
            *tiles.sizes,
            backward=True,
            rectified=rectified,
            keeps=keeps,
            **tiles.shape,
        )
        slope_x = torch.empty_like(x)
        slope_weight, slope_bias = torch.empty_like(weight), torch.empty_like(weight)
        pass_back[tiles.users](
            x,
            kept,
            output if rectified else x,
            weight,
            mean,
            scatter,
            sums,
            slope_x,
            slope_weight,
            slope_bias,
            *tiles.sizes,
            rectified=rectified and not keeps,  # what was kept is rectified already
            parts=tiles.parts,
            **tiles.shape,
        )
        return slope_x, kept if ctx.added else None, slope_weight, slope_bias, None, None


@dataclass(frozen=True, slots=True)
class _Tiles:
    """How a tensor's rows (the pixels of all images) and channels are divided among programs."""

    rows: int
    channels: int

    @classmethod
    def of(cls, x: Tensor) -> _Tiles:
        return cls(x.numel() // x.shape[1], x.shape[1])

    @property
    def parts(self) -> int:
        """How many parts of the rows are added up on their own: all who use them read them all."""
        return 128 if self.channels <= 32 else 64

    @property
    def sums(self) -> tuple[int, int, int]:
        return self.parts, 2, self.channels

    @property
    def sizes(self) -> tuple[int, int]:
        return self.rows, self.channels // vector_of(self.channels)

    @property
    def shape(self) -> dict[str, int]:
        wide = tile_of(self.channels)
        return {
            "vector": vector_of(self.channels),
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
    def _across(self) -> int:
        return triton.cdiv(self.channels, self.shape["tile_channels"])
