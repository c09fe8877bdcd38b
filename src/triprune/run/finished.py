"""Owns reading what a run has finished: one budget's models; refuses to guess which budget."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from triprune.core.budget import read_budget
from triprune.errors import RunError
from triprune.run.artifacts import Outcome, TrainedModel
from triprune.run.store import Store


@dataclass(frozen=True, slots=True, eq=False)
class Finished:
    """The outcome of one budget and its models, the first seed of each, joint first."""

    outcome: Outcome
    models: dict[str, TrainedModel]


def finished_budgets(folder: str | Path) -> tuple[Finished, ...]:
    """Return every budget that the run in ``folder`` has finished, the largest first."""
    store = Store(folder)
    store.facts()
    homes = {path.parent for path in Path(folder).glob("budget-*/outcome-*.json")}
    found = [_finished(store, home) for home in sorted(homes)]
    if not found:
        raise RunError(
            f"the models of {folder}",
            "the run has not finished one yet",
            "let it go on first: the command that began it continues it",
        )
    return tuple(sorted(found, key=lambda each: -each.outcome.budget))


def read_finished(folder: str | Path, budget: str | float | None = None) -> Finished:
    """Return what the run finished for ``budget``, which may be left out where there is one."""
    found = {each.outcome.budget: each for each in finished_budgets(folder)}
    known = ", ".join(f"{100 * each:g}%" for each in found)
    if budget is None:
        if len(found) > 1:
            raise RunError(f"the model of {folder}", f"it has {known}", "name one with --budget")
        return next(iter(found.values()))
    asked = read_budget(budget)
    if asked not in found:
        raise RunError(
            f"the budget {100 * asked:g}% of {folder}",
            f"it has finished {known}",
            "name one of them, or make it: triprune finish",
        )
    return found[asked]


def _finished(store: Store, home: Path) -> Finished:
    """Read the fullest outcome: a run that is repeated with controls or more seeds adds one."""
    key = str(home.relative_to(store.folder))
    outcomes = [store.read(f"{key}/{path.stem}", Outcome) for path in home.glob("outcome-*.json")]
    outcome = max(outcomes, key=lambda each: sum(len(row.accuracies) for row in each.rows))
    models = {
        row.name: store.read(f"{key}/{_first_seed(home, row.name)}", TrainedModel)
        for row in outcome.rows
        if row.name != "original"
    }
    return Finished(outcome, models)


def _first_seed(home: Path, name: str) -> str:
    seeds = [
        int(found.group(1))
        for path in home.glob(f"{name}-seed-*.json")
        if (found := re.fullmatch(rf"{re.escape(name)}-seed-(-?\d+)", path.stem))
    ]
    if not seeds:
        raise RunError(
            f"the {name} model in {home}", "it is missing", "start the run again, which makes it"
        )
    return f"{name}-seed-{min(seeds)}"
