"""Owns residual regions, found in a module's own graph; refuses to judge by class or name.

A region is a join (a sum, a difference, a concatenation of channels) with two operands: one reached
from the region's entry without meeting a parameter, the other a branch with weights that feeds
nothing else. Dropping the branch leaves the network well formed wherever the entry and the join
have the same shape, which only a run can tell.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import fx, nn

from triprune.network.structure.tracing import called_module, has_parameters, live_nodes

Kind = Literal["residual", "dense"]

_ADDITIONS = (operator.add, operator.iadd, torch.add, "add", "add_")
_SUBTRACTIONS = (operator.sub, operator.isub, torch.sub, "sub", "sub_")
_CONCATENATIONS = (torch.cat, torch.concat, torch.concatenate)


@dataclass(frozen=True, slots=True)
class Region:
    """``join = kept + branch`` inside one module's graph, with both reached from ``entry``.

    ``kept`` is the operand that remains; ``branch`` holds, in order, the nodes that nothing needs
    once the join is replaced by it.
    """

    kind: Kind
    graph: fx.Graph
    join: fx.Node
    kept: fx.Node
    entry: fx.Node
    branch: tuple[fx.Node, ...]

    def contains(self, other: Region) -> bool:
        """Tell whether the other region lies inside this one's branch."""
        return other.graph is self.graph and other.join in self.branch


def find_regions(owner: nn.Module, graph: fx.Graph) -> list[Region]:
    """Return every region of the owner's own graph, by structure alone, in order."""
    live = live_nodes(graph)
    regions: list[Region] = []
    for join in live:
        dense = is_concatenation(join)
        for kept in _operands_that_may_stay(join):
            kind: Kind = "dense" if dense else "residual"
            region = _region(owner, live, kind=kind, join=join, kept=kept)
            regions.extend([region] if region else [])
    return regions


def _operands_that_may_stay(node: fx.Node) -> tuple[fx.Node, ...]:
    """Return the operands which the result equals once the other one is dropped."""
    operands = concatenated(node) if is_concatenation(node) else ()
    if node.op in ("call_function", "call_method"):
        operands = node.args if node.target in (*_ADDITIONS, *_SUBTRACTIONS) else operands
    tensors = tuple(operand for operand in operands if isinstance(operand, fx.Node))
    if len(operands) != 2 or len(set(tensors)) != 2:
        return ()
    one_way = node.target in _SUBTRACTIONS or node.kwargs.get("alpha", 1) != 1
    return tensors[:1] if one_way else tensors


def is_concatenation(node: fx.Node) -> bool:
    """Tell whether the node concatenates along the channels."""
    if node.op != "call_function" or node.target not in _CONCATENATIONS:
        return False
    axis = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
    return axis in (1, -3)


def concatenated(node: fx.Node) -> tuple[object, ...]:
    """Return what a concatenation concatenates."""
    tensors = node.args[0] if node.args else node.kwargs.get("tensors")
    return tuple(tensors) if isinstance(tensors, (list, tuple)) else (tensors,)


def _region(
    owner: nn.Module, live: list[fx.Node], *, kind: Kind, join: fx.Node, kept: fx.Node
) -> Region | None:
    remaining = set(live_nodes(join.graph, {join: kept}))
    branch = tuple(node for node in live if node not in remaining)
    if not any(holds_weights(owner, node) for node in branch):
        return None
    sources = {node for inner in branch for node in inner.all_input_nodes}
    sources = {node for node in sources if node in remaining and node.op != "get_attr"}
    entry = _entry(owner, kept, sources)
    if entry is None or (kind == "dense" and entry is not kept):
        return None
    return Region(kind, join.graph, join=join, kept=kept, entry=entry, branch=branch)


def _entry(owner: nn.Module, kept: fx.Node, sources: set[fx.Node]) -> fx.Node | None:
    """Return the nearest of the branch's sources from which a path without parameters runs."""
    waiting, seen = [kept], {kept}
    while waiting:
        node = waiting.pop(0)
        if node in sources:
            return node
        if not _uses_parameters(owner, node):
            fresh = [feed for feed in node.all_input_nodes if feed not in seen]
            seen.update(fresh)
            waiting.extend(fresh)
    return None


def _uses_parameters(owner: nn.Module, node: fx.Node) -> bool:
    module = called_module(owner, node)
    if module is not None:
        return has_parameters(module)
    return node.op == "get_attr" or any(feed.op == "get_attr" for feed in node.all_input_nodes)


def holds_weights(owner: nn.Module, node: fx.Node) -> bool:
    """Tell whether the node multiplies by a weight matrix or kernel, not by a mere scale."""
    module = called_module(owner, node)
    if module is not None:
        return any(is_weight(parameter) for parameter in module.parameters())
    if node.op != "get_attr":
        return False
    value: object = owner
    for part in str(node.target).split("."):
        value = getattr(value, part)
    return isinstance(value, nn.Parameter) and is_weight(value)


def is_weight(parameter: nn.Parameter) -> bool:
    """Tell a matrix or kernel from a scale or bias, however that is shaped for broadcasting."""
    return sum(size > 1 for size in parameter.shape) > 1
