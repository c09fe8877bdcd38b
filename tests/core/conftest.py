from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from triprune import Observation, Predictor, Scale, schedule
from triprune.core.predictor import Candidate

DATA = Path(__file__).parents[2] / "benchmarks" / "data"


@pytest.fixture(scope="session")
def random_predictor():
    """Make predictors with random parameters: forms, degrees and ranks of every kind."""

    def make(generator: np.random.Generator) -> Predictor:
        link = ("root", "identity", "logit")[generator.integers(3)]
        rank = 1 if link == "root" else int(generator.integers(1, 4))
        degree = tuple(int(k) for k in generator.integers(0, 5, 3))
        candidate = Candidate(link, rank, degree, 0.0)
        form = candidate.form((0.3, 0.4, 0.4))
        size = generator.uniform(0.05, 1.0)
        form = form.with_theta(size * generator.standard_normal(len(form.theta)))
        covariance = np.eye(len(form.theta))
        return Predictor(candidate, form, covariance, 0.01, 5.0, (0.3, 0.4, 0.4), (candidate,))

    return make


@pytest.fixture(scope="session")
def on_axes():
    """Observe a known function of the scale where Algorithm 1 would."""

    def observe(function, *, budget=0.5) -> list[Observation]:
        plan = schedule(budget)
        scales = [Scale(), *plan.depth, *plan.width, *plan.resolution]
        return [Observation(scale, float(function(*scale))) for scale in scales]

    return observe


@pytest.fixture(scope="session")
def grid():
    """Read a published grid: observations on the axes, and the rest."""

    def read(name: str) -> tuple[list[Observation], list[Observation]]:
        with (DATA / f"{name}.csv").open() as stream:
            rows = [
                Observation(
                    Scale(float(row["depth"]), float(row["width"]), float(row["resolution"])),
                    float(row["accuracy"]) / 100,
                )
                for row in csv.DictReader(stream)
            ]
        on_axis = [row for row in rows if len(row.scale.cut_axes()) <= 1]
        return on_axis, [row for row in rows if len(row.scale.cut_axes()) > 1]

    return read
