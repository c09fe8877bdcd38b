"""Owns how much a channel is worth: small functions of a group; refuses to compare groups.

Each takes the group and the model's own tensors and returns one score per channel, higher is
better. The paper scores channels by the scale of their batch norm (Wang et al. 2021, Sec. 3.3).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal, get_args

import numpy as np
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd

from triprune.errors import InputError
from triprune.network.channels.coupling import ChannelGroup, Member
from triprune.network.channels.layers import is_transposed
from triprune.network.width import Scores, Scoring

Importance = Literal["bn_scale", "l1", "l2", "fpgm", "taylor", "random"]


def scoring(model: nn.Module, importance: str | Scoring) -> Scoring:
    """Return the named score on the tensors of ``model``; a function of a group is its own.

    Whatever the score, a channel that was cut before and put back as zeros scores lowest, so that
    rounds are nested.
    """
    if callable(importance):
        return partial(_gone_last, model, importance)
    if importance not in _BY_NAME:
        names = ", ".join(get_args(Importance))
        raise InputError(
            f"importance={importance!r}", "there is no such score", f"choose one of {names}"
        )
    return partial(_gone_last, model, partial(_BY_NAME[importance], model))


def _gone_last(model: nn.Module, score: Scoring, group: ChannelGroup) -> Scores:
    """Put the channels that hold nothing but zeros below all others."""
    scores = np.asarray(score(group), dtype=float)
    weight = l1(model, group) + _norm_scales(model, group)[0]
    gone = weight == 0.0
    if not gone.any() or gone.all() or scores.shape != gone.shape:
        return scores
    floor = np.nextafter(min(0.0, float(scores.min())), -np.inf)
    return np.where(gone, floor, scores)


def bn_scale(model: nn.Module, group: ChannelGroup) -> Scores:
    """Average |scale| over the batch norms that see the group; without one, take ``l2``."""
    scores, seen = _norm_scales(model, group)
    return scores / seen if seen else l2(model, group)


def l1(model: nn.Module, group: ChannelGroup) -> Scores:
    """Sum |weight| of the filters that write the channel."""
    return _over_filters(model, group, partial(torch.linalg.vector_norm, ord=1, dim=1))


def l2(model: nn.Module, group: ChannelGroup) -> Scores:
    """Take the norm of the filters that write the channel."""
    norm = partial(torch.linalg.vector_norm, dim=1)
    return np.sqrt(_over_filters(model, group, lambda rows: norm(rows).square()))


def fpgm(model: nn.Module, group: ChannelGroup) -> Scores:
    """Sum the distances to the layer's other filters: near the geometric median is replaceable."""
    return _over_filters(model, group, lambda rows: torch.cdist(rows, rows).sum(1))


def taylor(model: nn.Module, group: ChannelGroup) -> Scores:
    """Estimate the change of loss: |Σ weight · gradient| of the filters that write the channel."""
    return _over_filters(model, group, lambda rows: rows.sum(1).abs(), with_gradient=True)


def random(model: nn.Module, group: ChannelGroup) -> Scores:
    """Draw the same scores every time."""
    del model
    return np.random.default_rng(zlib.crc32("|".join(group.written_by).encode())).random(group.size)


_BY_NAME: dict[str, Callable[[nn.Module, ChannelGroup], Scores]] = {
    "bn_scale": bn_scale,
    "l1": l1,
    "l2": l2,
    "fpgm": fpgm,
    "taylor": taylor,
    "random": random,
}


def _norm_scales(model: nn.Module, group: ChannelGroup) -> tuple[Scores, int]:
    """Return the summed |scale| of the batch norms that see the group, and how many there are."""
    scores, seen = np.zeros(group.size), 0
    for member, layer in _members(model, group):
        if isinstance(layer, _BatchNorm) and member.tensor.endswith("weight"):
            np.add.at(scores, member.channel, _rows(model, member).abs().sum(1).numpy()[member.at])
            seen += 1
    return scores, seen


def _members(model: nn.Module, group: ChannelGroup) -> Iterator[tuple[Member, nn.Module]]:
    for member in group.members:
        yield member, model.get_submodule(member.tensor.rpartition(".")[0])


def _over_filters(
    model: nn.Module,
    group: ChannelGroup,
    value: Callable[[torch.Tensor], torch.Tensor],
    *,
    with_gradient: bool = False,
) -> Scores:
    scores = np.zeros(group.size)
    for member, layer in _members(model, group):
        out = 1 if is_transposed(layer) else 0
        filters = isinstance(layer, (_ConvNd, nn.Linear)) and member.tensor.endswith("weight")
        if filters and member.dim == out:
            rows = _rows(model, member, with_gradient=with_gradient)
            if len(member.at) < len(rows):
                rows = rows[torch.from_numpy(member.at)]
            np.add.at(scores, member.channel, value(rows).double().numpy())
    return scores


def _rows(model: nn.Module, member: Member, *, with_gradient: bool = False) -> torch.Tensor:
    tensor = model.get_parameter(member.tensor)
    rows = tensor.detach()
    if with_gradient:
        if tensor.grad is None:
            raise InputError(
                "importance='taylor'",
                f"{member.tensor} has no gradient",
                "run loss.backward() on the model before pruning it",
            )
        rows = rows * tensor.grad.detach()
    return rows.float().cpu().transpose(0, member.dim).reshape(tensor.shape[member.dim], -1)
