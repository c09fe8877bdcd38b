"""Owns running pieces of work in this process: one after the other, or in turns side by side.

A piece of work is a generator that gives way after each launched step. Taking turns, several small
trainings overlap on one GPU; on a CPU the results are the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Generic, Protocol, TypeVar

from triprune.errors import RunStoppedError

Value = TypeVar("Value")
Shared = TypeVar("Shared")
Taken = TypeVar("Taken", covariant=True)
Work = Generator[None, None, Value]
Piece = Callable[[Shared], Work[Value]]
"""Starts a work on what all pieces share; one whose results are stored ends before it gives way."""


class Executor(Protocol[Taken]):
    """Runs pieces that do not know each other."""

    def run(self, pieces: Sequence[Piece[Taken, Value]], *, training: bool = False) -> list[Value]:
        """Return the values in the pieces' order; the first error ends everything.

        Only a piece that stops because its time is up lets the others come to their own stop
        first. ``training`` says that the pieces can use as many devices as a chain is given.
        """
        ...


class Inline(Generic[Shared]):
    """Runs one piece after the other."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    def run(self, pieces: Sequence[Piece[Shared, Value]], *, training: bool = False) -> list[Value]:
        """Run every piece to its end before the next begins."""
        del training
        return [drive([piece(self._shared)])[0] for piece in pieces]


class SideBySide(Generic[Shared]):
    """Runs all pieces in turns."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    def run(self, pieces: Sequence[Piece[Shared, Value]], *, training: bool = False) -> list[Value]:
        """Let the pieces take turns until the last has ended."""
        del training
        return drive([piece(self._shared) for piece in pieces])


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
