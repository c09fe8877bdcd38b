"""Owns proving a cut network right: it must equal the original with the same channels masked.

Masking means that no layer reads the channels left out; what is computed in them is of no account.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd
from torch.utils._pytree import tree_leaves

from triprune.network.channels.flow import ChannelFlow
from triprune.network.channels.layers import is_transposed
from triprune.network.slicing import Cuts, Index, LayerCut, sharing_copy

TOLERANCE = 1e-4
"""Of the largest output. Another order of sums makes about 1e-6, a wrong channel far more."""


class _OnKept(nn.Module):
    """A layer of the cut network between tensors of full width: reads and writes kept channels.

    A layer norm, a group norm or a layer that standardises its weights depends on how many channels
    there are, so zeroing some does not mask them.
    """

    def __init__(self, narrow: nn.Module, *, into: Index, out: Index, width: int, dim: int) -> None:
        super().__init__()
        self.narrow = narrow
        self.into = torch.tensor(into)
        self.out = torch.tensor(out)
        self.width = width
        self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.narrow(x.index_select(self.dim, self.into))
        shape = list(y.shape)
        shape[self.dim] = self.width
        return y.new_zeros(shape).index_copy(self.dim, self.out, y)


def masked(model: nn.Module, cuts: Cuts, cut: nn.Module, flow: ChannelFlow) -> nn.Module:
    """Return a copy of ``model``, as wide as it was, that never reads the channels left out."""
    full = sharing_copy(model)
    modules = dict(full.named_modules())
    narrow = dict(cut.named_modules())
    counted = set(flow.ledger.counted_in)
    for name, layer_cut in cuts.layers.items():
        layer = modules[name]
        if name in narrow and _depends_on_count(layer, counted_in=name in counted):
            parent, _, key = name.rpartition(".")
            modules[parent]._modules[key] = _on_kept(
                narrow[name], layer, layer_cut, dim=flow.channel_dim.get(name, 1)
            )
        elif layer_cut.into is not None:
            _stop_reading(layer, layer_cut.into)
    for name, placed in cuts.placed.items():
        mask = _ones_at(placed.into, placed.width)
        modules[name].register_forward_pre_hook(_masking(mask))
    return full


def can_be_masked(model: nn.Module, flow: ChannelFlow) -> bool:
    """Tell whether everything that depends on the number of channels is a layer of its own."""
    modules = dict(model.named_modules())  # removed blocks are no longer among them
    found = (modules[name] for name in flow.ledger.counted_in if name in modules)
    return all(isinstance(module, _ConvNd) for module in found)


def _depends_on_count(layer: nn.Module, *, counted_in: bool) -> bool:
    norm = isinstance(layer, (nn.LayerNorm, nn.GroupNorm))
    return norm or (counted_in and isinstance(layer, _ConvNd))


def _on_kept(narrow: nn.Module, layer: nn.Module, cut: LayerCut, *, dim: int) -> _OnKept:
    if isinstance(layer, _ConvNd):
        into, width = cut.into or tuple(range(layer.in_channels)), layer.out_channels
    else:
        assert isinstance(layer, (nn.GroupNorm, nn.LayerNorm))
        into = cut.out or ()
        grouped = isinstance(layer, nn.GroupNorm)
        width = layer.num_channels if grouped else layer.normalized_shape[-1]
    return _OnKept(narrow, into=into, out=cut.out or tuple(range(width)), width=width, dim=dim)


def _masking(mask: torch.Tensor) -> Any:
    def hook(module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        del module
        x = inputs[0]
        return (x * mask.reshape(1, -1, *[1] * (x.dim() - 2)), *inputs[1:])

    return hook


def _stop_reading(layer: nn.Module, kept: Index) -> None:
    weight = layer.get_parameter("weight").detach()
    channels = weight.shape[0 if is_transposed(layer) else 1]
    if isinstance(layer, _ConvNd) and layer.groups > 1:
        if is_transposed(layer) or channels == 1:
            return  # depthwise: what is not read is not written either
        per_out = layer.out_channels // layer.groups
        mask = _ones_at(kept, layer.in_channels)
        mask = mask.reshape(layer.groups, channels).repeat_interleave(per_out, 0)
        mask = mask.reshape(*mask.shape, *[1] * (weight.dim() - 2))
    else:
        mask = _ones_at(kept, channels)
        shape = [1] * weight.dim()
        shape[0 if is_transposed(layer) else 1] = channels
        mask = mask.reshape(shape)
    layer.register_parameter("weight", nn.Parameter(weight * mask, requires_grad=False))


def _ones_at(kept: Index, size: int) -> torch.Tensor:
    return torch.zeros(size).index_fill(0, torch.tensor(kept, dtype=torch.long), 1.0)


def largest_difference(first: Any, second: Any) -> float:
    """Return the largest difference of two outputs as a part of the first; shapes must agree.

    A NaN anywhere is an infinite difference, in both at once too: it proves nothing.
    """
    ours, theirs = (
        [leaf for leaf in tree_leaves(each) if isinstance(leaf, torch.Tensor)]
        for each in (first, second)
    )
    if [t.shape for t in ours] != [t.shape for t in theirs]:
        return float("inf")
    worst = 0.0
    for a, b in zip(ours, theirs, strict=True):
        if a.is_floating_point() and a.numel():
            worst = max(worst, _difference(a, b))
    return worst


def _difference(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    """Return the largest difference as a part of the largest finite number of ours."""
    alike = ours == theirs  # an infinity is like itself, though their difference is NaN
    gap = float((ours - theirs).abs().masked_fill(alike, 0.0).max())
    size = float(ours.abs().masked_fill(ours.isinf(), 0.0).max().clamp(min=1e-12))
    return float("inf") if math.isnan(gap) else gap / size
