"""Owns a model's forward pass as a graph that may be rewritten; refuses graphs that do otherwise.

A graph holds what one pass did, in the mode that the model is in. What it cannot hold (decisions,
hooks, gradients of the author's own, state in Python) is found out, and the model is then not
followed. The model stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, fx, nn

_ALIKE = 0.1  # of a gradient's size; where a path is lost or gained it is all of it
_NOISE = 1e-3  # of the largest gradient: some are zero but for rounding
_SAME = 1e-3  # of the largest answer
_REPLACED = (nn.BatchNorm2d, nn.Conv2d, nn.ReLU, nn.Identity)  # leaves whose calls may go
_PRODUCTS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)


class NotFollowedError(Exception):
    """The model must be run as it is; the message says why."""


def graph_of(model: nn.Module) -> fx.GraphModule:
    """Return the graph of the model's forward in its present mode, sharing the model's layers."""
    if (name := _hooked(model)) is not None:
        raise NotFollowedError(f"{name} has a hook")
    with attributes_kept(model), _refusing_autocast():
        try:
            graph = fx.Tracer().trace(model)
            following = fx.GraphModule(model, graph)
        except Exception as error:  # the user's code may raise anything at a proxy
            reason = str(error).partition("\n")[0]
            raise NotFollowedError(f"its forward cannot be traced ({reason})") from error
    layers = {id(p) for m in model.modules() if isinstance(m, _PRODUCTS) for p in m.parameters()}
    for node in graph.nodes:
        if node.op == "get_attr" and id(_attribute(following, str(node.target))) in layers:
            raise NotFollowedError(f"{node.target} is used outside of its layer")
    return following


def require_same(model: nn.Module, following: nn.Module, example: Tensor) -> None:
    """Refuse a graph with other answers, or in training other gradients, than the model's."""
    before = _state(model)
    own = _tried(model, model, example)
    if _state(model) != before:
        raise NotFollowedError("its forward changes its attributes")
    other = _tried(following, model, example)
    if own[0].shape != other[0].shape or own[0].dtype != other[0].dtype:
        raise NotFollowedError("its graph gives answers of another kind")
    if not bool((own[0] - other[0]).abs().max() <= _SAME * own[0].abs().max()):
        raise NotFollowedError("its graph gives other answers")
    sizes = [0.0 if slope is None else float(slope.norm()) for slope in own[1]]
    for mine, theirs, size in zip(own[1], other[1], sizes, strict=True):
        if (mine is None) != (theirs is None):
            raise NotFollowedError("its graph lets other parameters learn")
        if mine is None or theirs is None:
            continue
        if not float((mine - theirs).norm()) <= _ALIKE * size + _NOISE * max(sizes):
            raise NotFollowedError("its graph gives other gradients")


def _tried(
    runs: nn.Module, model: nn.Module, example: Tensor
) -> tuple[Tensor, list[Tensor | None]]:
    """Return answers and gradients of one pass; buffers and randomness are as before it."""
    parameters = [p for p in model.parameters() if p.requires_grad] if model.training else []
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    devices = [example.device] if example.is_cuda else []
    try:
        with torch.random.fork_rng(devices), torch.set_grad_enabled(bool(parameters)):
            torch.default_generator.manual_seed(0)
            for device in devices:
                torch.cuda.default_generators[device.index].manual_seed(0)
            answer = _answer(runs, example)
            slopes: list[Tensor | None] = [None] * len(parameters)
            if answer.requires_grad:
                loss = answer.float().square().sum()
                slopes = list(torch.autograd.grad(loss, parameters, allow_unused=True))
        return answer.detach(), slopes
    finally:
        with torch.no_grad():
            for buffer, copy in buffers:
                buffer.copy_(copy)


def _answer(runs: nn.Module, example: Tensor) -> Tensor:
    try:
        answer: Any = runs(example)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # it may ask for more images than the example's two
        reason = str(error).partition("\n")[0]
        raise NotFollowedError(f"it fails on {len(example)} images ({reason})") from error
    if not isinstance(answer, Tensor):
        raise NotFollowedError("its answer is no tensor")
    return answer


@contextmanager
def attributes_kept(model: nn.Module) -> Iterator[None]:
    """Give all modules back the attributes they have now; a trace leaves proxies behind.

    Dictionaries stay the objects they are, as handles of hooks point to them.
    """
    held = {
        module: [(name, value, _content(value)) for name, value in vars(module).items()]
        for module in model.modules()
    }
    try:
        yield
    finally:
        for module, attributes in held.items():
            vars(module).clear()
            for name, value, content in attributes:
                vars(module)[name] = value
                if content is not None:
                    value.clear()
                    value.update(content)


def _content(value: object) -> dict[Any, Any] | None:
    return dict(value) if isinstance(value, dict) else None


def _state(model: nn.Module) -> dict[str, int]:
    """Return which objects the model's attributes are."""
    found: dict[str, int] = {}
    for owner, module in model.named_modules():
        for name, value in vars(module).items():
            found[f"{owner}/{name}"] = id(value)
            for key, inner in (_content(value) or {}).items():
                found[f"{owner}/{name}/{key}"] = id(inner)
    return found


def _hooked(model: nn.Module) -> str | None:
    """Return a module whose hooks a graph would not call; our own on norms do not count."""
    tracer = fx.Tracer()
    for name, module in model.named_modules():
        seen_through = not name or not tracer.is_leaf_module(module, name)
        if not seen_through and not isinstance(module, _REPLACED):
            continue
        hooks = [
            *module._forward_hooks.values(),
            *module._forward_pre_hooks.values(),
            *module._backward_hooks.values(),
            *module._backward_pre_hooks.values(),
        ]
        if any(hook.__module__ != "triprune.learning.precision" for hook in hooks):
            return name or "the model"
    return None


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
