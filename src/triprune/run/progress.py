"""Owns how far a run is, read from its folder alone; refuses to disturb it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from triprune.core.scale import AXES
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


def status(folder: str | Path) -> Status:
    """Return how far the run in ``folder`` is."""
    store = Store(folder)
    store.facts()
    home = Path(folder)
    outcomes = tuple(
        store.read(str(path.relative_to(home).with_suffix("")), Outcome)
        for path in sorted(home.glob("budget-*/outcome-*.json"))
    )
    worker = store.worker()
    return Status(
        state="running" if worker else "finished" if outcomes else "stopped",
        worker=worker,
        rounds={axis: len(list(home.glob(f"chains/{axis}-*.json"))) for axis in AXES},
        fitted=store.has("predictor"),
        under_way=tuple(path.stem for path in sorted(home.glob("under-way/*.safetensors"))),
        outcomes=outcomes,
    )
