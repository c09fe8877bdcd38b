"""Owns dense layers, whose output is set beside their own input; refuses look-alikes.

A layer counts where everything that uses its output concatenates it with all that the layer itself
was computed from, and where it feeds, or is fed by, another such layer: the branches of an
inception block or the skips of a U-Net are no dense layers.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any

import torch
from torch import fx, nn
from torch.nn.modules.conv import _ConvNd

from triprune.network.channels.layers import is_depthwise
from triprune.network.running import Example, run_example
from triprune.network.structure.regions import concatenated, holds_weights, is_concatenation
from triprune.network.structure.tracing import Graphs, called_module, live_nodes, trace_own


class NoChannels(nn.Module):
    """No channels at all: what a removed dense layer adds to a concatenation."""

    def forward(self, x: torch.Tensor | list[torch.Tensor]) -> torch.Tensor:
        """Return the first input, cut to none of its channels."""
        return (x if isinstance(x, torch.Tensor) else x[0])[:, :0]


def find_dense_layers(owner: nn.Module, graphs: Graphs) -> list[fx.Node]:
    """Return the calls of dense layers in the owner's own graph, in order."""
    graph = graphs[owner]
    live = live_nodes(graph) if graph else []
    takers = {node: set[fx.Node]() for node in live} | _takers(owner, live, graphs)
    calls = [node for node in live if node.op == "call_module" and holds_weights(owner, node)]
    feeds = {node: _leaves(node.args[0]) for node in calls if len(node.args) == 1}
    dense = [node for node in feeds if _is_dense(node, feeds[node], takers)]
    return [
        node
        for node in dense
        if any(other in feeds[node] or node in feeds[other] for other in dense)
    ]


def _is_dense(node: fx.Node, fed_by: set[fx.Node], takers: dict[fx.Node, set[fx.Node]]) -> bool:
    users = [user for user in node.users if user in takers]
    return bool(users) and all(takers[user] >= fed_by | {node} for user in users)


def _takers(owner: nn.Module, live: list[fx.Node], graphs: Graphs) -> dict[fx.Node, set[fx.Node]]:
    """Return the nodes that concatenate, each with everything that it concatenates."""
    takers = {node: _leaves(node) for node in live if is_concatenation(node)}
    calls = [node for node in live if _concatenates(owner, node, graphs)]
    return takers | {node: _leaves(node.args[0]) for node in calls}


def _leaves(value: object) -> set[fx.Node]:
    """Return what a tensor, a list of them or a concatenation is made of."""
    if isinstance(value, fx.Node) and is_concatenation(value):
        return _leaves(concatenated(value))
    if isinstance(value, fx.Node):
        return {value}
    items = value if isinstance(value, (list, tuple)) else ()
    return {leaf for item in items for leaf in _leaves(item)}


def _concatenates(owner: nn.Module, call: fx.Node, graphs: Graphs) -> bool:
    """Tell whether the called layer takes a list of tensors and only ever concatenates it."""
    module = called_module(owner, call)
    if module is None or len(call.args) != 1 or not isinstance(call.args[0], (list, tuple)):
        return False
    graph = graphs.get(module)
    inputs = [node for node in graph.nodes if node.op == "placeholder"] if graph else []
    return len(inputs) == 1 and all(is_concatenation(user) for user in inputs[0].users)


def can_be_deleted(owner: nn.Module, graph: fx.Graph, targets: list[str]) -> bool:
    """Tell whether the owner goes through these layers in a loop, so that any can simply go."""
    parents = {target: owner.get_submodule(target.rpartition(".")[0]) for target in targets}
    if not all(
        isinstance(p, (nn.ModuleDict, nn.ModuleList, nn.Sequential)) for p in parents.values()
    ):
        return False
    before = {parent: dict(parent._modules) for parent in parents.values()}
    for target, parent in parents.items():
        del parent._modules[target.rpartition(".")[2]]
    try:
        smaller = trace_own(owner) if targets else None
    finally:
        for parent, children in before.items():
            parent._modules.clear()
            parent._modules.update(children)
    left = [name for name in _calls(graph.nodes) if name not in targets]
    return smaller is not None and _calls(smaller.nodes) == left


def _calls(nodes: Iterable[fx.Node]) -> list[str]:
    return [str(node.target) for node in nodes if node.op == "call_module"]


def run_without_channels(model: nn.Module, example_input: Example, layers: Iterable[str]) -> Any:
    """Run the model as if the output channels of some layers were cut from all layers after them.

    They are marked as not-a-number, which norms, activations, pooling and depthwise layers pass on
    channel by channel; any other layer with weights then sees zeros. Not-a-number in the output
    means that the channels cannot be cut.
    """

    def mark(module: nn.Module, inputs: Any, output: torch.Tensor) -> torch.Tensor:
        del module, inputs
        return torch.full_like(output, torch.nan)

    def clear(module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        del module
        return (inputs[0].nan_to_num(nan=0.0, posinf=torch.inf, neginf=-torch.inf), *inputs[1:])

    with ExitStack() as hooks:
        for module in model.modules():
            if isinstance(module, (_ConvNd, nn.Linear)) and not is_depthwise(module):
                hooks.enter_context(module.register_forward_pre_hook(clear))
        for layer in layers:
            marked = model.get_submodule(layer)
            hooks.enter_context(marked.register_forward_hook(mark))
        return run_example(model, example_input)
