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
from triprune.network.running import Example, working_copy
from triprune.network.structure.candidates import Candidate, edited, edits_of, find_candidates
from triprune.network.structure.judging import judge, last_layer
from triprune.network.structure.observing import Calls, watch_calls
from triprune.network.structure.regions import Kind, is_weight


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
    return survey(working_copy(model), example_input)[0]


def survey(copy: nn.Module, example_input: Example) -> tuple[BlockList, dict[str, Candidate]]:
    """List the blocks of a private copy, with the candidates that they come from."""
    calls = watch_calls(copy, example_input)
    candidates, hidden = find_candidates(copy)
    good, refused = judge(copy, example_input, candidates, calls)
    for name in hidden:
        if name and copy.get_submodule(name) in calls.keep_shape:
            refused[name] = "torch.fx cannot follow its forward, so its inside is unknown"
    blocks = tuple(_described(copy, candidate, calls) for candidate in good)
    return BlockList(blocks, _count_all(copy, good), tuple(refused.items())), candidates


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
        writes=last_layer(model, candidate, calls) if candidate.kind == "dense" else "",
    )


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
            and sum(map(is_weight, module.parameters())) > 1
        )
    }
    return len(siblings) + sum(not c.whole for c in removable)


def _place(name: str) -> str:
    return re.sub(r"\d+", "*", name)
