"""Owns a block of densely connected layers, as kernels; needs Triton.

Each layer normalises all channels so far, rectifies and convolves them, and sets the result behind
them. PyTorch copies all channels in every layer, and adds as many on the way back. Here there is
one tensor for the block: a layer writes its own channels, and what a channel's sums are is known
from the layer that wrote it. Refuses all but NHWC, and layers that the other kernels refuse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from triprune.learning.kernels.conv import convolve_into, correlated
from triprune.learning.kernels.norm import (
    Norm,
    add_up,
    new_sums,
    normalised,
    passed_back,
    scaled,
)
from triprune.learning.kernels.tiling import LARGEST, in_nhwc, new_image


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
    return (
        in_nhwc(x, *filters)
        and all(each.dtype == x.dtype for each in filters)
        and x.numel() > x.shape[1]
        and x.numel() // x.shape[1] * channels < LARGEST
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
            affine, own = (layer.weight, layer.bias), slice(seen, seen + layer.filters.shape[0])
            y = scaled(block[:, :seen], None, affine, layer.norm, rectified=True)
            convolve_into(block[:, own], y, layer.filters, turned=False)
            seen = own.stop
    return block


class _DenseBlock(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, norms: Sequence[Norm], *parameters: Tensor) -> Tensor:
        fresh, filters = slice(0, x.shape[1]), parameters[2::3]
        block = new_image(x, fresh.stop + sum(each.shape[0] for each in filters))
        sums = new_sums(block)
        block[:, fresh] = x
        made: list[Tensor] = []
        for norm, weight, bias, each in zip(norms, *_by_kind(parameters), strict=True):
            add_up(block[:, fresh], sums[:, :, fresh])
            known = block[:, : fresh.stop], sums[:, :, : fresh.stop]
            made += normalised(known[0], None, (weight, bias), norm, known[1], rectified=True)
            fresh = slice(fresh.stop, fresh.stop + each.shape[0])
            convolve_into(block[:, fresh], made[-3], each, turned=False)
        ctx.save_for_backward(block, *parameters, *made)
        return block

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        block, *others = ctx.saved_tensors
        half = len(others) // 2
        # Every layer adds to the gradient of all channels before its own, in this one tensor.
        slope = slopes[0].clone(memory_format=torch.channels_last)
        seen, learned = block.shape[1], list[Tensor]()
        layers = zip(*_by_kind(others[:half]), *_by_kind(others[half:]), strict=True)
        for weight, _, filters, output, mean, scatter in reversed(list(layers)):
            own = slice(seen - filters.shape[0], seen)
            given = slope[:, own].contiguous(memory_format=torch.channels_last)
            seen = own.start
            back = new_image(block, seen)
            convolve_into(back, given, filters, turned=True)
            _, *affine = passed_back(
                block[:, :seen],
                back,
                output,
                weight,
                (mean, scatter),
                slope[:, :seen],
                keeps=False,
                adds=True,
            )
            learned[:0] = [*affine, correlated(output, given, filters)]
        return slope[:, :seen], None, *learned


def _by_kind(tensors: Sequence[Tensor]) -> tuple[Sequence[Tensor], ...]:
    """Return the first, the second and the third of every layer."""
    return tensors[::3], tensors[1::3], tensors[2::3]
