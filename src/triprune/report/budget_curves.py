"""Owns the quotes that a report draws: at many budgets, for all axes together and each alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import numpy as np

from triprune.core.choice import Bounds, Choice, Quote, choose_scale
from triprune.core.cost import Cost, paper_cost
from triprune.core.lattice import Lattice
from triprune.core.observation import Observation
from triprune.core.predictor import Predictor
from triprune.core.reach import observed_alone, reach
from triprune.core.scale import AXES, Axis, Scale
from triprune.errors import BudgetError
from triprune.report.amounts import Spending

_LEAST = 5
"""The lowest budget that is quoted, in per cent."""

_NOTHING = 1e-3
"""Nobody keeps less than a thousandth of an axis."""

COLOURS = {"joint": "#1f5fbf", "depth": "#b8452d", "width": "#177a62", "resolution": "#8a6200"}


@dataclass(frozen=True, slots=True)
class BudgetCurve:
    """The choice at each budget that can be met, jointly or on one axis."""

    name: str
    quotes: tuple[Quote, ...]

    def stretches(self) -> list[tuple[bool, tuple[Quote, ...]]]:
        """Return the runs of quotes that lie within the observations (True) or beyond them.

        Those beyond reach to the quotes beside them, so that lines meet: the way there leaves the
        observations, too.
        """
        runs = [
            (inside, tuple(group))
            for inside, group in groupby(self.quotes, lambda quote: not quote.choice.extrapolated)
        ]
        for place, (inside, quotes) in enumerate(runs):
            if not inside:
                before = runs[place - 1][1][-1:] if place else ()
                after = runs[place + 1][1][:1] if place + 1 < len(runs) else ()
                runs[place] = (inside, (*before, *quotes, *after))
        return runs


@dataclass(frozen=True, slots=True)
class BudgetPicture:
    """All curves, joint first, and the observations as (cost, accuracy, axis that was cut)."""

    curves: tuple[BudgetCurve, ...]
    observed: tuple[tuple[float, float, str], ...]

    def guessed_above(self) -> tuple[str, ...]:
        """Return the axes that, beyond the observations, are forecast to beat a joint choice there.

        That happens where the joint choice keeps within the observations and they need not.
        """
        joint, *alone = self.curves
        known = [quote for quote in joint.quotes if not quote.choice.extrapolated]
        together = {quote.budget: quote.choice.predicted_accuracy for quote in known}
        return tuple(
            curve.name
            for curve in alone
            if any(
                quote.choice.extrapolated
                and quote.choice.predicted_accuracy > together.get(quote.budget, math.inf)
                for quote in curve.quotes
            )
        )


@dataclass(frozen=True, slots=True)
class Quoter:
    """Asks the predictor for the best scale at a budget.

    With a ``lattice`` the scale is one that the model can take, within reach of what was observed
    wherever that meets the budget: as a run chooses.
    """

    predictor: Predictor
    cost: Cost = paper_cost
    lattice: Lattice | None = None

    def jointly(self, budget: float) -> Choice:
        """Return the best scale within the budget."""
        if self.lattice is not None:
            alone = observed_alone(self.predictor, self.lattice, self.cost, budget)
            try:
                return self._choose(budget, reach(self.predictor, alone, self.cost, budget))
            except BudgetError:
                pass
        return self._choose(budget, None)

    def along(self, axis: Axis, budget: float) -> Choice:
        """Return the scale that keeps as much of one axis as the budget allows."""
        kept = self._most(axis, budget)
        return self._choose(budget, {a: (kept, kept) if a == axis else (1.0, 1.0) for a in AXES})

    def _most(self, axis: Axis, budget: float) -> float:
        if self.lattice is not None:
            steps = [float(x) for x in self.lattice.fractions(axis)]
            # From above: far below what it was fitted to, a formula may rise again.
            return next((x for x in steps[::-1] if self._cost(axis, x) <= budget), steps[0])
        low, high = _NOTHING, 1.0
        if self._cost(axis, high) <= budget:
            return high
        while high - low > 1e-9:
            middle = (low + high) / 2
            low, high = (middle, high) if self._cost(axis, middle) <= budget else (low, middle)
        return low

    def _cost(self, axis: Axis, kept: float) -> float:
        return self.cost(Scale.along(axis, kept))

    def _choose(self, budget: float, bounds: Bounds | None) -> Choice:
        return choose_scale(
            self.predictor, budget=budget, cost=self.cost, bounds=bounds, lattice=self.lattice
        )


def budget_picture(
    quoter: Quoter, observations: Sequence[Observation], spending: Spending | None = None
) -> BudgetPicture:
    """Quote the joint curve and the single axes at every per cent that observations speak of."""
    counted = [(spending or Spending()).paid(item) for item in observations]
    costs = [c or quoter.cost(o.scale) for c, o in zip(counted, observations, strict=True)]
    corner = quoter.cost(Scale(*quoter.predictor.observed))
    budgets = np.arange(max(_LEAST, math.ceil(100 * corner - 1e-9)), 101) / 100
    axes: list[Axis] = [
        a for a, low in zip(AXES, quoter.predictor.observed, strict=True) if low < 1.0
    ]
    curves = [_curve("joint", quoter.jointly, budgets)]
    curves += [_curve(axis, partial(quoter.along, axis), budgets) for axis in axes]
    observed = tuple(
        (paid, item.accuracy, "+".join(item.scale.cut_axes()) or "original")
        for paid, item in zip(costs, observations, strict=True)
    )
    return BudgetPicture(tuple(curves), observed)


def _curve(name: str, choose: Callable[[float], Choice], budgets: np.ndarray) -> BudgetCurve:
    quotes: list[Quote] = []
    for budget in budgets:
        try:
            quotes.append(Quote(float(budget), choose(float(budget))))
        except BudgetError:
            continue
    return BudgetCurve(name, tuple(quotes))


def label_of(name: str) -> str:
    """Return what a curve or a model is called."""
    if name in ("joint", "original"):
        return {"joint": "joint: all axes", "original": "original"}[name]
    return f"{name} alone"
