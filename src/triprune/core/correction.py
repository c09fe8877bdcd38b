# numpy leaves parts of its own types open:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Owns choosing by measured costs: a smooth cost corrected where it was measured.

A formula for the cost is off by a few percent, and a budget is not. The choice is made with the
formula, measured, corrected, and made again, until the chosen scale is one that was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from triprune.core.choice import USED, Bounds, Choice, box, choose_scale, lattice_points
from triprune.core.cost import SmoothCost
from triprune.core.lattice import Lattice
from triprune.core.link import Array
from triprune.core.predictor import Predictor
from triprune.core.scale import Scale
from triprune.errors import BudgetError

_NEAR = 0.15
"""How far, as a logarithm, an estimate of the cost may be off."""


@dataclass(frozen=True, slots=True)
class CorrectedCost:
    """``base``, shifted to agree with the nearest of the ``measured`` scales; exact on them."""

    base: SmoothCost
    measured: Mapping[Scale, float]

    def __call__(self, scale: Scale) -> float:
        """Return the relative compute at ``scale``."""
        return float(np.exp(self.log_at(np.log([[*scale]]))[0][0]))

    def log_at(self, logs: Array) -> tuple[Array, Array]:
        """Return log cost [m] and its gradient [m, 3] at logarithms of scales [m, 3]."""
        value, gradient = self.base.log_at(logs)
        nearest, shift = np.full(len(logs), np.inf), np.zeros(len(logs))
        for scale, cost in self.measured.items():
            here = np.log([[*scale]])
            distance = ((logs - here) ** 2).sum(axis=1)
            closer = distance < nearest
            nearest[closer] = distance[closer]
            shift[closer] = np.log(cost) - self.base.log_at(here)[0][0]
        return value + shift, gradient


def choose_measured(
    predictor: Predictor,
    measure: Callable[[Scale], float],
    *,
    budget: float,
    base: SmoothCost,
    lattice: Lattice,
    bounds: Bounds | None = None,
    first: Iterable[Scale] = (),
    attempts: int = 100,
) -> Choice:
    """Return the best scale on the lattice whose *measured* relative cost is within the budget.

    It uses at least 97 % of the budget wherever one of ``attempts`` measured scales does, or one
    of ``first``, which are measured before any (an estimate that is off cannot rule those out),
    unless a cheaper one is forecast to be better by more than the predictor is off.
    Where the attempts end before the choice settles, it is the best scale that was measured.
    """
    measured = {scale: measure(scale) for scale in first}
    eligible = lattice_points(lattice, *box(predictor, bounds))
    for _ in range(attempts):
        cost = CorrectedCost(base, measured)
        choice = choose_scale(predictor, budget=budget, cost=cost, bounds=bounds, lattice=lattice)
        wanted: Scale | None = choice.scale
        if choice.scale in measured:
            # Where real costs go in steps, a scale that was thought too dear may still fit.
            used = any(USED * budget <= each <= budget for each in measured.values())
            wanted = None if used else _nearest(budget, eligible, cost)
        if wanted is None:
            return choice
        measured[wanted] = measure(wanted)
    if min(measured.values()) <= budget:
        only = _OnlyMeasured(measured)
        return choose_scale(predictor, budget=budget, cost=only, bounds=bounds, lattice=lattice)
    raise BudgetError(
        f"budget {budget:.1%}",
        f"none of {len(measured)} scales that were measured is within it",
        "ask for another budget, or widen the bounds",
    )


@dataclass(frozen=True, slots=True)
class _OnlyMeasured:
    """The cost of the ``measured`` scales; no other is affordable."""

    measured: Mapping[Scale, float]

    def __call__(self, scale: Scale) -> float:
        return self.measured.get(scale, np.inf)

    def log_at(self, logs: Array) -> tuple[Array, Array]:
        value = np.full(len(logs), np.inf)
        for scale, cost in self.measured.items():
            here = np.isclose(logs, np.log([[*scale]]), rtol=0.0, atol=1e-9).all(axis=1)
            value[here] = np.log(cost)
        return value, np.zeros_like(logs)


def _nearest(budget: float, points: Array, cost: CorrectedCost) -> Scale | None:
    """Return the scale whose estimated cost is nearest to the budget and not yet measured."""
    gaps = np.abs(cost.log_at(np.log(points))[0] - np.log(budget))
    order = np.argsort(gaps, kind="stable")[: int((gaps <= _NEAR).sum())]
    scales = (Scale(*(float(x) for x in points[place])) for place in order)
    return next((scale for scale in scales if scale not in cost.measured), None)
