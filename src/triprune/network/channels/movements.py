"""Owns how operators that only move elements move channels: reshapes, joins, parts, margins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from triprune.network.channels.ledger import FREE, Grid, Labels

if TYPE_CHECKING:
    from triprune.network.channels.flow import ChannelFlow


def permute(flow: ChannelFlow, args: dict[str, Any], result: torch.Tensor) -> None:
    """Move labels with their dimensions."""
    x = args["self"]
    order = [k % x.dim() for k in args["dims"]]
    dims, grid = flow.dims(x), flow.grid(x)
    flow.set(result, tuple(dims[k] for k in order))
    if grid is not None:
        places = [order.index(k) for k in grid.dims]
        turned = np.argsort(places)
        flow.set_grid(result, Grid(tuple(sorted(places)), grid.labels.transpose(turned)))


def transpose(flow: ChannelFlow, args: dict[str, Any], result: torch.Tensor) -> None:
    """Swap two dimensions."""
    rank = result.dim()
    order = list(range(rank))
    first, second = args.get("dim0", 0), args.get("dim1", min(1, rank - 1))
    order[first], order[second] = order[second], order[first]
    permute(flow, args | {"dims": order}, result)


def view(flow: ChannelFlow, args: dict[str, Any], result: torch.Tensor) -> None:
    """Merge and split dimensions; channels that are cut up must be put together again at once."""
    x = args["self"]
    old, new = list(x.shape), list(result.shape)
    dims, grid = list(flow.dims(x)), flow.grid(x)
    outcome: list[Labels | None] = []
    for olds, news in _factors(old, new):
        if grid is not None and set(grid.dims) & set(olds):
            whole = [k for k in olds if old[k] > 1] == list(grid.dims) and len(news) == 1
            if not whole:
                flow.block(grid.labels.reshape(-1), "are cut up by a reshape")
            outcome += [grid.labels.reshape(-1)] if whole else [None] * len(news)
        elif len(olds) == len(news) == 1:
            outcome.append(dims[olds[0]])
        else:
            merged = _merge(flow, [dims[k] for k in olds], [old[k] for k in olds])
            parts = _split(merged, [new[k] for k in news])
            if parts is None and merged is not None:
                cut_up = Grid(tuple(news), merged.reshape([new[k] for k in news]))
                flow.cut_up(result, cut_up)
            outcome += parts or [None] * len(news)
    flow.set(result, tuple(outcome))


def _factors(old: list[int], new: list[int]) -> list[tuple[list[int], list[int]]]:
    """Pair runs of old dimensions with runs of new ones that hold as many elements."""
    pairs: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        olds, news = [i] if i < len(old) else [], [j] if j < len(new) else []
        i, j = i + len(olds), j + len(news)
        while (a := math.prod(old[k] for k in olds)) != (b := math.prod(new[k] for k in news)):
            if a < b:
                olds.append(i)
                i += 1
            else:
                news.append(j)
                j += 1
        pairs.append((olds, news))
    return pairs


def _merge(flow: ChannelFlow, dims: list[Labels | None], sizes: list[int]) -> Labels | None:
    known = [k for k, each in enumerate(dims) if each is not None and sizes[k] > 1]
    if len(known) > 1:
        for k in known:
            flow.block(dims[k], "are merged with other channels by a reshape")
        return None
    if not known:
        return next((each for each in dims if each is not None), None) if sizes else None
    shape = [size if k == known[0] else 1 for k, size in enumerate(sizes)]
    labels = dims[known[0]]
    assert labels is not None
    return np.broadcast_to(labels.reshape(shape), sizes).reshape(-1)


def _split(merged: Labels | None, sizes: list[int]) -> list[Labels | None] | None:
    """Return the labels of each part; None where channels themselves are cut up."""
    outcome: list[Labels | None] = [None] * len(sizes)
    if merged is None or math.prod(sizes) != len(merged):  # the latter: a lone label among ones
        return outcome
    grid = merged.reshape(sizes)
    for k in range(len(sizes)):
        line = np.moveaxis(grid, k, 0).reshape(sizes[k], -1)
        if (line == line[:, :1]).all() and (sizes[k] > 1 or len(merged) == 1):
            outcome[k] = line[:, 0].copy()
            return outcome
    return None


def cat(flow: ChannelFlow, args: dict[str, Any], result: torch.Tensor) -> None:
    """Set channels behind each other; tie the other dimensions."""
    tensors = [t for t in args["tensors"] if t.dim() == result.dim()]
    dim = args.get("dim", 0) % result.dim()
    dims: list[Labels | None] = []
    for k in range(result.dim()):
        parts = [flow.dims(t)[k] for t in tensors]
        known = [each for each in parts if each is not None]
        if k != dim or not known:
            for each in parts:
                flow.meet(known[0] if known else None, each)
            dims.append(known[0] if known else None)
            continue
        for n, part in enumerate(parts):
            if part is None:
                parts[n] = flow.ledger.fresh(tensors[n].shape[k])
                flow.ledger.pin(parts[n])  # pyright: ignore[reportArgumentType]
        dims.append(np.concatenate([each for each in parts if each is not None]))
    flow.set(result, tuple(dims))


def stack(flow: ChannelFlow, args: dict[str, Any], result: torch.Tensor) -> None:
    """Tie the operands; the new dimension has no channels."""
    tensors = args["tensors"]
    dims = list(flow.dims(tensors[0]))
    for other in tensors[1:]:
        for mine, its in zip(dims, flow.dims(other), strict=True):
            flow.meet(mine, its)
    dims.insert(args.get("dim", 0) % result.dim(), None)
    flow.set(result, tuple(dims))


def split(flow: ChannelFlow, args: dict[str, Any], result: Sequence[torch.Tensor]) -> None:
    """Cut into parts; equal parts must stay equal, unequal ones are hard-coded and stay whole."""
    x = args["self"]
    dims, dim = flow.dims(x), args.get("dim", 0) % x.dim()
    labels, parts, start = dims[dim], [], 0
    for each in result:
        size = each.shape[dim]
        parts.append(None if labels is None else labels[start : start + size])
        start += size
        flow.set(each, (*dims[:dim], parts[-1], *dims[dim + 1 :]))
    if labels is not None and len(parts) > 1:
        if len({len(part) for part in parts}) > 1:
            flow.block(labels, "are split into unequal parts")
        else:
            flow.ledger.chunks.append(tuple(parts))


def slice_(flow: ChannelFlow, args: dict[str, Any], result: torch.Tensor) -> None:
    """Take part of a dimension; part of the channels means that their number is hard-coded."""
    x = args["self"]
    dims, dim = list(flow.dims(x)), args.get("dim", 0) % x.dim()
    if dims[dim] is not None and result.shape[dim] != x.shape[dim]:
        flow.block(dims[dim], "are sliced at fixed places")
        dims[dim] = None
    flow.set(result, tuple(dims))


def select(flow: ChannelFlow, args: dict[str, Any], result: Any) -> None:
    """Drop a dimension by taking one element of it, or all of them one by one."""
    x = args["self"]
    dims, dim = flow.dims(x), args.get("dim", 0) % x.dim()
    flow.block(dims[dim], "are picked one by one")
    for each in [result] if isinstance(result, torch.Tensor) else result:
        flow.set(each, dims[:dim] + dims[dim + 1 :])


def expand(flow: ChannelFlow, args: dict[str, Any], result: torch.Tensor) -> None:
    """Repeat dimensions of size one: they take whatever size is needed."""
    x, rank = args["self"], result.dim()
    old = (None,) * (rank - x.dim()) + flow.dims(x)
    shape = (1,) * (rank - x.dim()) + tuple(x.shape)
    flow.set(
        result,
        tuple(
            np.full(new, FREE, np.int64) if size == 1 and new > 1 else labels
            for labels, size, new in zip(old, shape, result.shape, strict=True)
        ),
    )


def repeat(flow: ChannelFlow, args: dict[str, Any], result: torch.Tensor) -> None:
    """Tile dimensions."""
    x, rank = args["self"], result.dim()
    old = (None,) * (rank - x.dim()) + flow.dims(x)
    times = args["repeats"]
    tiled = [None if d is None else np.tile(d, n) for d, n in zip(old, times, strict=True)]
    flow.set(result, tuple(tiled))


def squeeze(flow: ChannelFlow, args: dict[str, Any], result: torch.Tensor) -> None:
    """Drop dimensions of size one."""
    x, dim = args["self"], args.get("dim")
    chosen = range(x.dim()) if dim is None else [dim] if isinstance(dim, int) else dim
    gone = {k % x.dim() for k in chosen if x.shape[k] == 1} if x.dim() else set()
    flow.set(result, tuple(d for k, d in enumerate(flow.dims(x)) if k not in gone))


def unsqueeze(flow: ChannelFlow, args: dict[str, Any], result: torch.Tensor) -> None:
    """Add a dimension of size one."""
    dims = list(flow.dims(args["self"]))
    dims.insert(args["dim"] % result.dim(), None)
    flow.set(result, tuple(dims))


def pad(flow: ChannelFlow, args: dict[str, Any], result: torch.Tensor) -> None:
    """Add a margin; a margin of channels is hard-coded."""
    dims, margins = list(flow.dims(args["self"])), args["pad"]
    for k in range(len(margins) // 2):
        if margins[2 * k] or margins[2 * k + 1]:
            flow.block(dims[-1 - k], "are padded with a fixed number of channels")
            dims[-1 - k] = None
    flow.set(result, tuple(dims))
