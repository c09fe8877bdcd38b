"""Owns how far a run is, read from its folder alone; refuses to disturb it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from triprune.core.scale import AXES
from triprune.core.schedule import schedule
from triprune.errors import ArtifactError, FileFormatError
from triprune.places import Place, RemotePath
from triprune.run.about import read_about
from triprune.run.artifacts import Outcome, Survey
from triprune.run.asked import Asked
from triprune.run.due import artifacts_due, models_due
from triprune.run.keys import (
    ASKED,
    BENCHES,
    OF_BUDGETS,
    OUTCOMES,
    PREDICTOR,
    ROUNDS,
    SAMPLE,
    SURVEY,
    round_key,
    rounds,
)
from triprune.run.store import Store
from triprune.saving import verify

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
    whose checksum does not fit, and of each saved model, what to do about it; such a one does not
    count as done. ``missing`` says so of what is gone and an answer, or the predictor,
    stands on.
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
    missing: tuple[str, ...] = ()


def status(folder: str | Place) -> Status:
    """Return how far the run in ``folder`` is."""
    store = Store(folder)
    worker, planned = store.worker(), _planned(store)
    damaged = _damaged(store)

    def whole(key: str) -> bool:
        return store.has(key) and key not in damaged

    def state(each: Asked) -> State:
        if all(map(store.has, (each.outcome, *models_due(store, each)))):
            return "finished"
        return "running" if worker else "stopped"

    asked = [store.read(key, Asked) for key in store.keys(ASKED)]
    budgets = [BudgetStatus(each, state(each), sum(map(whole, each.finals))) for each in asked]
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
        damaged=(*damaged.values(), *(() if worker else _damaged_copies(store))),
        missing=() if worker else (*_lost_rounds(store, planned), *_lost(store, asked)),
    )


def _damaged(store: Store) -> dict[str, str]:
    """Return what is wrong with each damaged artifact; what status reads tells itself."""
    found: dict[str, str] = {}
    near = not isinstance(store.folder, RemotePath)  # else all weights would be fetched for it
    chains, fitted = store.keys(ROUNDS), store.has(PREDICTOR)
    others = [key for each in (PREDICTOR, SAMPLE, OF_BUDGETS, BENCHES) for key in store.keys(each)]
    for key in chains + others:
        try:
            store.verify(key, with_tensors=near, spent=fitted and key in chains)
        except ArtifactError as error:
            found[key] = str(error)
    return found


def _damaged_copies(store: Store) -> list[str]:
    """Return what is wrong with each model that was saved beside the artifacts, on this machine."""
    told: list[str] = []
    if isinstance(store.folder, RemotePath):
        return told
    for home in sorted(path for path in store.folder.glob("small/*") if path.is_dir()):
        try:
            verify(home)
            read_about(home)
        except FileFormatError as error:
            then = "give the command that made it: it saves the model again"
            told.append(str(FileFormatError(error.asked, error.found, then)))
    return told


def _lost_rounds(store: Store, planned: dict[str, int]) -> list[str]:
    """Return which rounds of a fitted predictor are gone; no run makes them again."""
    if not store.has(PREDICTOR):
        return []
    keys = [round_key(axis, number + 1) for axis in AXES for number in range(planned.get(axis, 0))]
    return [
        f"{store.folder}/{key}.json, which the predictor was fitted to. Restore it from a copy."
        for key in keys
        if not store.has(key)
    ]


def _lost(store: Store, asked: list[Asked]) -> list[str]:
    """Return what is gone of that on which an answer stands."""
    due = [artifacts_due(store, each) for each in asked if store.has(each.outcome)]
    return [
        f"{store.folder}/{key}.json. The command that began the run makes it again."
        for key in dict.fromkeys(key for keys in due for key in keys)
        if not store.has(key)
    ]


def _planned(store: Store) -> dict[str, int]:
    settings = store.facts()["settings"]
    if not store.has(SURVEY):
        return {}
    lattice = store.read(SURVEY, Survey).lattice
    end = settings.get("chains_to", settings["budget"])
    targets = schedule(end, rounds=settings["rounds"], lattice=lattice)
    return {axis: len(targets.targets(axis)) for axis in AXES}
