"""A report with everything in it, made by hand around a known accuracy; names are hostile."""

import dataclasses

import numpy as np
import pytest

from triprune import CalibratedCost, Lattice, Observation, Scale, fit_predictor, schedule
from triprune.core.choice import Quote, choose_scale
from triprune.core.measured import Judged, Timed
from triprune.report.amounts import Spending
from triprune.report.contents import (
    Comparison,
    Gallery,
    Layer,
    LearningCurve,
    Report,
    SpeedTest,
    Surgery,
)
from triprune.report.payload import Drawn

HOSTILE = "<script>document.title='broken'</script><img src=x onerror=alert(1)>"
LATTICE = Lattice(27, 64, 32, fixed_blocks=2)
COST = CalibratedCost((0.95, 1.9, 1.95), (0.05, 0.02, 0.0), (0.01, 0.0, 0.02))
MACS = 125_700_000


def known_accuracy(scale: Scale) -> float:
    d, w, r = scale
    return 0.94 - 0.012 * (1 / d - 1) - 0.018 * (1 / w - 1) - 0.03 * (1 / r - 1)


@pytest.fixture(scope="session")
def observations():
    plan = schedule(0.5, lattice=LATTICE)
    noise = np.random.default_rng(0).normal(0.0, 4e-4, 13)
    scales = [Scale(), *plan.depth, *plan.width, *plan.resolution]
    return tuple(
        Observation(s, known_accuracy(s) + e, round(MACS * COST(s)), 850_000)
        for s, e in zip(scales, noise, strict=True)
    )


def compared(name: str, scale: Scale, *accuracies: float) -> Judged:
    cost = COST(scale)
    pixels = round(32 * scale.resolution)
    return Judged(
        name, scale, pixels, accuracies, round(MACS * cost), round(850_000 * cost), 5 * cost
    )


def learning(name: str, group: str) -> LearningCurve:
    return LearningCurve(name, group, (0.9, 0.5, 0.4), (0.88, None, 0.92))


@pytest.fixture(scope="session")
def full_drawn(full_report):
    return Drawn.of(full_report)


@pytest.fixture(scope="session")
def full_report(observations):
    predictor = fit_predictor(observations)
    choice = choose_scale(predictor, budget=0.5, cost=COST, lattice=LATTICE)
    models = (
        compared("original", Scale(), 0.9402),
        compared("joint", choice.scale, 0.9332, 0.9342),
        compared("depth", Scale(depth=13 / 27), 0.9261, 0.9255),
        compared("width", Scale(width=45 / 64), 0.9301, 0.9291),
        compared("resolution", Scale(resolution=22 / 32), 0.9212, 0.9208),
    )
    timed = [
        Timed(m.name, 1.0 if m.name == "original" else 0.5, 1, t, 0.9 * t, 1.2 * t, 30, None)
        for m, t in zip(models, (8.0, 5.0, 4.5, 6.0, 5.5), strict=True)
    ]
    shapes = {"original": 8, "joint": 7, "depth": 8, "width": 8, "resolution": 6}
    random = np.random.default_rng(1)
    maps = {n: random.random((3, s, s), dtype=np.float32) for n, s in shapes.items()}
    return Report(
        subject=f"net.py:{HOSTILE}",
        state="finished",
        predictor=predictor,
        observations=observations,
        cost=COST,
        lattice=LATTICE,
        spending=Spending("macs", MACS),
        chosen=(Quote(0.5, dataclasses.replace(choice, cost=0.499)),),
        finished=(Comparison(0.5, models, "cpu", 100, 400),),
        speed=(SpeedTest("cpu", "torch", HOSTILE, "2026-11-16", tuple(timed)),),
        curves=(
            *(
                learning(f"{axis}, round {n}", axis)
                for axis in shapes
                if axis[0] in "dwr"
                for n in (1, 2)
            ),
            learning("joint, seed 0", "final"),
            learning("width, seed 1", "final"),
        ),
        surgery=Surgery(
            (Layer("conv1", 16, 12), Layer(HOSTILE, 32, 0), Layer("b.conv2", 32, 20)),
            (("a", 0.5), (HOSTILE, 0.1)),
            frozenset({HOSTILE}),
        ),
        gallery=Gallery(
            random.integers(0, 255, (3, 32, 32, 3), dtype=np.uint8),
            ("cat", "dog", HOSTILE),
            maps,
            {name: 1.0 - 0.1 * k for k, name in enumerate(shapes)},
            64,
        ),
        notes=(HOSTILE,),
        facts=(("command", f"triprune run --out '{HOSTILE}'"), ("machine", "processor AMD")),
    )
