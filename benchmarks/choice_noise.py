"""Owns a simulation: where noisy observations lead a choice, on a surface whose best is known."""

from __future__ import annotations

from statistics import fmean

import numpy as np

from joint_gain import ORIGINALS, Grid, Surface
from triprune import Observation, Scale, choose_scale, fit_predictor
from triprune.core.scale import AXES
from triprune.core.schedule import schedule

HEAD = ["original", "noise", "chains end at", "loses", "no worse than one axis"]
NOISES = (0.1, 0.2, 0.3)  # points
ENDS = (0.5, 0.36)  # of the macs; the grid's narrowest networks keep 0.36 of them
BUDGET, TRIALS, NEAR = 0.5, 100, 0.02


def noise_rows(grid: Grid) -> list[list[str]]:
    """Return what choices for half the macs lose, and how many are no worse than one axis alone."""
    surface = grid.between("pchip")
    rows: list[list[str]] = []
    for name, whole in ORIGINALS.items():
        best = 100 * surface.best(whole, BUDGET)[2]
        alone = 100 * max(surface.alone(whole, BUDGET))
        for noise in NOISES:
            for end in ENDS:
                random = np.random.default_rng(0)
                found = [
                    100 * accuracy(surface, whole, chosen(surface, whole, noise, end, random))
                    for _ in range(TRIALS)
                ]
                level = sum(each >= alone - NEAR for each in found) / TRIALS
                told = f"{noise:g}", f"{end:.0%}", f"{best - fmean(found):.3f}", f"{level:.0%}"
                rows.append([name, *told])
    return rows


def chosen(
    surface: Surface, whole: float, noise: float, end: float, random: np.random.Generator
) -> Scale:
    """Return what a run would choose whose chains end at ``end`` and whose judges are noisy."""
    targets = schedule(end)
    scales = [Scale(), *(scale for axis in AXES for scale in targets.targets(axis))]
    seen = [
        Observation(scale, accuracy(surface, whole, scale) + random.normal(0.0, noise / 100))
        for scale in scales
    ]
    lowest = (BUDGET, BUDGET**0.5, BUDGET**0.5)
    bounds = {axis: (least, 1.0) for axis, least in zip(AXES, lowest, strict=True)}
    return choose_scale(fit_predictor(seen), budget=BUDGET, bounds=bounds).scale


def accuracy(surface: Surface, whole: float, scale: Scale) -> float:
    """Return the accuracy of a network; width and resolution each multiply the error at a depth."""
    depth = whole * scale.depth
    full, narrow = 1.0 - surface.at(depth), 1.0 - surface.at(depth, scale.width)
    return 1.0 - narrow * (1.0 - surface.at_resolution(depth, scale.resolution)) / full
