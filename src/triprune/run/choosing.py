"""Owns choosing by what pruning without training shows: macs are counted, never assumed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

from triprune.core.choice import Bounds, Choice, choose_scale
from triprune.core.correction import CorrectedCost, choose_measured
from triprune.core.cost import CalibratedCost, Cost, paper_cost
from triprune.core.predictor import Predictor
from triprune.core.scale import AXES, Axis, Scale
from triprune.core.schedule import Schedule
from triprune.errors import BudgetError
from triprune.run.artifacts import Survey
from triprune.run.spec import CostName
from triprune.run.subject import Subject

_LEAST = 1e-3


def calibrated(subject: Subject, known: Survey, targets: Schedule) -> CalibratedCost:
    """Fit the cost to macs that were counted on untrained models, over the scheduled range."""
    sides = [sorted({1.0, *(getattr(t, axis) for t in targets.targets(axis))}) for axis in AXES]
    thinned = [[side[0], side[len(side) // 2], side[-1]] for side in sides]
    scales = list(dict.fromkeys(Scale(*point) for point in product(*thinned)))
    return CalibratedCost.fit(scales, list(map(counted_cost(subject, known), scales)))


def counted_cost(subject: Subject, known: Survey) -> Cost:
    """Return the cost that cuts the model at a scale and counts its macs."""

    def cost(scale: Scale) -> float:
        return subject.macs_at(scale, known.block_scores) / known.macs

    return cost


@dataclass(frozen=True, slots=True, eq=False)
class Chooser:
    """Chooses for one budget: by counted macs, or by the paper's formula where that is asked."""

    subject: Subject
    known: Survey
    predictor: Predictor
    budget: float
    by: CostName = "macs"

    def jointly(self) -> Choice:
        """Choose within what was observed; where that cannot meet the budget, beyond it."""
        observed = dict(zip(AXES, self.predictor.observed, strict=True))
        try:
            return self._down_to(observed)
        except BudgetError:
            return self._down_to({a: _LEAST for a, low in observed.items() if low < 1.0})

    def along(self, axis: Axis) -> Choice:
        """Keep as much of one axis as the budget allows."""
        steps = [Scale.along(axis, float(x)) for x in self.known.lattice.fractions(axis)]
        cost = self._cost()
        place = bisect_right(steps, self.budget, key=cost) - 1
        if place < 0:
            raise BudgetError(
                f"budget {self.budget:.1%} on {axis} alone",
                f"at least {cost(steps[0]):.1%} of the compute remains",
                "ask for more",
            )
        found = steps[place]
        return choose_scale(
            self.predictor,
            budget=self.budget,
            cost=CorrectedCost(self.known.cost, {found: cost(found)}),
            bounds={a: (kept, kept) for a, kept in zip(AXES, found, strict=True)},
            lattice=self.known.lattice,
        )

    def _down_to(self, lowest: Mapping[Axis, float]) -> Choice:
        bounds: Bounds = {axis: (low, 1.0) for axis, low in lowest.items()}
        return choose_measured(
            self.predictor,
            self._cost(),
            budget=self.budget,
            base=self.known.cost,
            lattice=self.known.lattice,
            bounds=bounds,
        )

    def _cost(self) -> Cost:
        return counted_cost(self.subject, self.known) if self.by == "macs" else paper_cost
