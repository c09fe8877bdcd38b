"""Owns which channels stay, and the cuts that follow; refuses to compare channels across groups.

Every group keeps the same fraction of its *original* channels, scored on the original model, so
the order in which axes are cut cannot matter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from torch import nn

from triprune.network.channels.coupling import Bundle, ChannelGroup, Coupling, Mask
from triprune.network.channels.flow import ChannelFlow
from triprune.network.channels.layers import LAYERS, is_transposed
from triprune.network.channels.ledger import FREE, Labels
from triprune.network.slicing import Cuts, Index, LayerCut, PlacedCut

Scores = NDArray[np.float64]
Scoring = Callable[[ChannelGroup], Scores]


def kept_count(size: int, keep: float, round_to: int = 1) -> int:
    """Return how many of ``size`` channels stay: the nearest multiple, at least one."""
    if keep >= 1.0:
        return size
    nearest = int(keep * size / round_to + 0.5) * round_to
    return min(size, max(nearest, round_to))


def kept_counts(groups: Sequence[ChannelGroup], keep: float, round_to: int) -> list[int]:
    """Return how many channels each group keeps, so that every layer comes nearest to its target.

    A layer that writes several groups (a stage fed by a padded shortcut writes the channels of the
    stage before and its own) rounds once: its last group takes what is left of its target.
    """
    writes: dict[str, list[int]] = {}
    for number, group in enumerate(groups):
        for layer in group.written_by:
            writes.setdefault(layer, []).append(number)
    counts = [kept_count(group.size, keep, round_to) for group in groups]
    settled: set[int] = set()
    for number in sorted(range(len(groups)), key=lambda n: -len(groups[n].written_by)):
        group = groups[number]
        for layer in group.written_by if not group.is_part else ():
            others = [other for other in writes[layer] if other != number]
            if others and settled.issuperset(others):
                whole = group.size + sum(groups[other].size for other in others)
                left = kept_count(whole, keep, round_to) - sum(counts[n] for n in others)
                counts[number] = min(group.size, max(1, left))
                break
        settled.add(number)
    return counts


def choose_classes(coupling: Coupling, scoring: Scoring, *, keep: float, round_to: int = 1) -> Mask:
    """Return which classes stay: of every group the best, pinned ones always."""
    stay = np.ones(len(coupling.group_of), bool)
    bundled = {group for bundle in coupling.bundles for group in bundle.groups}
    pinned = [np.zeros(group.size, bool) for group in coupling.groups]
    for each in np.flatnonzero(coupling.pinned & (coupling.group_of >= 0)).tolist():
        pinned[coupling.group_of[each]][coupling.index_in[each]] = True
    chosen: dict[int, Mask] = {}
    counts = kept_counts(coupling.groups, keep, round_to)
    for number, group in enumerate(coupling.groups):
        if number not in bundled and not pinned[number].all():
            scores = np.where(pinned[number], np.inf, scoring(group))
            chosen[number] = _best(scores, counts[number])
    for bundle in coupling.bundles:
        if not any(pinned[group].any() for group in bundle.groups):
            scores = [scoring(coupling.groups[group]) for group in bundle.groups]
            masks = _best_rows(bundle, scores, keep=keep, round_to=round_to)
            chosen.update(zip(bundle.groups, masks, strict=True))
    for number, mask in chosen.items():
        own = coupling.group_of == number
        stay[own] = (mask | pinned[number])[coupling.index_in[own]]
    return stay


def _best(scores: Scores, count: int) -> Mask:
    mask = np.zeros(len(scores), bool)
    mask[np.argsort(-scores, kind="stable")[:count]] = True
    return mask


def _best_rows(bundle: Bundle, scores: list[Scores], *, keep: float, round_to: int) -> list[Mask]:
    """Keep whole rows, or as many channels in each, whichever comes nearest to the targets.

    Dropping whole rows is preferred: what a kept group of a group norm sees stays as it was.
    """
    targets = [kept_count(len(each), keep, round_to) for each in scores]
    widths = [len(each) // bundle.rows for each in scores]
    options = []
    for rows in range(1, bundle.rows + 1):
        counts = [
            min(width, max(1, int(target / rows + 0.5)))
            for target, width in zip(targets, widths, strict=True)
        ]
        misses = [abs(rows * n - target) for n, target in zip(counts, targets, strict=True)]
        uneven = any(rows * n % round_to for n in counts)
        options.append((uneven, sum(misses), -sum(counts), rows, counts))
    rows, counts = min(options)[3:]
    value = sum(
        np.bincount(row, each / max(float(np.abs(each).sum()), 1e-30), bundle.rows)
        for each, row in zip(scores, bundle.row, strict=True)
    )
    alive = _best(np.asarray(value), rows)
    masks = []
    for each, row, count in zip(scores, bundle.row, counts, strict=True):
        mask = np.zeros(len(each), bool)
        for q in np.flatnonzero(alive):
            own = np.flatnonzero(row == q)
            mask[own[_best(each[own], count)]] = True
        masks.append(mask)
    return masks


def cuts_of(flow: ChannelFlow, model: nn.Module, stay: Mask) -> Cuts:
    """Return what leaving out all other classes means for every layer and tensor of ``model``.

    ``model`` may lack blocks that the followed one had: what is gone needs no cut.
    """
    modules = dict(model.named_modules())
    classes = flow.ledger.solve()

    def kept(labels: Labels | None) -> Index | None:
        if labels is None:
            return None
        alive = (labels == FREE) | stay[classes[labels]]
        return None if alive.all() else tuple(np.flatnonzero(alive).tolist())

    layers: dict[str, LayerCut] = {}
    for name, layer in modules.items():
        if isinstance(layer, LAYERS):
            cut = LayerCut(*map(kept, sides(flow, name, layer)))
            if cut != LayerCut():
                layers[name] = cut
    tensors: dict[str, dict[int, Index]] = {}
    for name, dims in flow.tensors.items():
        owner, _, key = name.rpartition(".")
        layer = modules.get(owner)
        if not hasattr(layer, key) or (isinstance(layer, LAYERS) and key in _OWN_TENSORS):
            continue
        indices = {dim: kept(labels) for dim, labels in enumerate(dims)}
        found = {dim: index for dim, index in indices.items() if index is not None}
        if found:
            tensors[name] = found
    placed: dict[str, PlacedCut] = {}
    for name, (into, out) in flow.placed.items():
        ends = kept(out), kept(into)
        if name in modules and any(end is not None for end in ends):
            out_index, in_index = (
                tuple(range(len(labels))) if end is None else end
                for end, labels in zip(ends, (out, into), strict=True)
            )
            placed[name] = PlacedCut(len(into), out_index, in_index)
    return Cuts(layers, tensors, placed)


_OWN_TENSORS = frozenset(("weight", "bias", "running_mean", "running_var"))


def sides(flow: ChannelFlow, name: str, layer: nn.Module) -> tuple[Labels | None, Labels | None]:
    """Return the labels that the layer writes and reads; a norm only has the former."""
    dims = flow.tensors.get(f"{name}.weight" if name else "weight", ())
    into = flow.inputs.get(name)
    if isinstance(layer, nn.Linear):
        return dims[0], dims[1]
    if isinstance(layer, nn.modules.conv._ConvNd):
        if layer.groups > 1:
            depthwise = is_transposed(layer)
            return (None if depthwise else dims[0]), into
        return (dims[1], dims[0]) if is_transposed(layer) else (dims[0], dims[1])
    if isinstance(layer, nn.PReLU) and layer.num_parameters == 1:
        return None, None
    return (dims[0] if len(dims) == 1 else into), None
