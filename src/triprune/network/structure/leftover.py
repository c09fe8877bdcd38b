"""Owns what remains where a block was; refuses to change what the network computes around it.

Removing a block equals zeroing its branch. Where the block is a module of its own, only what the
kept path runs through remains: nothing, an activation, a norm. Elsewhere the module keeps its own
code and the layers of the branch are silenced.
"""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import fx, nn

from triprune.network.structure.regions import Region, holds_weights
from triprune.network.structure.tracing import (
    Graphs,
    called_module,
    has_parameters,
    live_nodes,
    output_of,
    trace_own,
)

_RELU_FUNCTIONS = (torch.relu, torch.relu_, nn.functional.relu, nn.functional.relu_)
_RELU_METHODS = ("relu", "relu_")


class Silence(nn.Module):
    """Zeros in the shape of the first input: the last layer of a branch that was removed."""

    def forward(self, x: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
        """Return zeros like ``x``."""
        return torch.zeros_like(x)


class Through(nn.Module):
    """The first input, untouched: an inner layer of a branch that was removed."""

    def forward(self, x: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
        """Return ``x``."""
        return x


def leftover_of(owner: nn.Module, region: Region) -> nn.Sequential | None:
    """Return what remains of the owner without the region's branch, or None.

    None where that is not a plain chain of the owner's own layers, without weights, from its one
    input to its one output. An empty chain is the identity.
    """
    graph = region.graph
    live = live_nodes(graph, {region.join: region.kept})
    if sum(node.op == "placeholder" for node in graph.nodes) != 1:
        return None
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    current = live[0]
    for node in live[1:]:
        feed = region.kept if node is region.join else _only_input(node)
        if feed is not current:
            return None
        current = node
        if node.op == "output":
            return nn.Sequential(layers) if node.args[0] is feed else None
        if node is not region.join and not _append(owner, node, layers):
            return None
    return None


def _only_input(node: fx.Node) -> fx.Node | None:
    feeds = node.all_input_nodes
    return feeds[0] if len(feeds) == 1 else None


def _append(owner: nn.Module, node: fx.Node, layers: OrderedDict[str, nn.Module]) -> bool:
    """Add the node's layer to the chain; False where it is not a layer of the owner's."""
    module, name = called_module(owner, node), str(node.target)
    if module is None and is_relu(owner, node):
        layers[node.name] = nn.ReLU()
        return True
    if module is None or len(node.args) + len(node.kwargs) != 1:
        return False
    if _does_nothing(module):
        return True
    if "." in name or name in layers or holds_weights(owner, node):
        return False
    layers[name] = module
    return True


def _does_nothing(module: nn.Module) -> bool:
    if isinstance(module, nn.Sequential) and type(module).forward is nn.Sequential.forward:
        return all(_does_nothing(child) for child in module)
    return isinstance(module, nn.Identity)


def replacement_of(chain: nn.Sequential, *, after_relu: bool) -> nn.Module:
    """Return the simplest module that computes the chain, which may follow a ReLU."""
    layers = list(chain)
    if all(isinstance(layer, nn.ReLU) for layer in layers) and (not layers or after_relu):
        return nn.Identity()
    for layer in layers:
        # The block's sum was its own tensor; what comes in now may be needed elsewhere.
        if getattr(layer, "inplace", False):
            layer.inplace = False  # pyright: ignore[reportArgumentType]
    return layers[0] if len(layers) == 1 and not has_parameters(layers[0]) else chain


def follows_relu(model: nn.Module, name: str, graphs: Graphs) -> bool:
    """Tell whether the sibling that runs just before, in a plain Sequential, ends in a ReLU."""
    parent_name, _, key = name.rpartition(".")
    parent = model.get_submodule(parent_name)
    if not isinstance(parent, nn.Sequential) or type(parent).forward is not nn.Sequential.forward:
        return False
    keys = list(parent._modules)
    before = [parent.get_submodule(sibling) for sibling in keys[: keys.index(key)]]
    live = [module for module in before if not _does_nothing(module)]
    return bool(live) and _ends_in_relu(live[-1], graphs)


def _ends_in_relu(module: nn.Module, graphs: Graphs) -> bool:
    if isinstance(module, nn.Sequential) and type(module).forward is nn.Sequential.forward:
        return len(module) > 0 and _ends_in_relu(module[-1], graphs)
    if isinstance(module, nn.ReLU):
        return True
    if module in graphs:
        graph = graphs[module]
    else:
        graph = None if type(module).__module__.startswith("torch.nn") else trace_own(module)
    last = output_of(graph).args[0] if graph else None
    return isinstance(last, fx.Node) and is_relu(module, last)


def silenced_layers(owner: nn.Module, region: Region) -> dict[str, nn.Module]:
    """Return, by their names in the owner, what stands in for the layers of the branch."""
    branch = {str(node.target) for node in region.branch if node.op == "call_module"}
    others = set(region.graph.nodes).difference(region.branch)
    shared = {str(node.target) for node in others if node.op == "call_module"}
    return {
        target: Silence() if has_parameters(owner.get_submodule(target)) else Through()
        for target in sorted(branch - shared)
    }


def is_relu(owner: nn.Module, node: fx.Node) -> bool:
    """Tell whether the node is a ReLU, as a layer, a function or a method."""
    if node.op == "call_function":
        return node.target in _RELU_FUNCTIONS
    if node.op == "call_method":
        return node.target in _RELU_METHODS
    return isinstance(called_module(owner, node), nn.ReLU)
