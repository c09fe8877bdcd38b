"""Owns choosing by what pruning without training shows: costs are measured, never assumed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

from triprune.core.choice import Bounds, Choice, choose_scale
from triprune.core.correction import CorrectedCost, choose_measured
from triprune.core.predictor import Predictor
from triprune.core.scale import AXES, Axis, Scale
from triprune.errors import BudgetError
from triprune.run.artifacts import Survey
from triprune.run.costing import Meter

_LEAST = 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class Chooser:
    """Chooses for one budget, by what the meter says of each scale."""

    meter: Meter
    known: Survey
    predictor: Predictor
    budget: float

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
        place = bisect_right(steps, self.budget, key=self.meter) - 1
        if place < 0:
            raise BudgetError(
                f"budget {self.budget:.1%} on {axis} alone",
                f"at least {self.meter(steps[0]):.1%} of the {self.meter.noun} remains",
                "ask for more",
            )
        found = steps[place]
        return choose_scale(
            self.predictor,
            budget=self.budget,
            cost=CorrectedCost(self.known.cost, {found: self.meter(found)}),
            bounds={a: (kept, kept) for a, kept in zip(AXES, found, strict=True)},
            lattice=self.known.lattice,
        )

    def _down_to(self, lowest: Mapping[Axis, float]) -> Choice:
        bounds: Bounds = {axis: (low, 1.0) for axis, low in lowest.items()}
        return choose_measured(
            self.predictor,
            self.meter,
            budget=self.budget,
            base=self.known.cost,
            lattice=self.known.lattice,
            bounds=bounds,
            attempts=20 if self.meter.by == "latency" else 100,
        )
