"""Owns the mean of every 2×2 pixels, and its gradient, as kernels; needs Triton.

PyTorch's kernels for NHWC take ten times what reading and writing does. Refuses all but NHWC.
"""

# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false
from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from triprune.learning.kernels.compiling import kernel
from triprune.learning.kernels.tiling import in_nhwc, tile_of, vector_of

_NUMBERS = 2048  # that a program writes


@kernel
def _halve(
    x,
    output,
    rows,
    width,
    vectors,
    vector: tl.constexpr,
    tile_rows: tl.constexpr,
    tile_channels: tl.constexpr,
):
    """Write these pixels of the smaller image, ``width`` wide."""
    channels = vectors * vector
    channel = tl.program_id(1) * tile_channels + tl.arange(0, tile_channels)
    row = tl.program_id(0) * tile_rows + tl.arange(0, tile_rows)
    inside = (row < rows)[:, None] & (channel < channels)[None, :]
    first = (row // width) * 4 * width + row % width * 2  # the upper left of its four
    total = tl.zeros([tile_rows, tile_channels], tl.float32)
    for number in tl.static_range(4):  # pyright: ignore[reportGeneralTypeIssues]
        there = first + (number // 2) * 2 * width + number % 2
        place = x + there[:, None] * channels + channel[None, :]
        total += tl.load(place, mask=inside, other=0.0).to(tl.float32)
    place = output + row[:, None] * channels + channel[None, :]
    tl.store(place, (total / 4).to(output.dtype.element_ty), mask=inside)


@kernel
def _spread(
    slope,
    output,
    rows,
    width,
    vectors,
    vector: tl.constexpr,
    tile_rows: tl.constexpr,
    tile_channels: tl.constexpr,
):
    """Write these pixels of the larger image's gradient, ``width`` wide."""
    channels = vectors * vector
    channel = tl.program_id(1) * tile_channels + tl.arange(0, tile_channels)
    row = tl.program_id(0) * tile_rows + tl.arange(0, tile_rows)
    inside = (row < rows)[:, None] & (channel < channels)[None, :]
    there = (row // width // 2) * (width // 2) + row % width // 2
    place = slope + there[:, None] * channels + channel[None, :]
    value = tl.load(place, mask=inside, other=0.0).to(tl.float32) / 4
    place = output + row[:, None] * channels + channel[None, :]
    tl.store(place, value.to(output.dtype.element_ty), mask=inside)


def suits(x: Tensor) -> bool:
    """Whether the kernels can take ``x``: no pixel may be left over."""
    even = x.dim() == 4 and x.shape[2] % 2 == 0 and x.shape[3] % 2 == 0
    return even and x.numel() > 0 and x.is_floating_point() and in_nhwc(x)


def halve(x: Tensor) -> Tensor:
    """Return the mean of every 2×2 pixels."""
    with torch.cuda.device_of(x):  # a kernel is launched on the current device
        return _Halve.apply(x)  # pyright: ignore[reportReturnType]


class _Halve(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:  # noqa: ARG004
        images, channels, height, width = x.shape
        return _written(_halve, x, (images, channels, height // 2, width // 2))

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:  # noqa: ARG004
        given = slopes[0].contiguous(memory_format=torch.channels_last)
        images, channels, height, width = given.shape
        return _written(_spread, given, (images, channels, 2 * height, 2 * width))


def _written(kernel: Any, x: Tensor, shape: tuple[int, int, int, int]) -> Tensor:
    """Return what the kernel makes of ``x``, in this shape."""
    kind = {"dtype": x.dtype, "device": x.device}
    output = torch.empty(shape, **kind, memory_format=torch.channels_last)
    channels, width = shape[1], shape[3]
    vector, wide = vector_of(channels), tile_of(channels)
    rows, tile_rows = output.numel() // channels, _NUMBERS // wide
    kernel[(triton.cdiv(rows, tile_rows), triton.cdiv(channels, wide))](
        x,
        output,
        rows,
        width,
        channels // vector,
        vector=vector,
        tile_rows=tile_rows,
        tile_channels=wide,
    )
    return output
