"""Owns a model's forward pass as a graph that may be rewritten; refuses graphs that do otherwise.

A graph holds what one pass did, in the mode that the model is in. What it cannot hold (decisions,
hooks, gradients of the author's own, state and randomness in Python) is found out, and the model is
then not followed. The model stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn

from triprune.errors import first_line
from triprune.learning.keeping import (
    attributes_kept,
    draws_kept,
    same_objects,
    state_of,
    tensors_kept,
)
from triprune.learning.low_copies import PRODUCTS
from triprune.learning.memory import out_of_memory

_ALIKE = 0.1  # of a gradient's size; where a path is lost or gained it is all of it
_NOISE = 1e-3  # of the largest gradient: some are zero but for rounding
_SAME = 1e-3  # of the largest number, in answers and buffers
# Leaves whose calls may go.
_REPLACED = (nn.BatchNorm2d, nn.Conv2d, nn.ReLU, nn.Identity, nn.AvgPool2d)


class NotFollowedError(Exception):
    """The model must be run as it is; the message says why."""


def graph_of(model: nn.Module) -> fx.GraphModule:
    """Return the graph of the model's forward in its present mode, sharing the model's layers."""
    for name, module in model.named_modules():
        if _has_lost_hooks(module, name):
            raise NotFollowedError(f"{name or 'the model'} has a hook")
        if "forward" in vars(module):
            raise NotFollowedError(f"{name or 'the model'} has a forward of its own")
    buffers, numbers = list(model.buffers()), _clones(model)
    with (
        attributes_kept(model),
        tensors_kept(model),
        draws_kept() as drew,
        _refusing_autocast(),
    ):
        try:
            following = fx.GraphModule(model, fx.Tracer().trace(model))
        except Exception as error:  # the user's code may raise anything at a proxy
            reason = first_line(error)
            raise NotFollowedError(f"its forward cannot be traced ({reason})") from error
        if not all(map(torch.equal, buffers, numbers)):
            raise NotFollowedError("its forward changes a buffer unseen")
    if any(drew):
        raise NotFollowedError("it draws random numbers outside of its graph")
    layers = {id(p) for m in model.modules() if type(m) in PRODUCTS for p in m.parameters()}
    for node in following.graph.nodes:
        if node.op == "get_attr" and id(_attribute(following, str(node.target))) in layers:
            raise NotFollowedError(f"{node.target} is used outside of its layer")
    return following


def require_same(model: nn.Module, following: nn.Module, example: Tensor) -> None:
    """Refuse a graph that answers, learns or keeps books otherwise than the model.

    Parameters that are zero are set to other numbers for the time: they would hide what is behind.
    """
    with attributes_kept(model), tensors_kept(model):
        with torch.no_grad():
            for parameter in model.parameters():
                if not bool(parameter.any()):
                    parameter.fill_(0.1)
        before = state_of(model)
        own = _passed(model, model, example)
        if not same_objects(state_of(model), before):
            raise NotFollowedError("its forward changes its attributes")
        other = _passed(following, model, example)
    if own.answer.shape != other.answer.shape or own.answer.dtype != other.answer.dtype:
        raise NotFollowedError("its graph gives answers of another kind")
    if not _close(own.answer, other.answer):
        raise NotFollowedError("its graph gives other answers")
    if not all(map(_close, own.buffers, other.buffers)):
        raise NotFollowedError("its graph leaves other buffers")
    sizes = [0.0 if slope is None else float(slope.norm()) for slope in own.slopes]
    for mine, theirs, size in zip(own.slopes, other.slopes, sizes, strict=True):
        if (mine is None) != (theirs is None):
            raise NotFollowedError("its graph lets other parameters learn")
        if mine is None or theirs is None:
            continue
        if not float((mine - theirs).norm()) <= _ALIKE * size + _NOISE * max(sizes):
            raise NotFollowedError("its graph gives other gradients")


@dataclass(frozen=True, slots=True, eq=False)
class _Pass:
    """What a pass gave, and how that and one more left the buffers."""

    answer: Tensor
    slopes: list[Tensor | None]
    buffers: list[Tensor]


def _passed(runs: nn.Module, model: nn.Module, example: Tensor) -> _Pass:
    """Run twice, with gradients if the model trains; tensors and randomness are as before."""
    parameters = [p for p in model.parameters() if p.requires_grad] if model.training else []
    devices = [example.device] if example.is_cuda else []
    with (
        tensors_kept(model),
        torch.random.fork_rng(devices),
        torch.set_grad_enabled(bool(parameters)),
    ):
        torch.default_generator.manual_seed(0)
        for device in devices:
            torch.cuda.default_generators[device.index].manual_seed(0)
        answer = _answer(runs, example)
        slopes: list[Tensor | None] = [None] * len(parameters)
        if answer.requires_grad:
            loss = answer.float().square().sum()
            slopes = list(torch.autograd.grad(loss, parameters, allow_unused=True))
        _answer(runs, example)  # what a graph kept from its trace shows in buffers the second time
        return _Pass(answer.detach(), slopes, _clones(model))


def _answer(runs: nn.Module, example: Tensor) -> Tensor:
    try:
        answer: Any = runs(example)
    except Exception as error:  # it may ask for more images than the example's two
        if out_of_memory(error):
            raise
        reason = first_line(error)
        raise NotFollowedError(f"it fails on {len(example)} images ({reason})") from error
    if not isinstance(answer, Tensor):
        raise NotFollowedError("its answer is no tensor")
    return answer


def _clones(model: nn.Module) -> list[Tensor]:
    return [buffer.detach().clone() for buffer in model.buffers()]


def _close(one: Tensor, other: Tensor) -> bool:
    if not one.is_floating_point():
        return torch.equal(one, other)
    return one.numel() == 0 or bool((one - other).abs().max() <= _SAME * one.abs().max())


def _has_lost_hooks(module: nn.Module, name: str) -> bool:
    """Whether hooks of others hang on a module that a graph would not call."""
    called = bool(name) and fx.Tracer().is_leaf_module(module, name)
    if called and not isinstance(module, _REPLACED):
        return False
    hooks = [
        *module._forward_hooks.values(),
        *module._forward_pre_hooks.values(),
        *module._backward_hooks.values(),
        *module._backward_pre_hooks.values(),
    ]
    ours = "triprune.learning.precision"  # around norms, and on products that stay torch's
    return any(getattr(hook, "__module__", None) != ours for hook in hooks)


@contextmanager
def _refusing_autocast() -> Iterator[None]:
    """Let a trace fail that meets autocast: a graph does not hold where it begins and ends."""

    def refuse(self: torch.autocast) -> torch.autocast:
        del self
        raise RuntimeError("it changes the precision of a part of itself")

    enter = torch.autocast.__enter__
    torch.autocast.__enter__ = refuse
    try:
        yield
    finally:
        torch.autocast.__enter__ = enter


def _attribute(owner: nn.Module, path: str) -> object:
    found: object = owner
    for name in path.split("."):
        found = getattr(found, name, None)
    return found
