"""Owns which single axes a run of the joint model alone is lent: those of its recipe; no text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from paper_numbers import original_of, row_of
from triprune.core.scale import AXES

Run = dict[str, Any]
STUDY = "study of cuts"
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


def read_studies(folder: Path) -> list[Run]:
    """Return the studies that cut a network to several scales and opened the test for them."""
    found = [json.loads(path.read_text()) | {"name": path.stem} for path in folder.glob("*.json")]
    kept = [study for study in found if study.get("kind") == STUDY and study.get("test")]
    return sorted(kept, key=lambda study: study["name"])


def beside_studies(runs: Sequence[Run], studies: Sequence[Run]) -> list[Run]:
    """Return the runs; those still without single axes with those of a study, where it has them.

    Such a study trained the same original by the same recipe, at cuts that a run spent its whole
    budget on one axis for.
    """
    return [
        run | {"budgets": [studied(run, at, runs, studies) for at in run["budgets"]]}
        for run in runs
    ]


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
    if at["test"] is None or any(row_of(at, axis) for axis in AXES):
        return at
    for other in alike:
        for theirs in other["budgets"]:
            rows = [row for axis in AXES if (row := row_of(theirs, axis)) is not None]
            if theirs["budget"] == at["budget"] and rows:
                return with_rows(
                    at, rows, {row["name"]: theirs["finals"][row["name"]] for row in rows}
                )
    return at


def with_rows(at: dict[str, Any], rows: Sequence[dict[str, Any]], finals: Run) -> dict[str, Any]:
    """Return the budget with final models that were trained, and timed, on another occasion."""
    untimed = [row | {"latency_ms": None} for row in rows]
    test = at["test"] | {"rows": [*at["test"]["rows"], *untimed]}
    return at | {"finals": at["finals"] | finals, "test": test}


def studied(run: Run, at: Run, runs: Sequence[Run], studies: Sequence[Run]) -> Run:
    """Return the budget with the single axes of a study, if it has been tested without any."""
    if at["test"] is None or any(row_of(at, axis) for axis in AXES):
        return at
    known = [
        row
        for other in runs
        if original_of(other) == original_of(run)
        for theirs in other["budgets"]
        if theirs["budget"] == at["budget"]
        for axis in AXES
        if (row := row_of(theirs, axis)) is not None
    ]
    for study in studies:
        trained = trained_alike(study, known) if has_the_recipe_of(study, run) else {}
        if trained:
            rows = [row | {"accuracies": tested(finals)} for row, finals in trained.values()]
            finals = {name: judged(study, row, finals) for name, (row, finals) in trained.items()}
            return with_rows(at, rows, finals) | {"study": study["name"]}
    return at


def has_the_recipe_of(study: Run, run: Run) -> bool:
    """Whether a study fine-tuned the original of a run as that run does at the end."""
    return (
        study["original"]["accuracy"] == run["original"]["accuracy"]
        and study["recipe"] == run["settings"]["recipe"]
        and study["epochs"] == run["final_epochs"]
    )


def trained_alike(study: Run, known: Sequence[Run]) -> dict[str, tuple[Run, list[Run]]]:
    """Return the known rows that a study cut alike and tested, with its trainings, by axis."""
    found: dict[str, tuple[Run, list[Run]]] = {}
    for row in known:
        for what, cut in study["cuts"].items():
            kept = [*cut["realised"].values()], cut["macs"], cut["params"]
            finals = [each for each in study["rows"] if each["what"] == what]
            alike = kept == (row["scale"], row["macs"], row["params"])
            if alike and finals and all("test_accuracy" in each for each in finals):
                found[row["name"]] = row, finals
    return found


def tested(finals: Sequence[Run]) -> list[float]:
    """Return a study's test accuracies of one cut, seed by seed."""
    return [each["test_accuracy"] for each in finals]


def judged(study: Run, row: Run, finals: Sequence[Run]) -> list[Run]:
    """Return a study's trainings of one cut as a run records its final models."""
    about = {"macs": row["macs"], "params": row["params"], "epochs": study["epochs"]}
    return [{"seed": each["seed"], "accuracy": each["accuracy"][-1]} | about for each in finals]
