"""Owns the coupled groups of a model's channels, as plain arrays; refuses to choose among them.

Channels that must share their fate form a class (see ``ledger``); the classes that the same layers
write form a group.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import nn
from torch.nn.modules.conv import _ConvNd

from triprune.network.channels.flow import ChannelFlow
from triprune.network.channels.layers import is_transposed
from triprune.network.channels.ledger import FREE, Labels

Mask = NDArray[np.bool_]

IGNORED = "belong to an ignored layer"


@dataclass(frozen=True, slots=True)
class Member:
    """Where a group meets a tensor: position ``at[j]`` of ``dim`` is the group's ``channel[j]``."""

    tensor: str
    dim: int
    at: Labels
    channel: Labels


@dataclass(frozen=True, slots=True)
class ChannelGroup:
    """``size`` channels that the layers ``written_by`` write, and every tensor they meet."""

    written_by: tuple[str, ...]
    size: int
    members: tuple[Member, ...]
    is_part: bool = False
    """Whether it is one of the equal parts that a tensor is split into."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """Groups cut by the same grouped operations: ``row[c]`` is the row of channel ``c``."""

    groups: tuple[int, ...]
    rows: int
    row: tuple[Labels, ...]


@dataclass(frozen=True, slots=True)
class Coupling:
    """Everything about a model's channels that cutting needs, as plain arrays."""

    classes: Labels
    group_of: Labels
    """The group of each class; -1 where no layer writes it."""
    index_in: Labels
    groups: tuple[ChannelGroup, ...]
    bundles: tuple[Bundle, ...]
    pinned: Mask
    reasons: dict[int, str]
    """Why the pinned classes stay, where that needs telling."""


def producers(flow: ChannelFlow, model: nn.Module) -> dict[str, Labels]:
    """Return the labels that each convolution and linear layer writes."""
    written: dict[str, Labels] = {}
    for name, layer in model.named_modules():
        dims = flow.tensors.get(f"{name}.weight" if name else "weight")
        if dims is not None and isinstance(layer, (_ConvNd, nn.Linear)):
            out = dims[1 if is_transposed(layer) else 0]
            if out is not None:
                written[name] = out
    return written


def couple(
    flow: ChannelFlow, model: nn.Module, *, kept_whole: Iterable[str] = (), strict: bool = False
) -> Coupling:
    """Return the coupled groups; layers ``kept_whole`` keep every channel, in and out.

    ``strict`` keeps channels that are shuffled, or split into parts whose size may be hard-coded.
    """
    classes = flow.ledger.solve()
    count = int(classes.max(initial=-1)) + 1
    pinned, reasons = np.zeros(count, bool), {}
    for pin in flow.ledger.pins:
        _pin(pinned, reasons, classes[pin.labels], pin.reason)
    for labels in _owned(flow, kept_whole):
        _pin(pinned, reasons, classes[labels[labels != FREE]], IGNORED)
    for parts in flow.ledger.chunks if strict else ():
        for part in parts:
            _pin(pinned, reasons, classes[part], "are split into parts of fixed size")
    for labels in flow.ledger.shuffled if strict else ():
        _pin(pinned, reasons, classes[labels], "are cut up or shuffled by a reshape")
    written = {name: classes[labels] for name, labels in producers(flow, model).items()}
    chunks = [tuple(classes[part] for part in parts) for parts in flow.ledger.chunks]
    group_of, index_in, names = _group(count, written, chunks)
    in_parts = {int(group) for parts in chunks for part in parts for group in group_of[part]}
    members = _members(flow, classes, group_of, index_in, len(names))
    sizes = np.bincount(group_of[group_of >= 0], minlength=len(names))
    groups = tuple(
        ChannelGroup(name, int(size), tuple(found), number in in_parts)
        for number, (name, size, found) in enumerate(zip(names, sizes, members, strict=True))
    )
    draft = Coupling(classes, group_of, index_in, groups, (), pinned, reasons)
    return _bundled(flow, draft)


def _pin(pinned: Mask, reasons: dict[int, str], classes: Labels, reason: str) -> None:
    pinned[classes] = True
    if reason:
        reasons.update(dict.fromkeys(classes.tolist(), reason))


def _owned(flow: ChannelFlow, layers: Iterable[str]) -> Iterable[Labels]:
    for layer in layers:
        if layer in flow.inputs:
            yield flow.inputs[layer]
        for name, dims in flow.tensors.items():
            if name.rpartition(".")[0] == layer:
                yield from (labels for labels in dims if labels is not None)


def _group(
    count: int, written: dict[str, Labels], chunks: list[tuple[Labels, ...]]
) -> tuple[Labels, Labels, list[tuple[str, ...]]]:
    """Group the classes that the same layers write (and that fall into the same parts)."""
    signatures: list[list[object]] = [[] for _ in range(count)]
    for name, classes in written.items():
        for each in np.unique(classes).tolist():
            signatures[each].append(name)
    group_of, index_in = np.full(count, -1), np.zeros(count, np.int64)
    layers = [tuple(each) for each in signatures]
    for number, parts in enumerate(chunks):
        for place, part in enumerate(parts):
            for each in np.unique(part).tolist():
                signatures[each].append((number, place))
    numbers: dict[tuple[object, ...], int] = {}
    sizes: list[int] = []
    names: list[tuple[str, ...]] = []
    for each, signature in enumerate(signatures):
        if layers[each]:
            group = numbers.setdefault(tuple(signature), len(numbers))
            if group == len(sizes):
                sizes.append(0)
                names.append(layers[each])  # pyright: ignore[reportArgumentType]
            group_of[each], index_in[each] = group, sizes[group]
            sizes[group] += 1
    return group_of, index_in, names


def _members(
    flow: ChannelFlow, classes: Labels, group_of: Labels, index_in: Labels, groups: int
) -> list[list[Member]]:
    members: list[list[Member]] = [[] for _ in range(groups)]
    for name, dims in flow.tensors.items():
        for dim, labels in enumerate(dims):
            if labels is None:
                continue
            own = classes[labels]
            owner = group_of[own]
            for group in np.unique(owner[owner >= 0]).tolist():
                at = np.flatnonzero(owner == group)
                members[group].append(Member(name, dim, at, index_in[own[at]]))
    return members


def _bundled(flow: ChannelFlow, draft: Coupling) -> Coupling:
    """Join groups that grouped operations cut alike; pin those whose rows do not fit together."""
    row_of: dict[int, tuple[int, Labels]] = {}
    parent = list(range(len(draft.groups)))

    def root(group: int) -> int:
        while parent[group] != group:
            group = parent[group]
        return group

    for rows in flow.ledger.rows:
        fitted = [_fit_rows(draft, draft.classes[matrix]) for matrix in rows.matrices]
        clash = any(
            each is None or (each[0] in row_of and not _same_rows(row_of[each[0]], each[1:]))
            for each in fitted
        )
        if clash:
            for matrix in rows.matrices:
                reason = (
                    f"go through the groups of {rows.where}, which mix several layers' channels"
                )
                _pin(draft.pinned, draft.reasons, draft.classes[matrix].reshape(-1), reason)
            continue
        known = [each for each in fitted if each is not None]
        for group, count, row in known:
            row_of[group] = (count, row)
            parent[root(group)] = root(known[0][0])
    joined: dict[int, list[int]] = {}
    for group in row_of:
        joined.setdefault(root(group), []).append(group)
    bundles = tuple(
        Bundle(tuple(each), row_of[each[0]][0], tuple(row_of[k][1] for k in each))
        for each in joined.values()
    )
    return Coupling(
        draft.classes,
        draft.group_of,
        draft.index_in,
        draft.groups,
        bundles,
        draft.pinned,
        draft.reasons,
    )


def _fit_rows(draft: Coupling, matrix: Labels) -> tuple[int, int, Labels] | None:
    """Return the one group that fills the matrix, the number of rows, and each channel's row."""
    groups = np.unique(draft.group_of[matrix])
    if len(groups) != 1 or groups[0] < 0 or draft.groups[groups[0]].size != matrix.size:
        return None
    row = np.zeros(matrix.size, np.int64)
    row[draft.index_in[matrix]] = np.arange(len(matrix))[:, None]
    return int(groups[0]), len(matrix), row


def _same_rows(first: tuple[int, Labels], second: tuple[int, Labels]) -> bool:
    return first[0] == second[0] and bool((first[1] == second[1]).all())
