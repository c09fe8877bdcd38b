"""Owns reading what a run has finished: which budgets, and one budget's models."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from triprune.core.budget import run_budget
from triprune.errors import RunError
from triprune.places import Place
from triprune.run.artifacts import Outcome, TrainedModel
from triprune.run.keys import Home, finals, homes
from triprune.run.store import Store


@dataclass(frozen=True, slots=True, eq=False)
class Finished:
    """The outcome of one budget and its models, the first seed of each, joint first."""

    outcome: Outcome
    models: dict[str, TrainedModel]


def finished_budgets(folder: str | Place) -> tuple[Finished, ...]:
    """Return every budget that the run in ``folder`` has finished, the largest first."""
    store = Store(folder)
    store.facts()
    found = tuple(_finished(store, home) for home in homes(store, "outcome-*"))
    if not found:
        raise RunError(
            f"the models of {folder}",
            "the run has not finished one yet",
            "let it go on first: the command that began it continues it",
        )
    return found


def default_budget(facts: Mapping[str, Any], finished: Collection[float]) -> float:
    """Return the budget that a run is about: its own, or else the largest that it finished."""
    own: float = facts["settings"]["budget"]
    return max(finished) if finished and own not in finished else own


def read_finished(folder: str | Place, budget: str | float | None = None) -> Finished:
    """Return what the run finished for ``budget``: by default its own."""
    found = {each.outcome.budget: each for each in finished_budgets(folder)}
    known = ", ".join(f"{100 * each:g}%" for each in found)
    if budget is None:
        return found[default_budget(Store(folder).facts(), found)]
    asked = run_budget(budget)
    if asked not in found:
        raise RunError(
            f"the budget {100 * asked:g}% of {folder}",
            f"it has finished {known}",
            "name one of them, or make it: triprune finish",
        )
    return found[asked]


def fullest_outcome(store: Store, home: Home) -> Outcome:
    """Return the outcome of most models: a run repeated with controls or more seeds adds one."""
    outcomes = [store.read(key, Outcome) for key in store.keys(home.outcome("*"))]
    if not outcomes:
        raise RunError(
            f"the outcome in {store.folder}/{home.name}",
            "there is none yet",
            "let the run go on first",
        )
    return max(outcomes, key=lambda each: each.models)


def _finished(store: Store, home: Home) -> Finished:
    outcome = fullest_outcome(store, home)
    models = {
        row.name: store.read(_first_seed(store, home, row.name), TrainedModel)
        for row in outcome.rows
        if row.name != "original"
    }
    return Finished(outcome, models)


def _first_seed(store: Store, home: Home, name: str) -> str:
    for key in finals(store, home, name).values():
        return key
    raise RunError(
        f"the {name} model in {home.name}", "it is missing", "start the run again, which makes it"
    )
