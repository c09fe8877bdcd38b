"""Owns the user's own training: two functions instead of data, for any task with one score."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict

import torch
from torch import nn

from triprune.core.scale import finite_number
from triprune.errors import InputError
from triprune.learning.recipe import refuse_unknown
from triprune.network.profile import InputSize, input_shape
from triprune.run.trainer import Task, Tuned

if TYPE_CHECKING:
    from typing_extensions import Required

Train = Callable[[nn.Module, int], object]
Evaluate = Callable[[nn.Module, int], float]


class OwnFunctions(TypedDict, total=False):
    """What ``compress`` takes in the place of data; the fields of ``OwnTraining``."""

    train: Required[Train]
    evaluate: Required[Evaluate]
    input_size: Required[InputSize]
    final_evaluate: Evaluate


@dataclass(frozen=True, slots=True)
class OwnTraining:
    """Trains with ``train(model, resolution_px)``, scores with ``evaluate(model, resolution_px)``.

    Higher scores are better. ``train`` works in place, from torch's global seed, which is set
    before each call, on GPUs too. Images are square, ``input_size`` their channels and sides.
    Without a ``final_evaluate``, which alone may look at test data, the last step scores with
    ``evaluate``.
    """

    train: Train
    evaluate: Evaluate
    input_size: tuple[int, int, int]
    final_evaluate: Evaluate | None = None

    @classmethod
    def of(cls, model: nn.Module, given: Mapping[str, Any]) -> OwnTraining:
        """Return the training with what ``compress`` was given; name what is missing or unknown."""
        names = {field.name for field in fields(cls)}
        refuse_unknown(given, names, "compress")
        missing = sorted(names - {"final_evaluate"} - set(given))
        if missing:
            raise InputError(
                f"compress with {', '.join(sorted(given))}",
                f"it lacks {' and '.join(f'{name}=' for name in missing)}",
                "give train=, evaluate= and input_size=, as (3, 512, 512)",
            )
        sized: dict[str, Any] = {**given, "input_size": input_shape(model, given["input_size"])}
        return cls(**sized)

    def __post_init__(self) -> None:
        given = {"train": self.train, "evaluate": self.evaluate}
        if self.final_evaluate is not None:
            given["final_evaluate"] = self.final_evaluate
        for name, function in given.items():
            found = _unfit(function)
            if found:
                raise InputError(
                    f"{name}={function!r}", found, f"give {name}(model, resolution_px)"
                )

    @property
    def judges(self) -> int | None:
        """None: a user's score may be anything."""
        return None

    def facts(self) -> Mapping[str, Any]:
        """Return the functions' names and the input: what is inside them is the user's to keep."""
        final = self.final_evaluate
        return {
            "functions": [_name(self.train), _name(self.evaluate)],
            "final_evaluate": None if final is None else _name(final),
            "input_size": list(self.input_size),
        }

    def epochs(self, final: bool) -> int:
        """Return 0: the user's function alone knows."""
        del final
        return 0

    def fine_tune(self, task: Task) -> Generator[None, None, Tuned]:
        """Call ``train``, which starts over if it is interrupted."""
        yield
        with _global_seed(task.seed):
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


@contextmanager
def _global_seed(seed: int) -> Generator[None, None, None]:
    """Set torch's global seed, and leave the caller's random numbers as they were.

    GPUs that nothing has used yet are not woken, as their forked children could not use them: the
    seed waits there for whoever wakes them.
    """
    in_use = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with torch.random.fork_rng(devices=in_use):  # pyright: ignore[reportUnknownMemberType]
        torch.manual_seed(seed)  # pyright: ignore[reportUnknownMemberType]
        yield


def _score(evaluate: Evaluate, task: Task) -> float:
    with torch.no_grad():
        score = evaluate(task.model.eval(), task.resolution_px)
    try:
        return finite_number(score, "score")
    except (InputError, RuntimeError) as error:  # torch's, of a tensor with several elements
        raise InputError(
            f"the score of {task.name}",
            f"{_name(evaluate)} returned {str(score)[:60]}, which is not a finite number",
            "return one plain number, the higher the better, as 0.93 for an accuracy",
        ) from error


def _unfit(function: object) -> str:
    """Return why ``function`` cannot be called with a model and a resolution; nothing if it can."""
    if not callable(function):
        return "it is no function"
    try:
        signature = inspect.signature(function)
    except ValueError:  # some builtins do not tell
        return ""
    try:
        signature.bind("model", 32)
    except TypeError:
        return f"it takes {signature}, not a model and a resolution in pixels"
    return ""


def _name(function: Callable[..., object]) -> str:
    """Return a name that is the same in every process: no object's place in memory is in it."""
    while isinstance(function, partial):
        function = function.func
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{getattr(named, '__module__', '')}.{named.__qualname__}"
