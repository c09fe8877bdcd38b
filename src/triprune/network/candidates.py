"""Owns the names of blocks and the edit that removes each; refuses anything a run must tell.

Everything here follows from the model's structure, so that a plan replays on a fresh model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from torch import nn

from triprune.network.leftover import leftover_of, replacement_of, silenced_layers
from triprune.network.regions import Kind, Region, find_regions, holds_weights
from triprune.network.tracing import trace_own

Edits = Mapping[str, nn.Module]
Slot = tuple[nn.Module, str, nn.Module]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A block by structure: its region, in the own graph of the module called ``owner``.

    ``whole`` where the owner itself goes; else only the layers of its branch do.
    """

    name: str
    owner: str
    region: Region
    whole: bool

    @property
    def kind(self) -> Kind:
        """How the block joins the stream: by adding to it or by adding channels."""
        return self.region.kind

    def branch_layers(self) -> list[str]:
        """Return the full names of the modules that the branch calls."""
        targets = [str(n.target) for n in self.region.branch if n.op == "call_module"]
        return [f"{self.owner}.{target}" if self.owner else target for target in targets]


def find_candidates(model: nn.Module) -> dict[str, Candidate]:
    """Return every block that structure allows, by name, in the order of the modules."""
    found: dict[str, Candidate] = {}
    for owner_name, owner in model.named_modules():
        graph = None if type(owner).__module__.startswith("torch.nn") else trace_own(owner)
        regions = find_regions(owner, graph) if graph else []
        for region in regions:
            candidate = _candidate(owner_name, owner, region, alone=len(regions) == 1)
            if candidate:
                found.setdefault(candidate.name, candidate)
    return found


def _candidate(name: str, owner: nn.Module, region: Region, *, alone: bool) -> Candidate | None:
    if name and alone and leftover_of(owner, region) is not None:
        return Candidate(name, name, region, whole=True)
    layers = silenced_layers(owner, region)
    weighty = [
        str(node.target)
        for node in region.branch
        if str(node.target) in layers and holds_weights(owner, node)
    ]
    if region.kind == "dense" or not weighty:
        return None
    return Candidate(f"{name}:{weighty[-1]}", name, region, whole=False)


def edits_of(model: nn.Module, candidate: Candidate) -> Edits:
    """Return what stands in for which modules once the block is removed."""
    owner = model.get_submodule(candidate.owner)
    if candidate.whole:
        chain = leftover_of(owner, candidate.region)
        assert chain is not None
        return {candidate.owner: replacement_of(model, candidate.owner, chain)}
    prefix = f"{candidate.owner}." if candidate.owner else ""
    layers = silenced_layers(owner, candidate.region)
    return {f"{prefix}{target}": module for target, module in layers.items()}


def apply_edits(model: nn.Module, edits: Edits) -> list[Slot]:
    """Put each module in its place, under each name of the one before it; return the old."""
    standing = {model.get_submodule(name): module for name, module in edits.items()}
    slots: list[Slot] = [
        (parent, key, child)
        for parent in model.modules()
        for key, child in parent._modules.items()
        if child in standing
    ]
    for parent, key, child in slots:
        parent._modules[key] = standing[child]
        standing[child].training = child.training
    return slots


@contextmanager
def edited(model: nn.Module, edits: Edits) -> Iterator[None]:
    """Apply the edits for a while."""
    slots = apply_edits(model, edits)
    try:
        yield
    finally:
        for parent, key, child in slots:
            parent._modules[key] = child
