"""Owns a trainer that never trains: a run of seconds must find the optimum of a known function."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from triprune.core.scale import Scale
from triprune.run.trainer import Task, Tuned


@dataclass(frozen=True, slots=True)
class FakeTrainer:
    """Answers ``accuracy(scale)`` whatever it is given to train or to measure."""

    accuracy: Callable[[Scale], float]
    input_size: tuple[int, int, int] = (3, 32, 32)
    judges: int | None = None

    def facts(self) -> Mapping[str, Any]:
        """Return the name of the fake."""
        return {"data": "none: the trainer is a fake"}

    def epochs(self, final: bool) -> int:
        """Return one, for a round as for the end."""
        del final
        return 1

    def fine_tune(self, task: Task) -> Generator[None, None, Tuned]:
        """Give way once and answer."""
        yield
        return Tuned(self.accuracy(task.scale))

    def validate(self, task: Task) -> float:
        """Answer."""
        return self.accuracy(task.scale)

    def test(self, task: Task) -> float:
        """Answer."""
        return self.accuracy(task.scale)

    def block_scores(self, model: nn.Module, blocks: Sequence[str]) -> dict[str, float] | None:
        """Return scores that rise with the place in the network."""
        del model
        return {name: float(place) for place, name in enumerate(blocks)}
