"""Owns works that take turns: generators that give way after each launched step.

Several small trainings then overlap on one GPU; on a CPU the results are the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TypeVar

from triprune.errors import RunStoppedError

Value = TypeVar("Value")
Work = Generator[None, None, Value]


def drive(works: Sequence[Work[Value]]) -> list[Value]:
    """Run the works in turns, to their ends."""
    whole = in_turns(works)
    while True:
        try:
            next(whole)
        except StopIteration as end:
            return end.value


def in_turns(works: Sequence[Work[Value]]) -> Work[list[Value]]:
    """Make one work of several: it gives way when each has had its turn."""
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
        if waiting:
            yield
    if stopped is not None:
        raise stopped
    return [values[number] for number in range(len(works))]
