"""Owns one run of a model with its blocks watched: calls, shapes, and whether a graph is true."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx, nn

from triprune.network.counting import MacCounter
from triprune.network.profile import current_module
from triprune.network.running import Example, output_tensors, run_example
from triprune.network.structure.candidates import Candidate
from triprune.network.structure.tracing import required_arguments

_UNTRUE = "its forward does not do what its graph says"


@dataclass(slots=True)
class Sighting:
    """What a run showed of one module: the shapes in its own graph, and what speaks against it."""

    shapes: dict[fx.Node, torch.Size] = field(default_factory=dict)
    calls: int = 0
    doubt: str = ""


class _Watcher(fx.Interpreter):
    """Runs a module's own graph, keeping shapes, with some nodes standing for others."""

    def __init__(self, owner: nn.Module, graph: fx.Graph, stand_ins: dict[fx.Node, fx.Node]):
        super().__init__(owner, graph=graph)
        self.extra_traceback = False
        self.shapes: dict[fx.Node, torch.Size] = {}
        self._stand_ins = stand_ins

    def run_node(self, n: fx.Node) -> Any:
        """Run one node; a join that has a stand-in gives that node's value instead."""
        value = super().run_node(n) if n not in self._stand_ins else self.env[self._stand_ins[n]]
        if isinstance(value, torch.Tensor):
            self.shapes[n] = value.shape
        return value


@dataclass(frozen=True, slots=True)
class Calls:
    """Every call of a module in one run, in order, and each module's own macs for one example.

    ``keep_shape`` holds the modules whose output has the shape of their first input.
    """

    order: list[nn.Module]
    macs: dict[nn.Module, int]
    keep_shape: set[nn.Module]


def watch_calls(model: nn.Module, example_input: Example) -> Calls:
    """Run the model once and return what ran."""
    order: list[nn.Module] = []
    macs = dict.fromkeys(model.modules(), 0)

    keep_shape: set[nn.Module] = set()

    def note(module: nn.Module, _: object) -> None:
        order.append(module)

    def compare(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        shapes = [value.shape for value in (*inputs[:1], output) if isinstance(value, torch.Tensor)]
        if len(shapes) == 2 and shapes[0] == shapes[1]:
            keep_shape.add(module)

    with ExitStack() as watching:
        for module in macs:
            if isinstance(module, torch.jit.ScriptModule):  # takes no hooks
                continue
            watching.enter_context(module.register_forward_pre_hook(note))
            watching.enter_context(module.register_forward_hook(compare))
        running = watching.enter_context(current_module(model, {}))

        def add(number: int) -> None:
            macs[model.get_submodule(running[-1])] += number

        with MacCounter(add, lambda _: None):
            run_example(model, example_input)
    batch = max(1, _batch_size(example_input))
    macs = {module: number // batch for module, number in macs.items()}
    return Calls(order, macs, keep_shape)


def _batch_size(example_input: Example) -> int:
    first = example_input[0] if isinstance(example_input, tuple) else example_input
    return first.shape[0] if isinstance(first, torch.Tensor) and first.dim() else 1


def watch_owners(
    model: nn.Module, example_input: Example, graphs: dict[str, fx.Graph]
) -> dict[str, Sighting]:
    """Run the model once, and each owner's graph beside the owner itself."""
    sightings = {name: Sighting() for name in graphs}
    with ExitStack() as patches:
        for name, graph in graphs.items():
            owner = model.get_submodule(name)
            watched = _watched(owner, graph, sightings[name])
            patches.enter_context(patched_forward(owner, watched))
        run_example(model, example_input)
    return sightings


def run_zeroed(model: nn.Module, example_input: Example, candidates: Sequence[Candidate]) -> Any:
    """Run the model with the branch of each candidate computed and then left out of its sum."""
    stand_ins: dict[str, dict[fx.Node, fx.Node]] = {}
    graphs = {candidate.owner: candidate.graph for candidate in candidates}
    for candidate in candidates:
        if candidate.region:
            region = candidate.region
            stand_ins.setdefault(candidate.owner, {})[region.join] = region.kept
    with ExitStack() as patches:
        for name, graph in graphs.items():
            owner = model.get_submodule(name)
            zeroed = _zeroed(owner, graph, stand_ins[name])
            patches.enter_context(patched_forward(owner, zeroed))
        return run_example(model, example_input)


def _zeroed(
    owner: nn.Module, graph: fx.Graph, stand_ins: dict[fx.Node, fx.Node]
) -> Callable[..., Any]:
    def forward(*args: Any, **kwargs: Any) -> Any:
        inputs, _ = _graph_inputs(owner, args, kwargs)
        return _Watcher(owner, graph, stand_ins).run(*inputs)

    return forward


def _watched(owner: nn.Module, graph: fx.Graph, sighting: Sighting) -> Callable[..., Any]:
    original = owner.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        sighting.calls += 1
        inputs, usual = _graph_inputs(owner, args, kwargs)
        if not usual:
            sighting.doubt = "it is called with an argument that most callers leave out"
            return original(*args, **kwargs)
        watcher = _Watcher(owner, graph, {})
        try:
            traced = watcher.run(*(_clone(value) for value in inputs))
        except Exception:  # the graph may have followed a path that this call does not take
            sighting.doubt = _UNTRUE
            return original(*args, **kwargs)
        output = original(*args, **kwargs)
        sighting.shapes = watcher.shapes
        if not same_output(traced, output):
            sighting.doubt = _UNTRUE
        return output

    return forward


def _graph_inputs(
    owner: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[list[Any], bool]:
    """Return the required arguments, and whether all others were left at their defaults."""
    signature = inspect.signature(type(owner).forward)
    given = signature.bind(owner, *args, **kwargs).arguments
    names = required_arguments(type(owner).forward)
    others = {name: value for name, value in list(given.items())[1:] if name not in names}
    usual = all(value is signature.parameters[name].default for name, value in others.items())
    return [given[name] for name in names], usual


def same_output(first: Any, second: Any) -> bool:
    """Tell whether two outputs hold the same tensors to the last bit."""
    left, right = output_tensors(first), output_tensors(second)
    return len(left) == len(right) and all(
        a.shape == b.shape and torch.equal(a.nan_to_num(), b.nan_to_num())
        for a, b in zip(left, right, strict=True)
    )


def _clone(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.clone()
    return [_clone(item) for item in value] if isinstance(value, list) else value


@contextmanager
def patched_forward(module: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """Let the module run another forward for a while."""
    module.forward = forward
    try:
        yield
    finally:
        del module.forward
