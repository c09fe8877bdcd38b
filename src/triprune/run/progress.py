"""Owns how far a run is, read from its folder alone; refuses to disturb it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from triprune.core.scale import AXES
from triprune.core.schedule import schedule
from triprune.errors import ArtifactError
from triprune.places import Place, RemotePath
from triprune.run.artifacts import Outcome, Survey
from triprune.run.asked import Asked
from triprune.run.keys import ASKED, FINALS, OUTCOMES, PREDICTOR, ROUNDS, SURVEY, rounds
from triprune.run.store import Store

State = Literal["running", "stopped", "finished"]


@dataclass(frozen=True, slots=True)
class BudgetStatus:
    """How far one budget is: its state, and how many of its final models there are."""

    asked: Asked
    state: State
    finals: int


@dataclass(frozen=True, slots=True)
class Status:
    """A run's state, its rounds by axis, its budgets, what is under way, and its outcomes.

    ``planned`` counts the rounds of each axis; it is empty before the original was looked at.
    The run is finished when every budget that was asked for is. ``damaged`` says of each artifact
    whose checksum does not fit what to do about it; such a one does not count as done.
    """

    state: State
    worker: str | None
    rounds: dict[str, int]
    planned: dict[str, int]
    fitted: bool
    under_way: tuple[str, ...]
    budgets: tuple[BudgetStatus, ...]
    outcomes: tuple[Outcome, ...]
    damaged: tuple[str, ...] = ()


def status(folder: str | Place) -> Status:
    """Return how far the run in ``folder`` is."""
    store = Store(folder)
    worker, planned = store.worker(), _planned(store)
    damaged = _damaged(store)

    def whole(key: str) -> bool:
        return store.has(key) and key not in damaged

    def state(outcome: str) -> State:
        return "finished" if store.has(outcome) else "running" if worker else "stopped"

    asked = [store.read(key, Asked) for key in store.keys(ASKED)]
    budgets = [
        BudgetStatus(each, state(each.outcome), sum(map(whole, each.finals))) for each in asked
    ]
    ended = bool(budgets) and all(each.state == "finished" for each in budgets)
    return Status(
        state="running" if worker else "finished" if ended else "stopped",
        worker=worker,
        rounds={axis: sum(map(whole, rounds(store, axis))) for axis in AXES},
        planned=planned,
        fitted=whole(PREDICTOR),
        under_way=store.under_way(),
        budgets=tuple(budgets),
        outcomes=tuple(store.read(key, Outcome) for key in store.keys(OUTCOMES)),
        damaged=tuple(damaged.values()),
    )


def _damaged(store: Store) -> dict[str, str]:
    """Return what is wrong with each damaged model or predictor; what status reads tells itself."""
    found: dict[str, str] = {}
    near = not isinstance(store.folder, RemotePath)  # else all weights would be fetched for it
    for key in store.keys(PREDICTOR) + store.keys(ROUNDS) + store.keys(FINALS):
        try:
            store.verify(key, with_tensors=near)
        except ArtifactError as error:
            found[key] = str(error)
    return found


def _planned(store: Store) -> dict[str, int]:
    settings = store.facts()["settings"]
    if not store.has(SURVEY):
        return {}
    lattice = store.read(SURVEY, Survey).lattice
    end = settings.get("chains_to", settings["budget"])
    targets = schedule(end, rounds=settings["rounds"], lattice=lattice)
    return {axis: len(targets.targets(axis)) for axis in AXES}
