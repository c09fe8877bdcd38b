"""Owns what the paper's own grid of ResNets says there is to win by cutting two axes at once.

Between networks that were trained, the logarithm of the error is interpolated over the logarithms
of the kept fractions: in straight lines, and by curves that do not overshoot. Of the grid's tables
it asks two: depth times width at full resolution, and depth times resolution at full width.
"""

# scipy leaves its types open:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean
from typing import Any, Literal

import numpy as np
from scipy.interpolate import RegularGridInterpolator

from paper_numbers import measured_budgets, row_of
from triprune import Observation, Predictor, Scale, choose_scale
from triprune.core.link import Array

Method = Literal["linear", "pchip"]
HEAD = ["original", "budget", "between networks", "depth", "width", "best", "depth alone"]
HEAD += ["width alone", "resolution alone", "joint leads by", "90 % with noise"]
LOSS_HEAD = ["budget", "depth", "width", "resolution", "loses, straight", "loses, curved"]
OURS_HEAD = ["run", "depth", "width", "beside depth: measured", "grid", "beside width: measured"]
OURS_HEAD += ["grid"]
ORIGINALS = {"ResNet-56": 1.0, "ResNet-32": 5 / 9}
METHODS: dict[Method, str] = {"linear": "straight", "pchip": "curved"}
BUDGETS = (0.7, 0.5, 0.36)  # down to where the grid reaches along every axis
DRAWS = 100


@dataclass(frozen=True, slots=True)
class Grid:
    """The accuracies of a grid by scale; some scales have several."""

    found: Mapping[Scale, Sequence[float]]

    @classmethod
    def of(cls, rows: Sequence[Observation]) -> Grid:
        """Gather the rows by scale."""
        found: dict[Scale, list[float]] = {}
        for row in rows:
            found.setdefault(row.scale, []).append(row.accuracy)
        return cls(found)

    def means(self) -> dict[Scale, float]:
        """Return one accuracy for every scale."""
        return {scale: fmean(told) for scale, told in self.found.items()}

    def noise(self) -> tuple[int, float]:
        """Return how many scales have two accuracies, and the standard deviation of one."""
        told = [sorted(set(each)) for each in self.found.values()]
        gaps = [each[1] - each[0] for each in told if len(each) == 2]
        return len(gaps), float(np.sqrt(np.mean(np.square(gaps)) / 2))

    def shaken(self, deviation: float, random: np.random.Generator) -> Grid:
        """Return the grid as other trainings might have left it."""
        return Grid(
            {scale: [mean + random.normal(0.0, deviation)] for scale, mean in self.means().items()}
        )

    def between(self, method: Method) -> Surface:
        """Return the accuracies at and between the grid's networks."""
        depths = sorted({each.depth for each in self.found})
        widths = sorted({each.width for each in self.found})
        sides = sorted({each.resolution for each in self.found})
        means = self.means()
        wide = [[means[Scale(depth, width)] for width in widths] for depth in depths]
        sharp = [[means[Scale(depth, 1.0, side)] for side in sides] for depth in depths]

        def spanned(others: list[float], table: list[list[float]]) -> RegularGridInterpolator:
            places = np.log(depths), np.log(others)
            return RegularGridInterpolator(places, np.log(1.0 - np.array(table)), method=method)

        return Surface(spanned(widths, wide), spanned(sides, sharp))


@dataclass(frozen=True, slots=True)
class Surface:
    """Accuracies by depth and width, and by depth and resolution."""

    wide: RegularGridInterpolator
    sharp: RegularGridInterpolator

    def cut(self, depth: Array, width: Array) -> Array:
        """Return the accuracies of networks at full resolution [n]."""
        return 1.0 - np.exp(self.wide(np.log(np.stack([depth, width], axis=-1))))

    def at(self, depth: float, width: float = 1.0) -> float:
        """Return the accuracy of a network at full resolution."""
        return float(self.cut(np.array([depth]), np.array([width]))[0])

    def at_resolution(self, depth: float, resolution: float) -> float:
        """Return the accuracy of a network at full width."""
        return float(1.0 - np.exp(self.sharp(np.log([[depth, resolution]])))[0])

    def best(self, whole: float, budget: float) -> tuple[float, float, float]:
        """Return kept depth, kept width and accuracy of the best of d·w² = ``budget``."""
        depth = np.linspace(budget, 1.0, 201)
        width = np.sqrt(budget / depth)
        told = self.cut(whole * depth, width)
        best = int(np.argmax(told))
        return float(depth[best]), float(width[best]), float(told[best])

    def alone(self, whole: float, budget: float) -> tuple[float, float, float]:
        """Return the accuracies where the budget is spent on depth, width or resolution alone."""
        side = budget**0.5
        return self.at(whole * budget), self.at(whole, side), self.at_resolution(whole, side)

    def lead(self, whole: float, budget: float) -> float:
        """Return the points by which the best scale leads every single axis."""
        return 100 * (self.best(whole, budget)[2] - max(self.alone(whole, budget)))


def gain_rows(grid: Grid) -> list[list[str]]:
    """Return, for every original and budget, the best scale beside each axis alone."""
    rows: list[list[str]] = []
    random = np.random.default_rng(0)
    shaken = [grid.shaken(grid.noise()[1], random) for _ in range(DRAWS)]
    surfaces = {method: grid.between(method) for method in METHODS}
    others = {method: [each.between(method) for each in shaken] for method in METHODS}
    for (name, whole), budget, method in product(ORIGINALS.items(), BUDGETS, METHODS):
        surface = surfaces[method]
        depth, width, best = surface.best(whole, budget)
        accuracies = [f"{each:.2%}" for each in (best, *surface.alone(whole, budget))]
        leads = [each.lead(whole, budget) for each in others[method]]
        low, high = np.quantile(leads, [0.05, 0.95])
        told = f"{surface.lead(whole, budget):.2f}", f"{low:.2f}–{high:.2f}"
        kept = f"{depth:.2f}", f"{width:.2f}"
        rows.append([name, f"{budget:.0%}", METHODS[method], *kept, *accuracies, *told])
    return rows


def loss_rows(grid: Grid, predictor: Predictor) -> list[list[str]]:
    """Return what the predictor chooses for ResNet-56, and the points lost beside the best."""
    rows: list[list[str]] = []
    for budget in BUDGETS:
        chosen = choose_scale(predictor, budget=budget).scale
        lost = [loss(grid.between(method), chosen, budget) for method in METHODS]
        rows.append([f"{budget:.0%}", *(f"{kept:.2f}" for kept in chosen), *lost])
    return rows


def loss(surface: Surface, chosen: Scale, budget: float) -> str:
    """Return the points that a choice loses; of those that cut resolution nothing is said."""
    if chosen.resolution < 1.0:
        return "–"
    best = surface.best(1.0, budget)[2]
    return f"{100 * (best - surface.at(chosen.depth, chosen.width)):.2f}"


def our_rows(grid: Grid, runs: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Return by how much our joint models at half the macs lead, and what the grid says of it."""
    surfaces = [grid.between(method) for method in METHODS]
    rows: list[list[str]] = []
    for run, whole, at in halved(runs):
        joint, *alone = (row_of(at, name) for name in ("joint", "depth", "width"))
        if joint is None or None in alone:
            continue
        told: list[str] = []
        for other in alone:
            measured = 100 * (fmean(joint["accuracies"]) - fmean(other["accuracies"]))
            foretold = [
                100 * (at_ours(s, whole, joint) - at_ours(s, whole, other)) for s in surfaces
            ]
            told += [f"{measured:+.2f}", f"{foretold[0]:+.2f}, {foretold[1]:+.2f}"]
        depth, width, _ = joint["scale"]
        rows.append([run["name"], f"{depth:.2f}", f"{width:.2f}", *told])
    return rows


def halved(
    runs: Sequence[dict[str, Any]],
) -> Iterator[tuple[dict[str, Any], float, dict[str, Any]]]:
    """Yield the runs of the grid's originals, what the grid keeps of each, and the half budget."""
    known = {name.lower().replace("-", ""): kept for name, kept in ORIGINALS.items()}
    for run in runs:
        for at in measured_budgets(run) if run["model"] in known else ():
            if at["budget"] == 0.5:
                yield run, known[run["model"]], at


def at_ours(surface: Surface, whole: float, row: dict[str, Any]) -> float:
    """Return what the grid says of the scale of one of our models, at full resolution."""
    depth, width, _ = row["scale"]
    return surface.at(whole * depth, width)
