"""Owns what the records of benchmarks/whole_runs.py say of each seed and model; no sentences."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from paper_numbers import SPENDS
from triprune import Observation, Predictor, Scale, fit_predictor
from triprune.core.scale import AXES
from triprune.errors import InputError
from whole_runs import CHAINS

Found = dict[str, Any]
USUAL, DEEPER, LIKE_FINALS = CHAINS
LATER = {DEEPER: "joint, deeper chains", LIKE_FINALS: "joint, rounds like finals"}
MODELS = {spends: (USUAL, spends) for spends in SPENDS} | {
    name: (chains, "joint") for chains, name in LATER.items()
}
LEAST = 6
"""So many seeds at least, the first ones: docs/adr/0109."""

_SHARED = "kind", "model", "budget", "images", "recipe"


def read(folder: Path) -> list[Found]:
    """Return what every seed found, in the order of the seeds; all did the same."""
    found = [json.loads(path.read_text()) for path in folder.glob("seed-*.json")]
    for name in _SHARED:
        values = [each[name] for each in found]
        if any(value != values[0] for value in values):
            raise InputError(f"{folder}", f"its seeds differ in {name}", "keep those that agree")
    return sorted(found, key=lambda each: each["seed"])


def are_enough(seeds: Sequence[Found]) -> bool:
    """Whether these are the first seeds without a gap, and as many as was written down."""
    numbers = [found["seed"] for found in seeds]
    return len(numbers) >= LEAST and numbers == [*range(1, len(numbers) + 1)]


def final(found: Found, model: str) -> Found:
    """Return what is known of a final model."""
    chains, spends = MODELS[model]
    return found["runs"][chains]["finals"][spends]


def scale_of(found: Found, model: str) -> Scale:
    """Return what a final model kept."""
    return Scale(*final(found, model)["scale"])


def on_test(found: Found, model: str) -> float:
    """Return the accuracy of the original or of a final model on the test images, in percent."""
    chains, name = MODELS.get(model, (USUAL, model))
    return 100 * found["runs"][chains]["test"][name]


def told(values: Sequence[float], form: str = ".2f") -> str:
    """Return mean and standard error."""
    return f"{fmean(values):{form}} ± {standard_error(values):.2f}"


def standard_error(values: Sequence[float]) -> float:
    """Return the standard error of the mean."""
    return stdev(values) / math.sqrt(len(values))


def leads(seeds: Iterable[Found], model: str, other: str) -> list[float]:
    """Return by how many test points a model is before another, seed by seed."""
    return [on_test(found, model) - on_test(found, other) for found in seeds]


def best_tested(found: Found) -> str:
    """Return the axis that is best on a seed's test images."""
    return max(AXES, key=lambda axis: on_test(found, axis))


def forecast(found: Found, chains: str, axis: str) -> float:
    """Return what a run foretold of the model that spends the budget on one axis."""
    observed = found["runs"][chains]["observations"]
    return predictor_of(observed)(scale_of(found, axis))


def predictor_of(observed: Iterable[Sequence[float]]) -> Predictor:
    """Return the predictor of observations as they are recorded."""
    return fit_predictor(Observation(Scale(*kept), accuracy) for *kept, accuracy in observed)


def regrets(seeds: Sequence[Found], judges: Sequence[str]) -> tuple[list[float], list[float]]:
    """Return the points that each seed's joint choice loses, by the usual and by deeper chains.

    The predictor that says so is fitted to what all other seeds observed in these kinds of chains.
    """
    models = [*SPENDS, LATER[DEEPER]]
    candidates = [scale_of(found, model) for found in seeds for model in models]
    lost: tuple[list[float], list[float]] = [], []
    for found in seeds:
        others = [other["runs"] for other in seeds if other is not found]
        judge = predictor_of(
            seen for runs in others for kind in judges for seen in runs[kind]["observations"]
        )
        best = max(map(judge, candidates))
        for model, points in zip(("joint", LATER[DEEPER]), lost, strict=True):
            points.append(100 * (best - judge(scale_of(found, model))))
    return lost


def above_forecast(found: Found, chains: str) -> list[float]:
    """Return by how many points the single axes' final models lie above a run's forecasts."""
    return [
        100 * (final(found, axis)["validation"] - forecast(found, chains, axis)) for axis in AXES
    ]
