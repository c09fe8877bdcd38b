"""Owns lending a run of the joint model alone the single axes that a study trained; no text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

from cuts import KIND
from paper_beside import lacks_axes, with_rows
from paper_numbers import original_of, row_of
from triprune.core.scale import AXES

Run = dict[str, Any]
JUDGES = "importance", "block_importance"


def read_studies(folder: Path) -> list[Run]:
    """Return the studies that cut a network to several scales and opened the test for them."""
    found = [json.loads(path.read_text()) | {"name": path.stem} for path in folder.glob("*.json")]
    kept = [study for study in found if study.get("kind") == KIND and study.get("test")]
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


def studied(run: Run, at: Run, runs: Sequence[Run], studies: Sequence[Run]) -> Run:
    """Return the budget with the single axes of a study, if it has been tested without any."""
    if not lacks_axes(at):
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
        trained = trained_alike(study, run, known) if has_the_recipe_of(study, run) else {}
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


def trained_alike(study: Run, run: Run, known: Sequence[Run]) -> dict[str, tuple[Run, list[Run]]]:
    """Return the known rows that a study cut alike and tested, with its trainings, by axis."""
    found: dict[str, tuple[Run, list[Run]]] = {}
    cuts = {what: cut for what, cut in study["cuts"].items() if judged_alike(cut, run)}
    for row, (what, cut) in product(known, cuts.items()):
        kept = [*cut["realised"].values()], cut["macs"], cut["params"]
        finals = [each for each in study["rows"] if each["what"] == what]
        alike = kept == (row["scale"], row["macs"], row["params"])
        if alike and finals and all("test_accuracy" in each for each in finals):
            found[row["name"]] = row, finals
    return found


def judged_alike(cut: Run, run: Run) -> bool:
    """Whether a cut has nothing of its own: the run's judges, and the recipe of its study."""
    judges = all(cut[judge] == run["settings"][judge] for judge in JUDGES)
    return judges and not cut.get("recipe")


def tested(finals: Sequence[Run]) -> list[float]:
    """Return a study's test accuracies of one cut, seed by seed."""
    return [each["test_accuracy"] for each in finals]


def judged(study: Run, row: Run, finals: Sequence[Run]) -> list[Run]:
    """Return a study's trainings of one cut as a run records its final models."""
    about = {"macs": row["macs"], "params": row["params"], "epochs": study["epochs"]}
    return [{"seed": each["seed"], "accuracy": each["accuracy"][-1]} | about for each in finals]
