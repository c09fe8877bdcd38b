"""Owns a block of densely connected layers, as kernels; needs Triton.

Each layer normalises all channels so far, rectifies and convolves them, and sets the result behind
them. PyTorch copies all channels in every layer, and adds as many on the way back. Here there is
one tensor for the block: a layer writes its own channels, what a channel's sums are is known
from the layer that wrote it, and what a convolution is given is made of the block as it is read.
Refuses all but NHWC, and layers that the other kernels refuse.
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

from triprune.learning.kernels.dense_back import looked_back, places_of, repaid, settled_back
from triprune.learning.kernels.dense_passes import add_taps, project, settle
from triprune.learning.kernels.norm import Norm, add_up, new_sums
from triprune.learning.kernels.tiling import (
    LARGEST,
    in_nhwc,
    new_image,
    room_for,
    row_of,
    tile_of,
    vector_of,
)

_MOST_PRODUCTS = 128  # of a pixel, by taps and outputs: a program holds them all


@dataclass(frozen=True, slots=True)
class Layer:
    """A batch norm, and the convolution behind it and a ReLU."""

    norm: Norm
    weight: Tensor
    bias: Tensor
    filters: Tensor

    @property
    def parameters(self) -> tuple[Tensor, Tensor, Tensor]:
        """What learns by gradients."""
        return self.weight, self.bias, self.filters


def suits(x: Tensor, filters: Sequence[Tensor]) -> bool:
    """Whether the kernels can take ``x`` and layers of these filters, which suit them each."""
    channels = x.shape[1] + sum(each.shape[0] for each in filters)
    most = 9 * max(each.shape[0] for each in filters)
    return (
        most <= _MOST_PRODUCTS
        and in_nhwc(x, *filters)
        and all(each.dtype == x.dtype for each in filters)
        and x.numel() > x.shape[1]
        and x.numel() // x.shape[1] * max(channels, most) < LARGEST
    )


def dense_block(x: Tensor, layers: Sequence[Layer]) -> Tensor:
    """Return ``x`` and behind it the channels of every layer, each made of all before it."""
    parameters = [each for layer in layers for each in layer.parameters]
    with torch.cuda.device_of(x):  # a kernel is launched on the current device
        return _DenseBlock.apply(x, [layer.norm for layer in layers], *parameters)


def dense_block_as_learned(x: Tensor, layers: Sequence[Layer]) -> Tensor:
    """Return the same in evaluation, by the running statistics; no gradients come of it."""
    seen = x.shape[1]
    block = new_image(x, seen + sum(layer.filters.shape[0] for layer in layers))
    block[:, :seen] = x
    with torch.cuda.device_of(x):
        for layer in layers:
            scatter = (layer.norm.running_var + layer.norm.eps).rsqrt()
            numbers = layer.norm.running_mean, scatter, layer.weight, layer.bias
            own = slice(seen, seen + layer.filters.shape[0])
            _convolve(block[:, :seen], numbers, layer.filters, block[:, own])
            seen = own.stop
    return block


class _DenseBlock(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, norms: Sequence[Norm], *parameters: Tensor) -> Tensor:
        fresh, filters = slice(0, x.shape[1]), parameters[2::3]
        block = new_image(x, fresh.stop + sum(each.shape[0] for each in filters))
        sums = new_sums(block)
        block[:, fresh] = x
        kept: list[Tensor] = []
        for norm, weight, bias, each in zip(norms, *_by_kind(parameters), strict=True):
            add_up(block[:, fresh], sums[:, :, fresh])
            seen = block[:, : fresh.stop]
            kept += _settled(seen, sums, norm)
            fresh = slice(fresh.stop, fresh.stop + each.shape[0])
            _convolve(seen, (*kept[-2:], weight, bias), each, block[:, fresh])
        ctx.save_for_backward(block, *parameters, *kept)
        return block

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, *slopes: Tensor
    ) -> Any:
        block, *others = ctx.saved_tensors
        layers = len(others) // 5
        parameters, kept = others[: 3 * layers], others[3 * layers :]
        # Every layer adds to the gradient of all channels before its own, in this one tensor, and
        # notes what they owe for being centred; a channel pays when its gradient is asked for.
        slope = slopes[0].clone(memory_format=torch.channels_last)
        owed = block.new_zeros((3, block.shape[1]), dtype=torch.float32)
        places = places_of(block)
        channels, learned = block.shape[1], list[Tensor]()
        rows = zip(*_by_kind(parameters), kept[::2], kept[1::2], strict=True)
        for weight, bias, filters, *statistics in reversed(list(rows)):
            own = slice(channels - filters.shape[0], channels)
            given = repaid(slope[:, own], block[:, own], owed[:, own], border=1)
            channels = own.start
            seen, before = block[:, :channels], slope[:, :channels]
            numbers = *statistics, weight, bias
            sums, found = looked_back(seen, numbers, filters, (given, places), before)
            learned[:0] = [*settled_back(sums, numbers, owed, len(places)), found]
        if not ctx.needs_input_grad[0]:
            return None, None, *learned
        seen = slice(0, channels)
        return repaid(slope[:, seen], block[:, seen], owed[:, seen], border=0), None, *learned


def _settled(x: Tensor, sums: Tensor, norm: Norm) -> tuple[Tensor, Tensor]:
    """Return the mean of every channel and one over its deviation; ``norm`` follows them."""
    channels = x.shape[1]
    mean, scatter = (x.new_empty(channels, dtype=torch.float32) for _ in range(2))
    tile = tile_of(channels)
    settle[(triton.cdiv(channels, tile),)](
        x,
        sums,
        norm.running_mean,
        norm.running_var,
        mean,
        scatter,
        x.numel() // channels,
        channels,
        sums.stride(1),
        norm.momentum,
        norm.eps,
        parts=sums.shape[0],
        tile_channels=tile,
    )
    return mean, scatter


def _convolve(x: Tensor, numbers: Sequence[Tensor], filters: Tensor, output: Tensor) -> None:
    """Write the convolution of ``x``, normalised and rectified by these ``numbers``."""
    images, ins, height, width = x.shape
    outs, rows = filters.shape[0], images * height * width
    in_vector = vector_of(math.gcd(ins, row_of(x)))
    out_vector = vector_of(math.gcd(outs, row_of(output)))
    # Nine numbers are rounded before they are added: too coarse in eight bits.
    exact = x.dtype if x.dtype == torch.float16 else torch.float32
    products = x.new_empty((rows, 9 * outs), dtype=exact)
    tile_rows = 128 if rows >= 2**14 else 64
    project[(triton.cdiv(rows, tile_rows),)](
        x,
        *numbers,
        filters,
        products,
        rows,
        ins // in_vector,
        row_of(x) // in_vector,
        outs // out_vector,
        in_vector=in_vector,
        out_vector=out_vector,
        tile_rows=tile_rows,
        tile_in=tile_of(ins),
        tile_products=room_for(9 * outs),
        num_warps=4,
        num_stages=3,
    )
    tile_rows, tile_out = 128, tile_of(outs)
    add_taps[(triton.cdiv(rows, tile_rows), triton.cdiv(outs, tile_out))](
        products,
        output,
        rows,
        height,
        width,
        outs // out_vector,
        row_of(output) // out_vector,
        out_vector=out_vector,
        tile_rows=tile_rows,
        tile_out=tile_out,
    )


def _by_kind(tensors: Sequence[Tensor]) -> tuple[Sequence[Tensor], ...]:
    """Return the first, the second and the third of every layer."""
    return tensors[::3], tensors[1::3], tensors[2::3]
