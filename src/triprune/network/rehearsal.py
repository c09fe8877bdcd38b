"""Owns running a model as if one block were gone; refuses to run again what came before the block.

Nothing in front of a block feels its removal, so the outputs of one full run stand in for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from triprune.network.blocks import Block
from triprune.network.running import Example, run_example
from triprune.network.structure.candidates import Candidate, edited, edits_of
from triprune.network.structure.dense import run_without_channels
from triprune.network.structure.observing import patched_forward, same_output

_MEMORY_BYTES = 2**29


@dataclass(frozen=True, slots=True)
class _Take:
    """The one call of a module: when it began and ended, and what it returned."""

    began: int
    ended: int
    output: torch.Tensor | None


class Rehearsal:
    """One model and one example, run once in full and then without any one block."""

    def __init__(
        self, model: nn.Module, example_input: Example, candidates: Mapping[str, Candidate]
    ) -> None:
        self._model = model
        self._example = example_input
        self._candidates = candidates
        apart = {name for c in candidates.values() for name in ([c.name] if c.whole else c.branch)}
        self.output, self._takes = _record(model, example_input, set(_frontier(model, apart)))
        if not self._memory_is_true():
            self._takes = {}

    def without(self, block: Block) -> Any:
        """Return the output of the model without the block."""
        candidate = self._candidates[block.name]
        with self._replaying(candidate):
            if block.kind == "dense":
                return run_without_channels(self._model, self._example, [block.writes])
            with edited(self._model, edits_of(self._model, candidate)):
                return run_example(self._model, self._example)

    @contextmanager
    def _replaying(self, candidate: Candidate) -> Iterator[None]:
        """Let everything that ended before the candidate began return what it returned."""
        names = [candidate.name] if candidate.whole else candidate.branch
        began = min((self._takes[n].began for n in names if n in self._takes), default=0)
        with ExitStack() as patches:
            for name, take in self._takes.items():
                if take.output is not None and take.ended < began:
                    module = self._model.get_submodule(name)
                    patches.enter_context(patched_forward(module, _returning(take.output)))
            yield

    def _memory_is_true(self) -> bool:
        """Tell whether replaying gives the output again: a module may change its input in place."""
        latest = max(self._candidates.values(), key=self._begin, default=None)
        if latest is None:
            return True
        with self._replaying(latest):
            return same_output(run_example(self._model, self._example), self.output)

    def _begin(self, candidate: Candidate) -> int:
        take = self._takes.get(candidate.name if candidate.whole else candidate.branch[0])
        return take.began if take else -1


def _returning(output: torch.Tensor) -> Callable[..., torch.Tensor]:
    # A copy each time: whatever comes next may change it in place.
    return lambda *_, **__: output.clone()


def _frontier(module: nn.Module, apart: set[str], name: str = "") -> Iterator[str]:
    """Yield the largest modules that hold no block, and the blocks themselves."""
    inside = f"{name}." if name else ""
    if name in apart or (name and not any(block.startswith(inside) for block in apart)):
        yield name
        return
    for key, child in module.named_children():
        yield from _frontier(child, apart, inside + key)


def _record(
    model: nn.Module, example_input: Example, names: set[str]
) -> tuple[Any, dict[str, _Take]]:
    clock, room = 0, _MEMORY_BYTES
    began: dict[str, int] = {}
    takes: dict[str, _Take] = {}
    again: set[str] = set()

    def begin(name: str) -> Any:
        def hook(*_: Any) -> None:
            nonlocal clock
            clock += 1
            again.update({name} & began.keys())
            began[name] = clock

        return hook

    def end(name: str) -> Any:
        def hook(module: nn.Module, _inputs: Any, output: Any) -> None:
            nonlocal clock, room
            del module
            clock += 1
            kept = None
            if isinstance(output, torch.Tensor) and output.nbytes <= room:
                kept = output.clone()
                room -= output.nbytes
            takes[name] = _Take(began[name], clock, kept)

        return hook

    with ExitStack() as hooks:
        for name in names:
            module = model.get_submodule(name)
            hooks.enter_context(module.register_forward_pre_hook(begin(name)))
            hooks.enter_context(module.register_forward_hook(end(name)))
        output = run_example(model, example_input)
    return output, {name: take for name, take in takes.items() if name not in again}
