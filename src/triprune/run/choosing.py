"""Owns choosing by what pruning without training shows: costs are measured, never assumed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from triprune.core.choice import Bounds, Choice, choose_scale
from triprune.core.correction import CorrectedCost, choose_measured
from triprune.core.predictor import Predictor
from triprune.core.reach import observed_alone, reach, spent_alone
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
        """Choose within reach of what was observed; where no such scale is cheap enough, beyond."""
        alone = observed_alone(self.predictor, self.known.lattice, self.meter, self.budget)
        within = reach(self.predictor, alone, self.known.cost, self.budget)
        first = [scale for axis, scale in alone.items() if getattr(scale, axis) >= within[axis][0]]
        try:
            return self._within(within, first)
        except BudgetError:
            beyond: Bounds = {a: (_LEAST, 1.0) for a, (low, _) in within.items() if low < 1.0}
            return self._within(beyond, alone.values())

    def along(self, axis: Axis) -> Choice:
        """Keep as much of one axis as the budget allows."""
        lattice = self.known.lattice
        found = spent_alone(lattice, axis, self.meter, self.budget)
        if found is None:
            least = Scale.along(axis, float(lattice.fractions(axis)[0]))
            raise BudgetError(
                f"budget {self.budget:.1%} on {axis} alone",
                f"at least {self.meter(least):.1%} of the {self.meter.noun} remains",
                "ask for more",
            )
        return choose_scale(
            self.predictor,
            budget=self.budget,
            cost=CorrectedCost(self.known.cost, {found: self.meter(found)}),
            bounds={a: (kept, kept) for a, kept in zip(AXES, found, strict=True)},
            lattice=lattice,
        )

    def _within(self, bounds: Bounds, first: Iterable[Scale] = ()) -> Choice:
        return choose_measured(
            self.predictor,
            self.meter,
            budget=self.budget,
            base=self.known.cost,
            lattice=self.known.lattice,
            bounds=bounds,
            first=first,
            attempts=20 if self.meter.by == "latency" else 100,
        )
