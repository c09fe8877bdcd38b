"""Owns running pieces of work in this process: one after the other, or in turns side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from triprune.learning.turns import Value, Work, drive

Shared = TypeVar("Shared")
Taken = TypeVar("Taken", covariant=True)
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
