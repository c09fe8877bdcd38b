"""Owns how far a run is, read from its folder alone; refuses to disturb it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from triprune.core.scale import AXES
from triprune.places import Place
from triprune.run.artifacts import Outcome
from triprune.run.store import Store

State = Literal["running", "stopped", "finished"]


@dataclass(frozen=True, slots=True)
class Status:
    """A run's state, its finished rounds by axis, what is under way, and its outcomes."""

    state: State
    worker: str | None
    rounds: dict[str, int]
    fitted: bool
    under_way: tuple[str, ...]
    outcomes: tuple[Outcome, ...]


def status(folder: str | Place) -> Status:
    """Return how far the run in ``folder`` is."""
    store = Store(folder)
    store.facts()
    outcomes = tuple(store.read(key, Outcome) for key in store.keys("budget-*/outcome-*"))
    worker = store.worker()
    return Status(
        state="running" if worker else "finished" if outcomes else "stopped",
        worker=worker,
        rounds={axis: len(store.keys(f"chains/{axis}-*")) for axis in AXES},
        fitted=store.has("predictor"),
        under_way=store.under_way(),
        outcomes=outcomes,
    )
