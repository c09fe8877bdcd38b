"""Owns what is said of a finished model beside its weights: ``about.json``; plain values only.

It is read from folders that may come from strangers: nothing in it is executed, and whatever is
not what it should be is refused.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from triprune import __version__
from triprune.core.measured import Judged
from triprune.errors import FileFormatError, InputError
from triprune.run.artifacts import Outcome, row_of
from triprune.run.sample import Sample

ABOUT_FILE = "about.json"
VERSION = 1
_LONGEST = 10_000_000


@dataclass(frozen=True, slots=True)
class Making:
    """How a model was made: which original, which data, for which budget, and how long."""

    model: str
    data: str
    budget: float
    cost: str
    seed: int
    epochs: int
    recipe: dict[str, Any]
    latency_device: str
    triprune: str


@dataclass(frozen=True, slots=True)
class About:
    """What a caller must know to use a model, and a reader to judge it.

    ``input_size`` is the original's, ``resolution_px`` the chosen one. ``rows`` compare original,
    joint and controls on the test split.
    """

    input_size: tuple[int, int, int]
    resolution_px: int
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    rows: tuple[Judged, ...]
    making: Making
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, making: Making, sample: Sample, outcome: Outcome, *, input_size: tuple[int, int, int]
    ) -> About:
        """Return what a run knows of its joint model."""
        return cls(
            input_size,
            outcome.row("joint").resolution_px,
            sample.classes,
            sample.mean,
            sample.std,
            outcome.rows,
            making,
            outcome.notes,
        )

    def row(self, name: str) -> Judged:
        """Return the line called ``name``."""
        return next(row for row in self.rows if row.name == name)

    def to_json(self) -> str:
        """Return JSON; ``from_json`` reads it."""
        return json.dumps({"version": VERSION, **asdict(self)}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> About:
        """Read what ``to_json`` wrote, or say that it is something else."""
        values = json.loads(text)
        if values.pop("version") != VERSION:
            raise ValueError("it is of another version")
        channels, height, width = map(int, values["input_size"])
        given: dict[str, Any] = {
            "input_size": (channels, height, width),
            "resolution_px": int(values["resolution_px"]),
            "classes": tuple(map(_text, values["classes"])),
            "mean": tuple(map(float, values["mean"])),
            "std": tuple(map(float, values["std"])),
            "rows": tuple(map(_row, values["rows"])),
            "making": _making(values["making"]),
            "notes": tuple(map(_text, values["notes"])),
        }
        if not {"original", "joint"} <= {row.name for row in given["rows"]}:
            raise ValueError("it compares nothing")
        if not given["resolution_px"] > 0 or min(given["std"], default=1.0) <= 0:
            raise ValueError("its numbers cannot be meant")
        return cls(**given)


def making_of(facts: Mapping[str, Any], outcome: Outcome, kind: str) -> Making:
    """Return how a run makes its model, from its facts; ``kind`` names a model without a name."""
    spec, settings = facts.get("spec"), facts["settings"]
    return Making(
        model=kind if spec is None else _public(spec["model"]),
        data="data of the caller" if spec is None else Path(spec["data"]).name,
        budget=outcome.budget,
        cost=outcome.cost,
        seed=settings["seed"],
        epochs=outcome.epochs,
        recipe=settings["recipe"],
        latency_device=outcome.latency_device,
        triprune=__version__,
    )


def _public(name: str) -> str:
    """Return a model's name without the folders of whoever made it."""
    return Path(name).name if ".py:" in name else name


def read_about(folder: str | Path) -> About | None:
    """Return what ``folder`` says of its model; None where it says nothing."""
    path = Path(folder) / ABOUT_FILE
    if not path.is_file():
        return None
    try:
        with path.open("rb") as stream:
            return About.from_json(stream.read(_LONGEST).decode())
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise FileFormatError(
            f"reading {path}",
            f"it does not say what it should ({_fault(error)})",
            "save the model again, or delete this file and do without it",
        ) from error


def _fault(error: Exception) -> str:
    """Return what is wrong, in words about the file."""
    if isinstance(error, KeyError):
        return f"{error} is missing"
    told_by_us = isinstance(error, (OSError, ValueError))
    return str(error) if told_by_us else "its parts are not what they should be"


def _row(told: dict[str, Any]) -> Judged:
    row = row_of(told)
    numbers = [*row.accuracies, row.latency_ms, row.resolution_px, row.macs, row.params]
    if not all(math.isfinite(number) for number in numbers) or not row.accuracies:
        raise ValueError(f"the row {row.name!r} lacks numbers")
    return replace(row, name=_text(row.name))


def _making(told: dict[str, Any]) -> Making:
    kinds: dict[str, Any] = {"budget": float, "seed": int, "epochs": int, "recipe": dict}
    given: dict[str, Any] = {name: kinds.get(name, _text)(value) for name, value in told.items()}
    return Making(**given)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise InputError(f"{value!r}", "it is no text", "write a name")
    return value
