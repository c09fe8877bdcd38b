"""Owns the 3×3 convolution of few channels, and its gradients, as kernels; needs Triton.

cuDNN's kernels are made for 64 channels and more: with 16 they compute three quarters for nothing,
and counts that are no multiple of eight they copy first. Here a program takes as many as there
are. Refuses other strides, paddings, groups and layouts, and fp32.
"""

# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false
from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from triprune.learning.kernels.compiling import kernel
from triprune.learning.kernels.tiling import (
    LARGEST,
    in_nhwc,
    new_image,
    tile_of,
    vector_of,
)

_MOST_PARTS = 256  # into which the pixels are divided to add up the gradient of the weights
_ROWS_A_PART = 256  # at least
_PRODUCTS = 1024  # that a program adds up at once, for each of three taps


@triton.jit
def _weights(weight, tap, channel, out_channel, ins, outs, turned: tl.constexpr):
    """Return a tap's weights as inputs × outputs; ``turned``, those that lead back."""
    if turned:
        place = (channel[:, None] * 9 + 8 - tap) * outs + out_channel[None, :]
    else:
        place = (out_channel[None, :] * 9 + tap) * ins + channel[:, None]
    real = (channel < ins)[:, None] & (out_channel < outs)[None, :]
    return tl.load(weight + place, mask=real, other=0.0)


@kernel
def _convolve(
    x,
    weight,
    output,
    rows,
    height,
    width,
    in_vectors,
    out_vectors,
    turned: tl.constexpr,
    in_vector: tl.constexpr,
    out_vector: tl.constexpr,
    tile_rows: tl.constexpr,
    tile_in: tl.constexpr,
    tile_out: tl.constexpr,
):
    """Convolve these pixels; ``turned``, with gradients of outputs for those of inputs.

    In NHWC a pixel's neighbour lies a fixed number of rows away; beyond the border it is zero.
    """
    ins, outs = in_vectors * in_vector, out_vectors * out_vector
    row = tl.program_id(0) * tile_rows + tl.arange(0, tile_rows)
    across, down = row % width, (row // width) % height
    out_channel = tl.program_id(1) * tile_out + tl.arange(0, tile_out)
    total = tl.zeros([tile_rows, tile_out], tl.float32)
    blocks = tl.cdiv(ins, tile_in)
    for step in range(0, 9 * blocks):
        tap = step // blocks
        below, right = tap // 3 - 1, tap % 3 - 1
        seen = (row < rows) & (down + below >= 0) & (down + below < height)
        seen = seen & (across + right >= 0) & (across + right < width)
        channel = (step % blocks) * tile_in + tl.arange(0, tile_in)
        place = (row + below * width + right)[:, None] * ins + channel[None, :]
        values = tl.load(x + place, mask=seen[:, None] & (channel < ins)[None, :], other=0.0)
        factors = _weights(weight, tap, channel, out_channel, ins, outs, turned)
        total = tl.dot(values, factors, total)
    place = row[:, None] * outs + out_channel[None, :]
    wanted = (row < rows)[:, None] & (out_channel < outs)[None, :]
    tl.store(output + place, total.to(output.dtype.element_ty), mask=wanted)


@kernel
def _correlate(
    x,
    slope,
    sums,
    rows,
    height,
    width,
    in_vectors,
    out_vectors,
    steps,
    in_vector: tl.constexpr,
    out_vector: tl.constexpr,
    tile_rows: tl.constexpr,
    tile_in: tl.constexpr,
    tile_out: tl.constexpr,
):
    """Add up products of outputs' gradients and inputs over this part of the pixels.

    A program does the three taps of one line of the filter.
    """
    ins, outs = in_vectors * in_vector, out_vectors * out_vector
    line = tl.program_id(1)
    blocks = tl.cdiv(ins, tile_in)
    channel = (tl.program_id(2) % blocks) * tile_in + tl.arange(0, tile_in)
    out_channel = (tl.program_id(2) // blocks) * tile_out + tl.arange(0, tile_out)
    real, out_real = channel < ins, out_channel < outs
    left = tl.zeros([tile_out, tile_in], tl.float32)
    middle = tl.zeros([tile_out, tile_in], tl.float32)
    right = tl.zeros([tile_out, tile_in], tl.float32)
    for step in range(0, steps):
        row = (tl.program_id(0) * steps + step) * tile_rows + tl.arange(0, tile_rows)
        across, down = row % width, (row // width) % height
        place = slope + row[:, None] * outs + out_channel[None, :]
        given = tl.load(place, mask=(row < rows)[:, None] & out_real[None, :], other=0.0)
        given = tl.trans(given)
        seen = (row < rows) & (down + line > 0) & (down + line <= height)
        place = x + (row + (line - 1) * width)[:, None] * ins + channel[None, :]
        inside = (seen & (across > 0))[:, None] & real[None, :]
        left = tl.dot(given, tl.load(place - ins, mask=inside, other=0.0), left)
        inside = seen[:, None] & real[None, :]
        middle = tl.dot(given, tl.load(place, mask=inside, other=0.0), middle)
        inside = (seen & (across < width - 1))[:, None] & real[None, :]
        right = tl.dot(given, tl.load(place + ins, mask=inside, other=0.0), right)
    place = sums + tl.program_id(0) * outs * 9 * ins
    place += (out_channel * 9 + line * 3)[:, None] * ins + channel[None, :]
    wanted = out_real[:, None] & real[None, :]
    tl.store(place, left, mask=wanted)
    tl.store(place + ins, middle, mask=wanted)
    tl.store(place + 2 * ins, right, mask=wanted)


@kernel
def _add_parts(sums, output, count, parts: tl.constexpr, tile: tl.constexpr):
    """Add up the parts of these numbers, always in the same order."""
    number = tl.program_id(0) * tile + tl.arange(0, tile)
    place = tl.arange(0, parts)[:, None] * count + number[None, :]
    total = tl.sum(tl.load(sums + place, mask=(number < count)[None, :], other=0.0), 0)
    tl.store(output + number, total.to(output.dtype.element_ty), mask=number < count)


def suits(conv: nn.Conv2d, x: Tensor) -> bool:
    """Whether the kernels can take this convolution of ``x``, and were seen to be faster."""
    return (
        suited(conv)
        and x.dtype == conv.weight.dtype
        and in_nhwc(x, conv.weight)
        and x.numel() // conv.in_channels * conv.out_channels < LARGEST
    )


def suited(conv: nn.Conv2d) -> bool:
    """Whether the kernels can take this convolution of inputs like its weights."""
    return (
        conv.kernel_size == (3, 3)
        and conv.stride == conv.padding == conv.dilation == (1, 1)
        and conv.groups == 1
        and conv.bias is None
        and conv.padding_mode == "zeros"
        and conv.in_channels >= 8
        and conv.out_channels <= 64
        and conv.weight.dtype in (torch.float16, torch.bfloat16)
    )


def convolve(x: Tensor, weight: Tensor) -> Tensor:
    """Return the 3×3 convolution of ``x``, as large as ``x``; both in NHWC."""
    with torch.cuda.device_of(x):  # a kernel is launched on the current device
        return _Convolve.apply(x, weight)  # pyright: ignore[reportReturnType]


class _Convolve(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _convolved(x, weight, weight.shape[0], turned=False)

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, *slopes: Tensor
    ) -> Any:
        x, weight = ctx.saved_tensors
        given = slopes[0].contiguous(memory_format=torch.channels_last)
        back, learned = ctx.needs_input_grad
        slope = _convolved(given, weight, x.shape[1], turned=True) if back else None
        return slope, _correlated(x, given, weight) if learned else None


def _convolved(x: Tensor, weight: Tensor, outs: int, *, turned: bool) -> Tensor:
    """Return the convolution of ``x``; ``turned``, of outputs' gradients, those of the inputs."""
    images, ins, height, width = x.shape
    output = new_image(x, outs)
    in_vector, out_vector = vector_of(ins), vector_of(outs)
    rows, tile_out = images * height * width, tile_of(outs)
    tile_rows = 64 if tile_out == 64 else 128
    _convolve[(triton.cdiv(rows, tile_rows), triton.cdiv(outs, tile_out))](
        x,
        weight,
        output,
        rows,
        height,
        width,
        ins // in_vector,
        outs // out_vector,
        turned=turned,
        in_vector=in_vector,
        out_vector=out_vector,
        tile_rows=tile_rows,
        tile_in=tile_of(ins),
        tile_out=tile_out,
        num_warps=_warps(ins, tile_out),
        num_stages=3,
    )
    return output


def _warps(ins: int, tile_out: int) -> int:
    """Return what was fastest: two warps of few numbers, eight where there is much to read."""
    if tile_out > 16:
        return 4
    return 2 if ins <= 64 else 8


def _correlated(x: Tensor, given: Tensor, weight: Tensor) -> Tensor:
    """Return the gradient of the weights."""
    images, ins, height, width = x.shape
    outs, rows, tile_rows = given.shape[1], images * height * width, 64
    in_vector, out_vector = vector_of(ins), vector_of(outs)
    parts = min(_MOST_PARTS, triton.next_power_of_2(max(1, rows // _ROWS_A_PART)))
    tile_out = tile_of(outs)
    tile_in = min(tile_of(ins), _PRODUCTS // tile_out)
    sums = weight.new_empty((parts, weight.numel()), dtype=torch.float32)
    blocks = triton.cdiv(ins, tile_in) * triton.cdiv(outs, tile_out)
    _correlate[(parts, 3, blocks)](
        x,
        given,
        sums,
        rows,
        height,
        width,
        ins // in_vector,
        outs // out_vector,
        triton.cdiv(triton.cdiv(rows, parts), tile_rows),
        in_vector=in_vector,
        out_vector=out_vector,
        tile_rows=tile_rows,
        tile_in=tile_in,
        tile_out=tile_out,
        num_warps=4 if tile_out == 64 else 2,
        num_stages=1,
    )
    slope = torch.empty_like(weight)
    add_parts(sums, slope)
    return slope


def add_parts(sums: Tensor, output: Tensor) -> None:
    """Write to ``output`` the sum over a power of two of parts."""
    count, tile = output.numel(), 64
    _add_parts[(triton.cdiv(count, tile),)](sums, output, count, parts=len(sums), tile=tile)
