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
import triton.language as tl
from torch import Tensor

from triprune.learning.kernels.tiling import in_nhwc, tile_of, vector_of

_NUMBERS = 8192  # that a program holds at once


@triton.jit
def _sum_columns(
    x,
    given,
    output,
    mean,
    scatter,
    kept,
    sums,
    rows,
    vectors,
    backward: tl.constexpr,
    rectified: tl.constexpr,
    keeps: tl.constexpr,
    vector: tl.constexpr,
    tile_rows: tl.constexpr,
    tile_channels: tl.constexpr,
):
    """Add up two numbers a channel over this part of the rows.

    Forward: x and x², both less the first row, so that a large mean takes no digits. Backward: the
    gradient behind the ReLU, and its product with the normalised x; ``kept`` takes that gradient.
    """
    part = tl.program_id(0)
    channels = vectors * vector
    channel = tl.program_id(1) * tile_channels + tl.arange(0, tile_channels)
    real = channel < channels
    steps = tl.cdiv(tl.cdiv(rows, tl.num_programs(0)), tile_rows)
    first = tl.zeros([tile_rows, tile_channels], tl.float32)
    second = tl.zeros([tile_rows, tile_channels], tl.float32)
    if backward:
        centre = tl.load(mean + channel, mask=real, other=0.0)
        factor = tl.load(scatter + channel, mask=real, other=0.0)
    else:
        centre = tl.load(x + channel, mask=real, other=0.0).to(tl.float32)
        factor = centre  # not used
    for step in range(0, steps):
        row = (part * steps + step) * tile_rows + tl.arange(0, tile_rows)
        inside = (row < rows)[:, None] & real[None, :]
        place = row[:, None] * channels + channel[None, :]
        value = tl.load(x + place, mask=inside, other=0.0).to(tl.float32) - centre[None, :]
        if backward:
            slope = tl.load(given + place, mask=inside, other=0.0)
            if rectified:
                closed = tl.load(output + place, mask=inside, other=0.0) <= 0
                slope = tl.where(closed, 0.0, slope).to(slope.dtype)
            if keeps:
                tl.store(kept + place, slope, mask=inside)
            slope = slope.to(tl.float32)
            first += slope
            second += slope * value * factor[None, :]
        else:
            value = tl.where(inside, value, 0.0)
            first += value
            second += value * value
    where = sums + part * 2 * channels + channel
    tl.store(where, tl.sum(first, 0), mask=real)
    tl.store(where + channels, tl.sum(second, 0), mask=real)


@triton.jit
def _totals(sums, channels, channel, real, parts: tl.constexpr):
    """Return both numbers of every channel, over all parts."""
    part = tl.arange(0, parts)
    where = sums + part[:, None] * 2 * channels + channel[None, :]
    first = tl.load(where, mask=real[None, :], other=0.0)
    second = tl.load(where + channels, mask=real[None, :], other=0.0)
    return tl.sum(first, 0), tl.sum(second, 0)


@triton.jit
def _normalise(
    x,
    residual,
    weight,
    bias,
    sums,
    running_mean,
    running_var,
    mean,
    scatter,
    output,
    rows,
    vectors,
    momentum,
    eps,
    added: tl.constexpr,
    rectified: tl.constexpr,
    vector: tl.constexpr,
    parts: tl.constexpr,
    tile_rows: tl.constexpr,
    tile_channels: tl.constexpr,
):
    """Normalise these rows, add the residual, rectify; the first program keeps the statistics."""
    channels = vectors * vector
    channel = tl.program_id(1) * tile_channels + tl.arange(0, tile_channels)
    real = channel < channels
    total, squares = _totals(sums, channels, channel, real, parts)
    away = total / rows  # of the mean from the first row
    variance = squares / rows - away * away
    variance = tl.where(variance < 0, 0.0, variance)
    centre = tl.load(x + channel, mask=real, other=0.0).to(tl.float32) + away
    one_over = 1.0 / tl.sqrt(variance + eps)
    if tl.program_id(0) == 0:
        tl.store(mean + channel, centre, mask=real)
        tl.store(scatter + channel, one_over, mask=real)
        before = tl.load(running_mean + channel, mask=real, other=0.0)
        tl.store(running_mean + channel, before + momentum * (centre - before), mask=real)
        unbiased = variance * (rows / (rows - 1.0))
        before = tl.load(running_var + channel, mask=real, other=0.0)
        tl.store(running_var + channel, before + momentum * (unbiased - before), mask=real)
    factor = one_over * tl.load(weight + channel, mask=real, other=0.0)
    shift = tl.load(bias + channel, mask=real, other=0.0)
    row = tl.program_id(0) * tile_rows + tl.arange(0, tile_rows)
    inside = (row < rows)[:, None] & real[None, :]
    place = row[:, None] * channels + channel[None, :]
    value = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
    value = (value - centre[None, :]) * factor[None, :] + shift[None, :]
    if added:
        value += tl.load(residual + place, mask=inside, other=0.0).to(tl.float32)
    if rectified:
        value = tl.where(value < 0, 0.0, value)  # a maximum would swallow NaN
    tl.store(output + place, value.to(output.dtype.element_ty), mask=inside)


@triton.jit
def _pass_back(
    x,
    given,
    output,
    weight,
    mean,
    scatter,
    sums,
    slope_x,
    slope_weight,
    slope_bias,
    rows,
    vectors,
    rectified: tl.constexpr,
    vector: tl.constexpr,
    parts: tl.constexpr,
    tile_rows: tl.constexpr,
    tile_channels: tl.constexpr,
):
    """Return these rows' gradient of x; the first program keeps those of weight and bias."""
    channels = vectors * vector
    channel = tl.program_id(1) * tile_channels + tl.arange(0, tile_channels)
    real = channel < channels
    total, product = _totals(sums, channels, channel, real, parts)
    if tl.program_id(0) == 0:
        tl.store(slope_bias + channel, total, mask=real)
        tl.store(slope_weight + channel, product, mask=real)
    centre = tl.load(mean + channel, mask=real, other=0.0)
    one_over = tl.load(scatter + channel, mask=real, other=0.0)
    factor = one_over * tl.load(weight + channel, mask=real, other=0.0)
    common, along = total / rows, product / rows * one_over
    row = tl.program_id(0) * tile_rows + tl.arange(0, tile_rows)
    inside = (row < rows)[:, None] & real[None, :]
    place = row[:, None] * channels + channel[None, :]
    slope = tl.load(given + place, mask=inside, other=0.0).to(tl.float32)
    if rectified:
        closed = tl.load(output + place, mask=inside, other=0.0) <= 0
        slope = tl.where(closed, 0.0, slope)
    value = tl.load(x + place, mask=inside, other=0.0).to(tl.float32) - centre[None, :]
    slope = (slope - common[None, :] - value * along[None, :]) * factor[None, :]
    tl.store(slope_x + place, slope.to(slope_x.dtype.element_ty), mask=inside)


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
        _sum_columns[tiles.adders](
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
        _normalise[tiles.users](
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
        _sum_columns[tiles.adders](
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
        _pass_back[tiles.users](
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
