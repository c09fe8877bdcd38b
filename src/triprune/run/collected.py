"""Owns reading a run that has its observations; refuses one that has not, and damaged ones."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from triprune.core.observation import Observation
from triprune.core.scale import AXES, Scale
from triprune.errors import RunError
from triprune.learning.datasets.embedded import NAME as EMBEDDED
from triprune.places import Place, place
from triprune.run.artifacts import Fitted, Survey, TrainedModel
from triprune.run.case import Case
from triprune.run.keys import PREDICTOR, SURVEY, rounds
from triprune.run.opening import open_case
from triprune.run.spec import RunSpec
from triprune.run.store import Store


def is_run(folder: str | Place) -> bool:
    """Whether ``folder`` is one that a run has begun in."""
    return (place(folder) / "run.json").is_file()


def read_collected(folder: str | Place) -> tuple[Survey, Fitted, tuple[Observation, ...]]:
    """Return what a run knows: the survey, the predictor and the observations behind it."""
    store = Store(folder)
    store.facts()
    if not store.has(PREDICTOR):
        raise RunError(
            f"the observations of {folder}",
            "its chains are not finished",
            "let the run go on first: the command that began it continues it",
        )
    known = store.read(SURVEY, Survey)
    keys = [key for axis in AXES for key in rounds(store, axis)]
    trained = [store.read(key, TrainedModel, with_tensors=False) for key in keys]
    original = Observation(Scale(), known.accuracy, known.macs, known.params)
    observations = (original, *(each.observation for each in trained))
    return known, store.read(PREDICTOR, Fitted), observations


def require_collected(folder: str | Place) -> RunSpec:
    """Return the spec of a run whose observations are complete."""
    read_collected(folder)
    spec = Store(folder).facts().get("spec")
    if spec is None:
        raise RunError(
            f"the run in {folder}",
            "it was made from Python, with a model that no name leads to",
            "call triprune.compress again with its model and data",
        )
    require_files(folder, spec)
    return RunSpec.from_mapping(spec)


def require_files(folder: str | Place, spec: Mapping[str, Any], *names: str) -> None:
    """Refuse to go on where a file of the spec is not there, from where the command was given.

    They are ``model``, ``weights`` and ``data``, or those that are named. Relative paths stay as
    they were given, so that a run can be carried to another machine with its files.
    """
    for name in names or ("model", "weights", "data"):
        told: str = spec.get(name) or "."
        file = Path(told.rpartition(":")[0] if name == "model" else told).expanduser()
        known = told == EMBEDDED or (name == "model" and file.suffix != ".py")
        if not known and not file.is_absolute() and not file.exists():
            raise RunError(
                f"the {name} {told} of the run in {folder}",
                f"there is no {file.absolute()}",
                "its paths begin where the run was begun: give the command there, or bring the "
                "files here",
            )


def open_finished(folder: str | Place) -> tuple[Case, Survey, Fitted]:
    """Return a run's case, survey and predictor; a changed model or data is refused."""
    spec = require_collected(folder)
    case = open_case(spec)
    Store(folder).begin(case.facts())
    known, fitted, _ = read_collected(folder)
    return case, known, fitted
