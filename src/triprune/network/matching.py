"""Owns cutting networks that shuffle their channels by number; refuses what does not match.

Such code moves channels otherwise once there are fewer of them. So a skeleton of the right widths
is run first, and followed: it shows which layers will read each place that a layer writes. Each
place then takes one of the original channels that the very same layers read, the best ones first;
layers that read take their weights in the order in which channels arrive.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd

from triprune.network.channels.coupling import Coupling, Mask
from triprune.network.channels.flow import ChannelFlow
from triprune.network.channels.following import follow_channels
from triprune.network.channels.layers import LAYERS, is_transposed
from triprune.network.channels.ledger import Labels
from triprune.network.slicing import Cuts, Index, LayerCut, sharing_copy, slice_model
from triprune.network.width import Scoring, kept_count, sides

Signature = frozenset[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The classes that stay, and the cuts that follow."""

    stay: Mask
    cuts: Cuts


def match(
    flow: ChannelFlow,
    coupling: Coupling,
    subject: tuple[nn.Module, torch.Tensor],
    *,
    scoring: Scoring,
    widths: tuple[float, int],
) -> Chosen | None:
    """Return a cut to ``widths`` (kept fraction, multiple), or None where nothing matches."""
    model, example = subject
    skeleton = _skeleton(flow, coupling, model, example, widths)
    if skeleton is None:
        return None
    thin = follow_channels(skeleton, example)
    if thin.placed or flow.placed or thin.ledger.rows or flow.ledger.rows:
        return None
    thin_classes = thin.ledger.solve()
    chosen = _assign(
        coupling,
        (_signatures(flow, coupling.classes), _signatures(thin, thin_classes)),
        scoring,
    )
    if chosen is None:
        return None
    stay = np.ones(len(coupling.group_of), bool)
    stay[coupling.group_of >= 0] = False
    stay[list(chosen.values())] = True
    cuts = _cuts((flow, thin), (coupling.classes, thin_classes), skeleton, chosen)
    return Chosen(stay, cuts)


def _skeleton(
    flow: ChannelFlow,
    coupling: Coupling,
    model: nn.Module,
    example: torch.Tensor,
    widths: tuple[float, int],
) -> nn.Module | None:
    """Return the model with layers of the right widths, whatever their weights."""
    skeleton = sharing_copy(model)
    handles = []
    for name, layer in skeleton.named_modules():
        if isinstance(layer, LAYERS):
            written = flow.tensors.get(f"{name}.weight", (None,))[0]
            fixed = written is None or bool(coupling.pinned[coupling.classes[written]].any())
            handles.append(layer.register_forward_pre_hook(_fitting(None if fixed else widths)))
    try:
        with torch.no_grad():
            skeleton(example)
    except Exception:  # ours above, or the user's own code at a width it was not written for
        return None
    finally:
        for handle in handles:
            handle.remove()
    return skeleton


class _NoSkeletonError(Exception):
    """A layer that cannot be cut to what arrives: such a network gets no skeleton."""


def _fitting(widths: tuple[float, int] | None) -> Callable[..., None]:
    """Return a hook that cuts a layer to what arrives, and to its own width."""

    def hook(layer: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        last = isinstance(layer, (nn.Linear, nn.LayerNorm))
        arrived = tuple(range(inputs[0].shape[-1 if last else 1]))
        if isinstance(layer, _ConvNd) and layer.groups > 1:
            if not layer.groups == layer.in_channels == layer.out_channels:
                raise _NoSkeletonError
            cut = LayerCut(arrived, arrived)
        elif isinstance(layer, (_ConvNd, nn.Linear)) and not is_transposed(layer):
            size = layer.weight.shape[0]
            count = size if widths is None else kept_count(size, *widths)
            cut = LayerCut(tuple(range(count)), arrived)
        elif isinstance(layer, _NormBase):
            cut = LayerCut(arrived)
        else:
            raise _NoSkeletonError
        slice_model(layer, Cuts(layers={"": cut}))

    return hook


def _signatures(flow: ChannelFlow, classes: Labels) -> dict[int, Signature]:
    """Return every tensor and dimension that each class meets."""
    met: dict[int, set[tuple[str, int]]] = {}
    for name, dims in flow.tensors.items():
        for dim, labels in enumerate(dims):
            for each in np.unique(classes[labels]).tolist() if labels is not None else ():
                met.setdefault(each, set()).add((name, dim))
    return {each: frozenset(where) for each, where in met.items()}


def _assign(
    coupling: Coupling,
    signatures: tuple[dict[int, Signature], dict[int, Signature]],
    scoring: Scoring,
) -> dict[int, int] | None:
    """Return the original class that each class of the skeleton stands for."""
    score = np.zeros(len(coupling.group_of))
    for number, group in enumerate(coupling.groups):
        own = np.flatnonzero(coupling.group_of == number)
        score[own] = scoring(group)[coupling.index_in[own]]
    score[coupling.pinned] = np.inf
    supply: dict[Signature, list[int]] = {}
    for each, signature in signatures[0].items():
        supply.setdefault(signature, []).append(each)
    demand: dict[Signature, list[int]] = {}
    for each, signature in signatures[1].items():
        demand.setdefault(signature, []).append(each)
    chosen: dict[int, int] = {}
    for signature, places in demand.items():
        offered = supply.get(signature, [])
        if len(offered) < len(places):
            return None
        best = sorted(sorted(offered, key=lambda each: -score[each])[: len(places)])
        chosen.update(zip(places, best, strict=True))
    return chosen


def _cuts(
    flows: tuple[ChannelFlow, ChannelFlow],
    classes: tuple[Labels, Labels],
    model: nn.Module,
    chosen: dict[int, int],
) -> Cuts:
    layers: dict[str, LayerCut] = {}
    full, thin = flows
    for name, layer in model.named_modules():
        if isinstance(layer, LAYERS):
            pairs = zip(sides(full, name, layer), sides(thin, name, layer), strict=True)
            cut = LayerCut(*(_order(pair, classes, chosen) for pair in pairs))
            if cut != LayerCut():
                layers[name] = cut
    return Cuts(layers)


def _order(
    pair: tuple[Labels | None, Labels | None],
    classes: tuple[Labels, Labels],
    chosen: dict[int, int],
) -> Index | None:
    """Return where each channel that arrives in the skeleton lies in the original."""
    if pair[0] is None or pair[1] is None:
        return None
    places: dict[int, list[int]] = {}
    for place, each in enumerate(classes[0][pair[0]].tolist()):
        places.setdefault(each, []).append(place)
    index = tuple(places[chosen[each]].pop(0) for each in classes[1][pair[1]].tolist())
    return None if index == tuple(range(len(pair[0]))) else index
