"""Owns the mean of every 2×2 pixels, and its gradient, as kernels; needs Triton.

PyTorch's kernels for NHWC take far longer than reading and writing does. Refuses all but NHWC.
"""

# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from triprune.learning.kernels.compiling import kernel
from triprune.learning.kernels.tiling import in_nhwc, new_image, tile_of, vector_of

_NUMBERS = 2048  # that a program writes


@kernel
def _halve(
    x,
    output,
    rows,
    height,
    width,
    tall,
    wide,
    vectors,
    vector: tl.constexpr,
    tile_rows: tl.constexpr,
    tile_channels: tl.constexpr,
):
    """Write these pixels of images of height × width, made of larger ones of tall × wide."""
    channels = vectors * vector
    channel = tl.program_id(1) * tile_channels + tl.arange(0, tile_channels)
    row = tl.program_id(0) * tile_rows + tl.arange(0, tile_rows)
    inside = (row < rows)[:, None] & (channel < channels)[None, :]
    image, down, across = row // (height * width), row // width % height, row % width
    first = (image * tall + 2 * down) * wide + 2 * across  # the upper left of its four
    total = tl.zeros([tile_rows, tile_channels], tl.float32)
    for number in tl.static_range(4):  # pyright: ignore[reportGeneralTypeIssues]
        there = first + (number // 2) * wide + number % 2
        place = x + there[:, None] * channels + channel[None, :]
        total += tl.load(place, mask=inside, other=0.0).to(tl.float32)
    place = output + row[:, None] * channels + channel[None, :]
    tl.store(place, (total / 4).to(output.dtype.element_ty), mask=inside)


@kernel
def _spread(
    slope,
    output,
    rows,
    height,
    width,
    tall,
    wide,
    vectors,
    vector: tl.constexpr,
    tile_rows: tl.constexpr,
    tile_channels: tl.constexpr,
):
    """Write these pixels' gradients, of height × width, from the smaller images' of tall × wide."""
    channels = vectors * vector
    channel = tl.program_id(1) * tile_channels + tl.arange(0, tile_channels)
    row = tl.program_id(0) * tile_rows + tl.arange(0, tile_rows)
    inside = (row < rows)[:, None] & (channel < channels)[None, :]
    image, down, across = row // (height * width), row // width % height // 2, row % width // 2
    seen = (down < tall) & (across < wide)  # an odd last line is not
    place = slope + ((image * tall + down) * wide + across)[:, None] * channels + channel[None, :]
    value = tl.load(place, mask=inside & seen[:, None], other=0.0).to(tl.float32) / 4
    place = output + row[:, None] * channels + channel[None, :]
    tl.store(place, value.to(output.dtype.element_ty), mask=inside)


def suits(x: Tensor) -> bool:
    """Whether the kernels can take ``x``."""
    large = x.dim() == 4 and min(x.shape[2:]) > 1
    return large and x.numel() > 0 and x.is_floating_point() and in_nhwc(x)


def halve(x: Tensor) -> Tensor:
    """Return the mean of every 2×2 pixels; an odd last line is left out."""
    with torch.cuda.device_of(x):  # a kernel is launched on the current device
        return _Halve.apply(x)  # pyright: ignore[reportReturnType]


class _Halve(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        height, width = ctx.size = x.shape[2:]
        return _written(_halve, x, (height // 2, width // 2))

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, *slopes: Tensor
    ) -> Any:
        given = slopes[0].contiguous(memory_format=torch.channels_last)
        return _written(_spread, given, ctx.size)


def _written(function: Any, x: Tensor, size: Sequence[int]) -> Tensor:
    """Return what the kernel makes of ``x``, in this size."""
    _, channels, tall, wide = x.shape
    output = new_image(x, channels, size)
    vector, tile = vector_of(channels), tile_of(channels)
    rows, tile_rows = output.numel() // channels, _NUMBERS // tile
    function[(triton.cdiv(rows, tile_rows), triton.cdiv(channels, tile))](
        x,
        output,
        rows,
        *size,
        tall,
        wide,
        channels // vector,
        vector=vector,
        tile_rows=tile_rows,
        tile_channels=tile,
    )
    return output
