"""Owns cutting tensors down to their kept channels; refuses indices that do not fit the model.

Pure indexing: the same cuts on the same model give the same bits, with no example input and no
analysis. Attributes that tell a layer's width are kept true.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd

from triprune.errors import PlanIndexError
from triprune.network.channels.layers import LAYERS, is_transposed
from triprune.network.placing import FullWidth

Index = tuple[int, ...]
Done = dict[int, tuple[nn.Parameter, nn.Parameter]]


@dataclass(frozen=True, slots=True)
class LayerCut:
    """The kept output and input channels of a layer, against the original; None keeps all."""

    out: Index | None = None
    into: Index | None = None


@dataclass(frozen=True, slots=True)
class PlacedCut:
    """The kept channels on either side of a module that runs at its full ``width``."""

    width: int
    out: Index
    into: Index


@dataclass(frozen=True, slots=True)
class Cuts:
    """Everything width pruning does to a model, by name.

    ``tensors`` is for parameters and buffers that no plain layer owns: name, dimension, indices.
    """

    layers: Mapping[str, LayerCut] = field(default_factory=dict)
    tensors: Mapping[str, Mapping[int, Index]] = field(default_factory=dict)
    placed: Mapping[str, PlacedCut] = field(default_factory=dict)


def sharing_copy(model: nn.Module) -> nn.Module:
    """Return a copy with the same tensors, not copies of them: change none of those in place."""
    tensors = [*model.parameters(), *model.buffers()]
    return copy.deepcopy(model, {id(tensor): tensor for tensor in tensors})


def check_places(model: nn.Module, cuts: Cuts) -> None:
    """Refuse cuts of what the original does not have, or of what is not cut in that way."""
    modules = dict(model.named_modules(remove_duplicate=False))
    tensors = {
        *(name for name, _ in model.named_parameters(remove_duplicate=False)),
        *(name for name, _ in model.named_buffers(remove_duplicate=False)),
    }
    odd = [name for name in cuts.layers if not isinstance(modules.get(name), LAYERS)]
    odd += [name for name in cuts.tensors if name not in tensors]
    odd += [n for n in cuts.placed if not n or n not in modules or modules[n].state_dict()]
    if odd:
        raise PlanIndexError(
            f"cutting {odd[0]!r} of a {type(model).__name__}",
            "it has nothing of that name that could be cut so",
            "make the plan again with triprune.prune",
        )


def slice_model(model: nn.Module, cuts: Cuts) -> None:
    """Cut ``model`` down in place; names that a removed block took with it are passed over."""
    modules = dict(model.named_modules(remove_duplicate=False))
    done: Done = {}
    layers = {id(modules[n]): (n, cut) for n, cut in cuts.layers.items() if n in modules}
    for name, cut in layers.values():
        _slice_layer(name, modules[name], cut, done)
    for name, dims in cuts.tensors.items():
        owner, _, key = name.rpartition(".")
        if owner in modules and getattr(modules[owner], key, None) is not None:
            _replace(modules[owner], key, dims, done, name=name)
    for name, cut in cuts.placed.items():
        if name in modules:
            parent, _, key = name.rpartition(".")
            _check_range(name, cut.into, cut.width)
            wrapped = FullWidth(modules[name], width=cut.width, kept_in=cut.into, kept_out=cut.out)
            wrapped.training = modules[name].training
            device = next((p.device for p in model.parameters()), None)
            modules[parent]._modules[key] = wrapped.to(device)


def _slice_layer(name: str, layer: nn.Module, cut: LayerCut, done: Done) -> None:
    if isinstance(layer, _ConvNd):
        _slice_convolution(name, layer, cut, done)
    elif isinstance(layer, nn.Linear):
        _replace(layer, "weight", {0: cut.out, 1: cut.into}, done, name=name)
        _replace(layer, "bias", {0: cut.out}, done, name=name)
        layer.out_features = layer.out_features if cut.out is None else len(cut.out)
        layer.in_features = layer.in_features if cut.into is None else len(cut.into)
    elif cut.out is not None:
        for key in ("weight", "bias", "running_mean", "running_var"):
            _replace(layer, key, {0: cut.out}, done, name=name)
        _tell_width(name, layer, cut.out)


def _tell_width(name: str, layer: nn.Module, out: Index) -> None:
    if isinstance(layer, _NormBase):
        layer.num_features = len(out)
    elif isinstance(layer, nn.LayerNorm):
        layer.normalized_shape = (len(out),)
    elif isinstance(layer, nn.PReLU):
        layer.num_parameters = len(out)
    elif isinstance(layer, nn.GroupNorm):
        layer.num_groups = _kept_groups(name, out, layer.num_channels, layer.num_groups)
        layer.num_channels = len(out)


def _slice_convolution(name: str, layer: _ConvNd, cut: LayerCut, done: Done) -> None:
    out = tuple(range(layer.out_channels)) if cut.out is None else cut.out
    into = tuple(range(layer.in_channels)) if cut.into is None else cut.into
    _check_range(name, out, layer.out_channels)
    _check_range(name, into, layer.in_channels)
    if layer.groups == 1:
        dims = {0: cut.into, 1: cut.out} if is_transposed(layer) else {0: cut.out, 1: cut.into}
        _replace(layer, "weight", dims, done, name=name)
    elif is_transposed(layer):
        _replace(layer, "weight", {0: into}, done, name=name)
        layer.groups = _kept_groups(name, into, layer.in_channels, layer.groups)
    else:
        groups = _kept_groups(name, out, layer.out_channels, layer.groups)
        if _kept_groups(name, into, layer.in_channels, layer.groups) != groups:
            raise _uneven(name)
        if _groups_of(out, layer.out_channels, layer) != _groups_of(into, layer.in_channels, layer):
            raise _uneven(name)
        _slice_groups(layer, out, into, done)
        layer.groups = groups
    _replace(layer, "bias", {0: out}, done, name=name)
    layer.out_channels, layer.in_channels = len(out), len(into)


def _slice_groups(layer: _ConvNd, out: Index, into: Index, done: Done) -> None:
    """Give every kept filter the kept inputs of its own group."""
    per_in, per_out = layer.in_channels // layer.groups, layer.out_channels // layer.groups
    inside: dict[int, list[int]] = {}
    for channel in into:
        inside.setdefault(channel // per_in, []).append(channel % per_in)
    weight = layer.weight
    rows = torch.tensor(out, device=weight.device)
    columns = torch.tensor([inside[channel // per_out] for channel in out], device=weight.device)
    with torch.no_grad():
        _put(layer, "weight", weight.detach()[rows[:, None], columns], done)


def _groups_of(kept: Index, channels: int, layer: _ConvNd) -> set[int]:
    return {channel // (channels // layer.groups) for channel in kept}


def _kept_groups(name: str, kept: Index, channels: int, groups: int) -> int:
    """Return how many groups survive; each must keep as many channels as the next."""
    size = channels // groups
    counts: dict[int, int] = {}
    for channel in kept:
        counts[channel // size] = counts.get(channel // size, 0) + 1
    if len(set(counts.values())) != 1:
        raise _uneven(name)
    return len(counts)


def _uneven(name: str) -> PlanIndexError:
    return PlanIndexError(
        f"cutting the groups of {name}",
        "the plan keeps a different number of channels in some group",
        "make the plan again with triprune.prune",
    )


def _replace(
    owner: nn.Module,
    key: str,
    dims: Mapping[int, Index | None],
    done: Done,
    *,
    name: str,
) -> None:
    tensor = getattr(owner, key, None)
    if tensor is None or all(index is None for index in dims.values()):
        return
    cut = tensor.detach()
    for dim, index in dims.items():
        if index is not None:
            if dim >= cut.dim():
                raise PlanIndexError(
                    f"cutting dimension {dim} of {name}",
                    f"its {key} has only {cut.dim()}",
                    "make the plan again with triprune.prune",
                )
            _check_range(name, index, cut.shape[dim])
            cut = cut.index_select(dim, torch.tensor(index, device=cut.device))
    _put(owner, key, cut, done)


def _put(owner: nn.Module, key: str, cut: torch.Tensor, done: Done) -> None:
    """Set the tensor; a parameter that several layers share stays shared."""
    tensor = getattr(owner, key)
    if isinstance(tensor, nn.Parameter):
        if id(tensor) not in done:
            done[id(tensor)] = (tensor, nn.Parameter(cut.contiguous(), tensor.requires_grad))
        owner.register_parameter(key, done[id(tensor)][1])
    else:
        setattr(owner, key, cut)


def _check_range(name: str, index: Index, size: int) -> None:
    if not index or min(index) < 0 or max(index) >= size or len(set(index)) != len(index):
        raise PlanIndexError(
            f"keeping {len(index)} channels of {name}",
            f"the plan's indices are not distinct numbers from 0 to {size - 1}",
            "make the plan again with triprune.prune",
        )
