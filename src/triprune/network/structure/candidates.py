"""Owns the names of blocks and the edit that removes each; refuses anything a run must tell.

Everything here follows from the model's structure, so that a plan replays on a fresh model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from torch import fx, nn

from triprune.network.structure.dense import NoChannels, can_be_deleted, find_dense_layers
from triprune.network.structure.leftover import (
    follows_relu,
    leftover_of,
    replacement_of,
    silenced_layers,
)
from triprune.network.structure.regions import Kind, Region, find_regions, holds_weights
from triprune.network.structure.tracing import Graphs, has_parameters, trace_own

Edits = Mapping[str, nn.Module | None]
"""What stands in for which module; None where its container simply loses it."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A block by structure, in the own graph of the module called ``owner``.

    ``region`` is None for a dense layer that somebody else concatenates. ``whole`` where the
    module of the block's name goes; else only the layers of a branch do. ``branch`` holds the full
    names of the modules that the block calls. A ``deletable`` module leaves no gap behind, and
    ``after_relu`` tells of one whose input is never negative.
    """

    name: str
    kind: Kind
    owner: str
    graph: fx.Graph
    region: Region | None
    whole: bool
    branch: tuple[str, ...]
    deletable: bool = False
    after_relu: bool = False


def find_candidates(model: nn.Module) -> tuple[dict[str, Candidate], list[str]]:
    """Return every block that structure allows, by name, and the modules that hide theirs."""
    owners = {
        name: owner
        for name, owner in model.named_modules()
        if not type(owner).__module__.startswith("torch.nn") and has_parameters(owner)
    }
    graphs = {owner: trace_own(owner) for owner in owners.values()}
    found: dict[str, Candidate] = {}
    for name, owner in owners.items():
        after_relu = bool(name) and follows_relu(model, name, graphs)
        for candidate in _candidates(name, owner, graphs, after_relu=after_relu):
            found.setdefault(candidate.name, candidate)
    return found, [name for name, owner in owners.items() if graphs[owner] is None]


def _candidates(
    name: str, owner: nn.Module, graphs: Graphs, *, after_relu: bool
) -> Iterator[Candidate]:
    graph = graphs[owner]
    if graph is None:
        return
    regions = find_regions(owner, graph)
    for region in regions:
        whole = bool(name) and len(regions) == 1 and leftover_of(owner, region) is not None
        branch = _called(name, region.branch)
        if whole and (branch or region.kind == "residual"):
            yield Candidate(
                name, region.kind, name, graph, region, True, branch, after_relu=after_relu
            )
        elif region.kind == "residual":
            silenced = silenced_layers(owner, region)
            weighty = [
                str(node.target)
                for node in region.branch
                if str(node.target) in silenced and holds_weights(owner, node)
            ]
            if weighty:
                full = f"{name}:{weighty[-1]}"
                yield Candidate(full, "residual", name, graph, region, False, branch)
    layers = find_dense_layers(owner, graphs)
    deletable = can_be_deleted(owner, graph, [str(node.target) for node in layers])
    for node in layers:
        layer = _called(name, [node])
        yield Candidate(layer[0], "dense", name, graph, None, True, layer, deletable)


def _called(owner: str, nodes: Iterable[fx.Node]) -> tuple[str, ...]:
    prefix = f"{owner}." if owner else ""
    return tuple(f"{prefix}{node.target}" for node in nodes if node.op == "call_module")


def edits_of(model: nn.Module, candidate: Candidate) -> Edits:
    """Return what stands in for which modules once the block is removed."""
    owner, region = model.get_submodule(candidate.owner), candidate.region
    prefix = f"{candidate.owner}." if candidate.owner else ""
    if region is None:
        return {candidate.name: None if candidate.deletable else NoChannels()}
    chain = leftover_of(owner, region) if candidate.whole else None
    if chain is not None:
        return {candidate.owner: replacement_of(chain, after_relu=candidate.after_relu)}
    layers = silenced_layers(owner, region)
    return {f"{prefix}{target}": module for target, module in layers.items()}


def apply_edits(model: nn.Module, edits: Edits) -> dict[nn.Module, dict[str, nn.Module | None]]:
    """Make the edits under each name of a module; return the children of every changed parent."""
    standing = {model.get_submodule(name): module for name, module in edits.items()}
    changed = {
        parent: dict(parent._modules)
        for parent in list(model.modules())
        if not standing.keys().isdisjoint(parent._modules.values())
    }
    for parent, children in changed.items():
        for key, child in children.items():
            if child in standing:
                _put(parent, key, standing[child], training=child.training)
    return changed


def _put(parent: nn.Module, key: str, module: nn.Module | None, *, training: bool) -> None:
    if module is None:
        del parent._modules[key]
    else:
        module.training = training
        parent._modules[key] = module


@contextmanager
def edited(model: nn.Module, edits: Edits) -> Iterator[None]:
    """Apply the edits for a while."""
    changed = apply_edits(model, edits)
    try:
        yield
    finally:
        for parent, children in changed.items():
            parent._modules.clear()
            parent._modules.update(children)
