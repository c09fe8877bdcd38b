"""Owns running pieces of work elsewhere; asks no cluster while everything is already stored.

When workers are done, the pieces are driven once more here: they find everything stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic

from triprune.learning.turns import Value
from triprune.run.executors.cluster import Connection
from triprune.run.executors.inline import Inline, Piece
from triprune.run.executors.travelling import Listener, Traveller
from triprune.run.spec import Settings


class RayExecutor(Generic[Traveller]):
    """Runs pieces on a cluster; connects when the first of them has something left to do."""

    def __init__(self, settings: Settings, shared: Traveller) -> None:
        self._settings, self._shared = settings, shared
        self._connection: Connection | None = None

    def __enter__(self) -> RayExecutor[Traveller]:
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection is not None:
            try:
                self._shared.store.recall_workers()
            finally:
                self._connection.close()

    def run(
        self, pieces: Sequence[Piece[Traveller, Value]], *, training: bool = False
    ) -> list[Value]:
        """Have workers do what is left of the pieces, then read what they stored."""
        left = [piece for piece in pieces if not self._is_done(piece)]
        if left:
            if self._connection is None:
                self._connection = Connection(self._settings)
                self._connection.send(self._shared)
            ranks = self._settings.gpus_per_chain if training else 1
            self._connection.run(left, Listener(self._shared.watchers), ranks=ranks)
        return Inline(self._shared).run(pieces)

    def _is_done(self, piece: Piece[Traveller, Any]) -> bool:
        turns = piece(self._shared)
        try:
            next(turns)
        except StopIteration:
            return True
        turns.close()
        return False
