"""Owns where independent pieces of work run: one after the other here, or in turns side by side.

A piece of work is a generator that gives way after each launched step. Taking turns, several small
trainings overlap on one GPU; on a CPU the results are the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

from triprune.errors import RunStoppedError
from triprune.run.spec import ExecutorName

Value = TypeVar("Value")
Work = Generator[None, None, Value]


def execute(name: ExecutorName, works: Sequence[Work[Value]]) -> list[Value]:
    """Run all the work and return the values in its order; the first error ends everything.

    Only work that stops because its time is up lets the others come to their own stop first.
    """
    drive: Callable[[Sequence[Work[Value]]], list[Value]] = (
        _inline if name == "inline" else _side_by_side
    )
    return drive(works)


def _inline(works: Sequence[Work[Value]]) -> list[Value]:
    return [_side_by_side([work])[0] for work in works]


def _side_by_side(works: Sequence[Work[Value]]) -> list[Value]:
    waiting = dict(enumerate(works))
    values: dict[int, Value] = {}
    stopped: RunStoppedError | None = None
    while waiting:
        for number, work in list(waiting.items()):
            try:
                next(work)
            except StopIteration as end:
                values[number] = end.value
                del waiting[number]
            except RunStoppedError as error:
                stopped = error
                del waiting[number]
    if stopped is not None:
        raise stopped
    return [values[number] for number in range(len(works))]
