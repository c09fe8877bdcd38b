"""Owns what the paper's own grid of ResNets says there is to win jointly.

Between networks that were trained, the logarithm of the error is interpolated over the logarithms
of the kept fractions: in straight lines, and by curves that do not overshoot. The grid knows depth
times width at full resolution, and depth times resolution at full width.
"""

# scipy leaves its types open:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np
from scipy.interpolate import RegularGridInterpolator

from triprune import Observation, Predictor, Scale, choose_scale

Method = Literal["linear", "pchip"]
HEAD = ["original", "budget", "between networks", "depth", "width", "best", "depth alone"]
HEAD += ["width alone", "resolution alone", "joint leads by"]
REGRET_HEAD = ["budget", "depth", "width", "resolution", "loses, straight", "loses, curved"]
ORIGINALS = {"ResNet-56": 1.0, "ResNet-32": 5 / 9}
METHODS: dict[Method, str] = {"linear": "straight", "pchip": "curved"}
BUDGETS = (0.7, 0.5, 0.36)  # down to where the grid reaches along every axis


@dataclass(frozen=True, slots=True)
class Grid:
    """The grid's accuracies; those of a scale that it lists several times are averaged."""

    found: dict[Scale, list[float]]

    @classmethod
    def of(cls, rows: Sequence[Observation]) -> Grid:
        """Gather the rows by scale; a number that two tables share is one training's."""
        found: dict[Scale, list[float]] = {}
        for row in rows:
            seen = found.setdefault(row.scale, [])
            if row.accuracy not in seen:
                seen.append(row.accuracy)
        return cls(found)

    def noise(self) -> tuple[int, float]:
        """Return how many scales have two accuracies, and the standard deviation of one."""
        gaps = [each[0] - each[1] for each in self.found.values() if len(each) == 2]
        return len(gaps), float(np.sqrt(np.mean(np.square(gaps)) / 2))

    def between(self, method: Method) -> Surface:
        """Return the accuracies at and between the grid's networks."""
        depths = sorted({each.depth for each in self.found})
        widths = sorted({each.width for each in self.found})
        sides = sorted({each.resolution for each in self.found})
        errors = {scale: 1.0 - float(np.mean(told)) for scale, told in self.found.items()}
        wide = [[errors[Scale(depth, width)] for width in widths] for depth in depths]
        sharp = [[errors[Scale(depth, 1.0, side)] for side in sides] for depth in depths]

        def spanned(others: list[float], table: list[list[float]]) -> RegularGridInterpolator:
            places = np.log(depths), np.log(others)
            return RegularGridInterpolator(places, np.log(table), method=method)

        return Surface(spanned(widths, wide), spanned(sides, sharp))


@dataclass(frozen=True, slots=True)
class Surface:
    """Accuracies by depth and width, and by depth and resolution."""

    wide: RegularGridInterpolator
    sharp: RegularGridInterpolator

    def at(self, depth: float, width: float = 1.0, resolution: float = 1.0) -> float:
        """Return the accuracy of a network that is whole along width or along resolution."""
        span, other = (self.wide, width) if resolution == 1.0 else (self.sharp, resolution)
        return 1.0 - float(np.exp(span(np.log([[depth, other]]))[0]))

    def best(self, whole: float, budget: float) -> tuple[float, float, float]:
        """Return kept depth, kept width and accuracy of the best of d·w² = ``budget``."""
        kept = [(depth, (budget / depth) ** 0.5) for depth in np.linspace(budget, 1.0, 201)]
        told = [(self.at(whole * depth, width), depth, width) for depth, width in kept]
        accuracy, depth, width = max(told)
        return depth, width, accuracy


def rows_of(grid: Grid) -> list[list[str]]:
    """Return, for every original and budget, the best scale beside each axis alone."""
    rows: list[list[str]] = []
    for (name, whole), budget, method in product(ORIGINALS.items(), BUDGETS, METHODS):
        surface = grid.between(method)
        depth, width, best = surface.best(whole, budget)
        side = budget**0.5
        alone = [surface.at(whole * budget), surface.at(whole, side), surface.at(whole, 1.0, side)]
        kept = f"{depth:.2f}", f"{width:.2f}"
        told = [f"{each:.2%}" for each in (best, *alone)]
        lead = f"{100 * (best - max(alone)):.2f}"
        rows.append([name, f"{budget:.0%}", METHODS[method], *kept, *told, lead])
    return rows


def regret_rows(grid: Grid, predictor: Predictor) -> list[list[str]]:
    """Return what the predictor chooses for ResNet-56, and what that loses against the best."""
    rows: list[list[str]] = []
    for budget in BUDGETS:
        chosen = choose_scale(predictor, budget=budget).scale
        lost = [regret(grid.between(method), chosen, budget) for method in METHODS]
        rows.append([f"{budget:.0%}", *(f"{kept:.2f}" for kept in chosen), *lost])
    return rows


def regret(surface: Surface, chosen: Scale, budget: float) -> str:
    """Return the points that a choice loses; the grid knows no width beside a lower resolution."""
    if "resolution" in chosen.cut_axes() and "width" in chosen.cut_axes():
        return "–"
    return f"{100 * (surface.best(1.0, budget)[2] - surface.at(*chosen)):.2f}"
