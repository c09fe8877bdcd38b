"""Owns the user's own training: two functions instead of data, for any task with one score."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from triprune.core.scale import finite_number
from triprune.learning.training import model_randomness
from triprune.run.trainer import Task, Tuned

Train = Callable[[nn.Module, int], object]
Evaluate = Callable[[nn.Module, int], float]


@dataclass(frozen=True, slots=True)
class OwnTraining:
    """Trains with ``train(model, resolution_px)``, scores with ``evaluate(model, resolution_px)``.

    Higher scores are better. ``train`` works in place, from torch's global seed. Without a
    ``final_evaluate``, which alone may look at test data, the last step scores with ``evaluate``.
    """

    train: Train
    evaluate: Evaluate
    input_size: tuple[int, int, int]
    final_evaluate: Evaluate | None = None

    def facts(self) -> Mapping[str, Any]:
        """Return the functions' names: what is inside them is the user's to keep."""
        return {"functions": [_name(self.train), _name(self.evaluate)]}

    def epochs(self, final: bool) -> int:
        """Return 0: the user's function alone knows."""
        del final
        return 0

    def fine_tune(self, task: Task) -> Generator[None, None, Tuned]:
        """Call ``train``, which starts over if it is interrupted."""
        yield
        with model_randomness(task.seed):
            self.train(task.model.train(), task.resolution_px)
        return Tuned(self.validate(task))

    def validate(self, task: Task) -> float:
        """Call ``evaluate``."""
        return _score(self.evaluate, task)

    def test(self, task: Task) -> float:
        """Call ``final_evaluate``, or ``evaluate`` without one."""
        return _score(self.final_evaluate or self.evaluate, task)

    def block_scores(self, model: nn.Module, blocks: Sequence[str]) -> dict[str, float] | None:
        """Return None: without labels nothing can be probed."""
        del model, blocks
        return None


def _score(evaluate: Evaluate, task: Task) -> float:
    with torch.no_grad():
        score = evaluate(task.model.eval(), task.resolution_px)
    return finite_number(score, f"the score of {task.name}")


def _name(function: Callable[..., object]) -> str:
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', function)}"
