"""Owns which runs differ in nothing but how they observed, and lends them single axes; no text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paper_numbers import row_of
from triprune.core.scale import AXES

Run = dict[str, Any]
OBSERVING = {"controls", "rounds", "chains_to"}
OBSERVING_RECIPE = {"round_epochs", "round_rate"}


def beside_others(runs: Sequence[Run]) -> list[Run]:
    """Return the runs; those that measured their joint model alone with single axes of another.

    What is left of a network along one axis within a budget depends on no observation, so a run
    that differs in these alone has trained such models. Judging blocks anew may rank near ties
    otherwise: the cuts that both have observed, at least one in depth, must have the same macs and
    params.
    """
    return [with_single_axes(run, runs[:place]) for place, run in enumerate(runs)]


def with_single_axes(run: Run, before: Sequence[Run]) -> Run:
    """Return the run with the single axes of the first run that has them, budget by budget."""
    alike = [
        other
        for other in before
        if but_for_observing(other) == but_for_observing(run) and cut_alike(run, other)
    ]
    return run | {"budgets": [lent(at, alike) for at in run["budgets"]]}


def but_for_observing(run: Run) -> tuple[Any, ...]:
    """Return what decides how a cut of the run's network ends up."""
    settings = {name: set_ for name, set_ in run["settings"].items() if name not in OBSERVING}
    recipe = settings["recipe"].items()
    settings["recipe"] = {name: set_ for name, set_ in recipe if name not in OBSERVING_RECIPE}
    return run["model"], run["validation"], run["original"]["accuracy"], settings


def cut_alike(run: Run, other: Run) -> bool:
    """Whether the cuts that both runs have observed left the same; one of depth must be there."""
    ours, theirs = (
        {tuple(o["scale"]): (o["macs"], o["params"]) for o in each["observations"]}
        for each in (run, other)
    )
    both = ours.keys() & theirs.keys()
    return any(depth < 1 for depth, *_ in both) and all(ours[cut] == theirs[cut] for cut in both)


def lent(at: dict[str, Any], alike: Sequence[Run]) -> dict[str, Any]:
    """Return the budget with all axes of another run, if it has been tested without any."""
    if not lacks_axes(at):
        return at
    for other in alike:
        for theirs in other["budgets"]:
            rows = [row for axis in AXES if (row := row_of(theirs, axis)) is not None]
            if theirs["budget"] == at["budget"] and rows:
                finals = {row["name"]: theirs["finals"][row["name"]] for row in rows}
                return with_rows(at, rows, finals)
    return at


def lacks_axes(at: dict[str, Any]) -> bool:
    """Whether the test was opened at a budget for no single axis."""
    return at["test"] is not None and not any(row_of(at, axis) for axis in AXES)


def with_rows(at: dict[str, Any], rows: Sequence[dict[str, Any]], finals: Run) -> dict[str, Any]:
    """Return the budget with final models that were trained, and timed, on another occasion."""
    untimed = [row | {"latency_ms": None} for row in rows]
    test = at["test"] | {"rows": [*at["test"]["rows"], *untimed]}
    return at | {"finals": at["finals"] | finals, "test": test}
