"""Owns removing blocks from a model, and which go first; refuses names that are not its blocks."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import nn

from triprune.errors import InputError
from triprune.network.blocks import BlockList
from triprune.network.rehearsal import Rehearsal
from triprune.network.running import Example, output_tensors, working_copy
from triprune.network.structure.candidates import Candidate, apply_edits, edits_of, find_candidates


def remove_blocks(model: nn.Module, names: Iterable[str]) -> None:
    """Remove blocks from the model in place, by the names that ``removable_blocks`` gave.

    What comes out equals the model with those branches zeroed, to the last bit in eval mode. It
    follows from structure alone, so it replays on a fresh model of the same architecture, in any
    order of names; layers that survive keep their names. Of a *dense* block only the module goes:
    the channels it fed are still to be cut from the layers after it.
    """
    wanted = (names,) if isinstance(names, str) else tuple(names)
    candidates, _ = find_candidates(model)
    check_names(wanted, candidates, asked="removing a block")
    edits = {
        name: module
        for wanted_name in wanted
        for name, module in edits_of(model, candidates[wanted_name]).items()
    }
    apply_edits(model, edits)


def score_blocks(model: nn.Module, example_input: Example, blocks: BlockList) -> dict[str, float]:
    """Return how much the output changes, relative to its size, when each block alone goes."""
    copy = working_copy(model)
    candidates, _ = find_candidates(copy)
    check_names(blocks.names, candidates, asked="scoring a block")
    return score_candidates(copy, example_input, blocks, candidates)


def score_candidates(
    copy: nn.Module,
    example_input: Example,
    blocks: BlockList,
    candidates: Mapping[str, Candidate],
) -> dict[str, float]:
    """Score the blocks of a private copy whose candidates are known."""
    chosen = {name: candidates[name] for name in blocks.names}
    rehearsal = Rehearsal(copy, example_input, chosen)
    before = output_tensors(rehearsal.output)
    if not before or not all(bool(tensor.isfinite().all()) for tensor in before):
        raise InputError(
            "scoring the blocks of a model",
            "its output on the example input holds no numbers, or some that are not finite",
            "give block_scores, or an example input on which the model works",
        )
    return {
        block.name: _change(before, output_tensors(rehearsal.without(block))) for block in blocks
    }


def blocks_to_remove(
    blocks: BlockList, depth: float, *, scores: Mapping[str, float]
) -> tuple[str, ...]:
    """Return the names of the blocks that go at this depth: the lowest scores, earliest first.

    A score of infinity keeps a block for as long as others can go.
    """
    check_names(tuple(scores), blocks.names, asked="block_scores")
    missing = [name for name in blocks.names if name not in scores]
    if missing:
        raise InputError(
            "block_scores",
            f"it has no score for {', '.join(map(repr, missing[:3]))}"
            + (f" and {len(missing) - 3} more" if len(missing) > 3 else ""),
            "give each block that can go a score; removable_blocks lists them",
        )
    worth = {name: _number(name, scores[name]) for name in blocks.names}
    going = blocks.total - blocks.kept_at(depth)
    order = sorted(blocks.names, key=worth.__getitem__)
    gone = set(order[:going])
    return tuple(name for name in blocks.names if name in gone)


def _number(name: str, score: object) -> float:
    try:
        number = float(score)  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError):
        number = math.nan
    if math.isnan(number):
        raise InputError("block_scores", f"the score of {name!r} is {score!r}", "give a number")
    return number


def check_names(names: Sequence[str], known: Iterable[str], *, asked: str) -> None:
    """Refuse a name that is not known or comes twice, with those nearest to it."""
    known = tuple(known)
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=3, cutoff=0.4)
            raise InputError(
                f"{asked} named {name!r}",
                "no block of this model has that name"
                + (f"; near it: {', '.join(near)}" * bool(near)),
                "removable_blocks(model, example_input) lists them",
            )
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{asked} named {twice!r}", "it is named twice", "name each block once")


def _change(before: list[torch.Tensor], after: list[torch.Tensor]) -> float:
    """Return ‖after − before‖ / ‖before‖ over all tensors of an output."""
    moved = sum(
        float((b.double() - a.double()).square().sum()) for a, b in zip(before, after, strict=True)
    )
    size = sum(float(a.double().square().sum()) for a in before)
    change = math.sqrt(moved / size) if size > 0.0 else math.sqrt(moved)
    return math.inf if math.isnan(change) else change
