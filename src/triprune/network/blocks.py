"""Owns which blocks of a model can go; refuses to judge by class or name, or to touch the model.

A block can go where its branch feeds nothing but one join, a path without parameters leads around
it, and a run shows equal shapes at both ends and the very same output with the branch zeroed as
with the block removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn

from triprune.errors import InputError
from triprune.network.candidates import Candidate, edited, edits_of, find_candidates
from triprune.network.dense import run_without_channels
from triprune.network.observing import (
    Calls,
    Sighting,
    run_zeroed,
    same_output,
    watch_calls,
    watch_owners,
)
from triprune.network.regions import Kind
from triprune.network.running import Example, output_tensors, run_example, working_copy


@dataclass(frozen=True, slots=True)
class Block:
    """A block that can go, with the macs and parameters that go with it.

    A ``residual`` block adds to its input, a ``dense`` one sets new channels beside it: those that
    the layer called ``writes`` puts out, and that must be cut from every layer after the block.
    What those layers save thereby is not counted here.
    """

    name: str
    kind: Kind
    macs: int
    params: int
    writes: str = ""


@dataclass(frozen=True, slots=True)
class BlockList:
    """The blocks that can go, the number of all blocks, and what looked like a block but stays.

    ``total`` also counts siblings that must stay, such as those that change the resolution: depth
    is the fraction of *all* blocks that is kept.
    """

    blocks: tuple[Block, ...]
    total: int
    refused: tuple[tuple[str, str], ...] = ()

    def __iter__(self) -> Iterator[Block]:
        return iter(self.blocks)

    def __len__(self) -> int:
        return len(self.blocks)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the blocks that can go, in the order of the network."""
        return tuple(block.name for block in self.blocks)

    @property
    def fewest(self) -> int:
        """The smallest number of blocks that can be kept."""
        return max(1, self.total - len(self.blocks))

    def kept_at(self, depth: float) -> int:
        """Return how many blocks a depth keeps, rounded to nearest, or say what can be reached."""
        if depth >= 1.0:
            return self.total
        if not self.blocks:
            raise InputError(
                f"depth {depth:g}",
                "this model has no block that can go",
                "keep depth at 1 and cut width or resolution",
            )
        kept = int(depth * self.total + 0.5)
        if kept < self.fewest:
            raise InputError(
                f"depth {depth:g}",
                f"it keeps {kept} of {self.total} blocks, and only {len(self.blocks)} can go",
                f"the smallest depth here is {self.fewest / self.total:.4f}",
            )
        return kept


def removable_blocks(model: nn.Module, example_input: Example) -> BlockList:
    """List the blocks whose removal leaves a well-formed network; the model is not touched."""
    copy = working_copy(model)
    calls = watch_calls(copy, example_input)
    candidates = find_candidates(copy)
    refused: dict[str, str] = {}
    for name, candidate in list(candidates.items()):
        reason = _miscalled(copy, candidate, calls)
        if reason:
            refused[name] = reason
            del candidates[name]
    graphs = {c.owner: c.graph for c in candidates.values()}
    sightings = watch_owners(copy, example_input, graphs)
    fitting: list[Candidate] = []
    for candidate in candidates.values():
        reason = _misfit(candidate, sightings[candidate.owner])
        if reason:
            refused[candidate.name] = reason
        else:
            fitting.append(candidate)
    fitting = _innermost(fitting)
    exact = _exact(copy, example_input, fitting)
    refused.update({c.name: _INEXACT for c in fitting if c not in exact})
    blocks = [_described(copy, candidate, calls) for candidate in exact]
    free = _with_free_channels(copy, example_input, blocks)
    refused.update({block.name: _BOUND for block in blocks if block not in free})
    return BlockList(tuple(free), _count_all(copy, exact), tuple(refused.items()))


_INEXACT = "removing it is not the same as zeroing its branch: a tensor is changed in place"
_BOUND = "its channels reach the output, or another place from which they cannot be cut"


def _miscalled(model: nn.Module, candidate: Candidate, calls: Calls) -> str:
    names = [candidate.name] if candidate.whole else [candidate.owner, *candidate.branch]
    for name in names:
        count = calls.order.count(model.get_submodule(name))
        if count != 1:
            return f"{name or 'the model'} runs {count} times in one forward"
    return ""


def _misfit(candidate: Candidate, sighting: Sighting) -> str:
    region, shapes = candidate.region, sighting.shapes
    if sighting.doubt or region is None:
        return sighting.doubt
    entry, kept, join = (shapes.get(node) for node in (region.entry, region.kept, region.join))
    if entry is None or kept is None or join is None or entry != kept:
        return "its shortcut changes the shape"
    if region.kind == "residual" and join != kept:
        return "its shortcut changes the shape"
    return ""


def _innermost(candidates: list[Candidate]) -> list[Candidate]:
    """Leave out regions around others; a residual region outweighs the dense layers inside it."""

    def around(outer: Candidate, inner: Candidate) -> bool:
        if outer.region and inner.region and outer.region.contains(inner.region):
            return True
        return any(f"{inner.owner}.".startswith(f"{layer}.") for layer in outer.branch)

    def weaker(one: Candidate, other: Candidate) -> bool:
        if around(one, other):
            return not (one.kind == "residual" and other.kind == "dense")
        return around(other, one) and one.kind == "dense" and other.kind == "residual"

    return [c for c in candidates if not any(weaker(c, other) for other in candidates)]


def _exact(model: nn.Module, example: Example, candidates: list[Candidate]) -> list[Candidate]:
    """Return those whose removal equals zeroing the branch, to the last bit."""
    added = [candidate for candidate in candidates if candidate.kind == "residual"]
    if _removal_is_exact(model, example, added):
        return candidates
    good = [c for c in added if _removal_is_exact(model, example, [c])]
    return [c for c in candidates if c.kind == "dense" or c in good]


def _removal_is_exact(model: nn.Module, example: Example, candidates: list[Candidate]) -> bool:
    if not candidates:
        return True
    edits = {name: new for c in candidates for name, new in edits_of(model, c).items()}
    zeroed = run_zeroed(model, example, candidates)
    try:
        with edited(model, edits):
            return same_output(zeroed, run_example(model, example))
    except InputError:
        return False


def _described(model: nn.Module, candidate: Candidate, calls: Calls) -> Block:
    modules, params = list(model.modules()), set(model.parameters())
    with edited(model, edits_of(model, candidate)):
        gone = set(modules).difference(model.modules())
        params.difference_update(model.parameters())
    return Block(
        candidate.name,
        candidate.kind,
        macs=sum(calls.macs[module] for module in gone),
        params=sum(parameter.numel() for parameter in params),
        writes=_last_layer(model, gone, calls) if candidate.kind == "dense" else "",
    )


def _with_free_channels(model: nn.Module, example: Example, blocks: list[Block]) -> list[Block]:
    """Return the blocks without those dense ones whose channels no later layer takes up."""

    def free(layers: list[str]) -> bool:
        output = run_without_channels(model, example, layers) if layers else None
        return not any(bool(tensor.isnan().any()) for tensor in output_tensors(output))

    if free([block.writes for block in blocks if block.writes]):
        return blocks
    return [block for block in blocks if not block.writes or free([block.writes])]


def _last_layer(model: nn.Module, gone: set[nn.Module], calls: Calls) -> str:
    weighty = [
        module
        for module in calls.order
        if module in gone and any(p.dim() > 1 for p in module.parameters(recurse=False))
    ]
    return next(name for name, module in model.named_modules() if module is weighty[-1])


def _count_all(model: nn.Module, removable: list[Candidate]) -> int:
    """Count the removable blocks and their siblings that stay.

    A sibling is of the same class as a block, or a module of the same source file at the same
    place in the tree with two layers of weights or more.
    """
    whole = [c.name for c in removable if c.whole]
    classes = {type(model.get_submodule(name)) for name in whole}
    files = {kind.__module__ for kind in classes}
    places = {_place(name) for name in whole}
    siblings = {
        name
        for name, module in model.named_modules()
        if type(module) in classes
        or (
            type(module).__module__ in files
            and _place(name) in places
            and sum(p.dim() > 1 for p in module.parameters()) > 1
        )
    }
    return len(siblings) + sum(not c.whole for c in removable)


def _place(name: str) -> str:
    return re.sub(r"\d+", "*", name)
