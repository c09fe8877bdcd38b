# numpy leaves parts of its own types open:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Owns the choice: the best scale under a budget, on a surface with bounds or on a lattice."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from triprune.core.budget import read_budget
from triprune.core.cost import Cost, log_cost, paper_cost
from triprune.core.lattice import Lattice
from triprune.core.link import Array
from triprune.core.predictor import Predictor
from triprune.core.scale import AXES, Axis, Scale, kept_fraction
from triprune.core.surface import Surface
from triprune.errors import BudgetError, InputError

_LEAST = 1e-3
"""Nobody keeps less than a thousandth of an axis."""

USED = 0.97
"""A lattice point should use at least this part of the budget, where there is one that does, unless
a cheaper one is forecast to be better by more than the predictor is off (docs/adr/0112)."""

Bounds = Mapping[Axis, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Choice:
    """The best scale within a budget, what to expect of it, and what held it back.

    ``binding`` names the axes that stopped at a bound, ``extrapolated`` those that went beyond
    what was observed. ``residual`` is the distance from an exact KKT point (None on a lattice).
    """

    scale: Scale
    predicted_accuracy: float
    interval: tuple[float, float]
    cost: float
    binding: tuple[Axis, ...]
    extrapolated: tuple[Axis, ...] = ()
    residual: float | None = None


@dataclass(frozen=True, slots=True)
class Quote:
    """A budget and the choice it buys."""

    budget: float
    choice: Choice


def choose_scale(
    predictor: Predictor,
    *,
    budget: float | str,
    cost: Cost = paper_cost,
    bounds: Bounds | None = None,
    lattice: Lattice | None = None,
) -> Choice:
    """Return the scale with the highest predicted accuracy whose cost is the budget.

    Wang et al. 2021, Eq. 8 holds inside the bounds only, and optima do land on an edge, so edges
    and corners are searched as well. ``bounds`` limits the kept fraction of an axis, by name:
    ``{"resolution": (0.6, 1.0)}``; an axis that was never observed below 1 stays whole unless
    bounds say otherwise. With a ``lattice``, the choice is the best point the model can take
    within the budget, among those that use at least 97 % of it where there are any.
    """
    remaining = read_budget(budget)
    _check_kinds(cost, lattice)
    low, high = box(predictor, bounds)
    if lattice is not None:
        point = _best_on_lattice(predictor, remaining, cost, lattice_points(lattice, low, high))
        return _choice(predictor, point, cost, low=low, high=high)
    lowest, highest = np.exp(log_cost(cost, np.log(np.stack([low, high]))))
    if remaining < lowest * (1.0 - 1e-12):
        raise _unreachable(budget, float(lowest))
    if remaining >= highest * (1.0 - 1e-12):
        return _choice(predictor, high, cost, low=low, high=high, residual=0.0)
    surface = Surface(predictor.form, cost, math.log(remaining), np.log(low), np.log(high))
    tops = [surface.climb(start) for start in surface.starting_points()]
    best = max(tops, key=lambda top: float(surface.score(top[None])[0]))
    chosen = np.where(best >= np.log(high), high, np.where(best <= np.log(low), low, np.exp(best)))
    return _choice(predictor, chosen, cost, low=low, high=high, residual=surface.residual(best))


def quote(
    predictor: Predictor,
    budgets: Iterable[float | str],
    *,
    cost: Cost = paper_cost,
    bounds: Bounds | None = None,
    lattice: Lattice | None = None,
) -> tuple[Quote, ...]:
    """Return the choice, with the accuracy to expect, at every budget.

    Each choice's ``extrapolated`` names the axes along which it lies beyond the observations.
    """
    return tuple(
        Quote(
            read_budget(budget),
            choose_scale(predictor, budget=budget, cost=cost, bounds=bounds, lattice=lattice),
        )
        for budget in budgets
    )


def _check_kinds(cost: object, lattice: object) -> None:
    if not callable(cost):
        raise InputError(
            f"cost={cost!r}",
            "it is not a function of a scale",
            "pass paper_cost, CalibratedCost.fit(...) or a function from Scale to relative cost",
        )
    if lattice is not None and not isinstance(lattice, Lattice):
        raise InputError(f"lattice={lattice!r}", "it is not a Lattice", "pass Lattice(27, 16, 32)")


def box(predictor: Predictor, bounds: Bounds | None) -> tuple[Array, Array]:
    """Return the ends between which scales are eligible: an axis that was never cut stays whole."""
    if bounds is not None and not isinstance(bounds, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(
            f"bounds={bounds!r}", "it is no mapping", 'pass {"resolution": (0.6, 1.0)}, by axis'
        )
    unknown = set(bounds or {}) - set(AXES)
    if unknown:
        raise InputError(
            f"bounds on {sorted(map(str, unknown))}",
            "there is no such axis",
            f"the axes are {AXES}",
        )
    low = np.array([_LEAST if seen < 1.0 else 1.0 for seen in predictor.observed])
    high = np.ones(3)
    for axis, ends in (bounds or {}).items():
        index = AXES.index(axis)
        least, most = _two_ends(ends, axis)
        low[index] = kept_fraction(least, f"lower bound of {axis}")
        high[index] = kept_fraction(most, f"upper bound of {axis}")
    if (low > high).any():
        raise InputError(f"bounds {bounds!r}", "a lower one is above its upper one", "swap them")
    return low, high


def _two_ends(ends: object, axis: Axis) -> tuple[object, object]:
    if not isinstance(ends, (tuple, list)) or len(ends) != 2:
        raise InputError(
            f"bounds {ends!r} of {axis}", "it is not a pair", "give the least and most, (0.6, 1.0)"
        )
    return ends[0], ends[1]


def lattice_points(lattice: Lattice, low: Array, high: Array) -> Array:
    """Return every scale that the model can take within the box [m, 3]."""
    sides = [lattice.within(axis, low[i], high[i]) for i, axis in enumerate(AXES)]
    size = math.prod(len(side) for side in sides)
    if not 0 < size <= 20_000_000:
        raise InputError(
            f"a lattice of {size} points within the bounds",
            "it is empty" if size == 0 else "it is too large to search",
            "widen the bounds" if size == 0 else "use a larger pixel_step or fewer channels",
        )
    return np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1).reshape(-1, 3)


def _best_on_lattice(predictor: Predictor, remaining: float, cost: Cost, points: Array) -> Array:
    costs = np.exp(log_cost(cost, np.log(points)))
    within = costs <= remaining * (1.0 + 1e-12)
    if not within.any():
        raise _unreachable(remaining, float(costs.min()))
    # From the end, where most is kept: an axis that neither costs nor gains anything stays whole.
    allowed = np.flatnonzero(within)[::-1]
    accuracies = predictor.accuracies(points[allowed])
    used = costs[allowed] >= USED * remaining
    best = accuracies.max()
    if used.any() and best - accuracies[used].max() <= (predictor.leave_one_out or 0.0):
        best, allowed, accuracies = accuracies[used].max(), allowed[used], accuracies[used]
    return points[allowed[int(np.argmax(accuracies))]]


def _unreachable(budget: float | str, smallest: float) -> BudgetError:
    return BudgetError(
        f"budget {budget!r}",
        f"the smallest cost within the bounds is {smallest:.4g} ({smallest:.1%})",
        f"ask for at least {math.ceil(smallest * 1000) / 10:g}%, or lower the bounds",
    )


def _choice(
    predictor: Predictor,
    point: Array,
    cost: Cost,
    *,
    low: Array,
    high: Array,
    residual: float | None = None,
) -> Choice:
    scale = Scale(*(min(float(x), 1.0) for x in point))
    held = (point <= low + 1e-12) | (point >= high - 1e-12)
    return Choice(
        scale=scale,
        predicted_accuracy=predictor(scale),
        interval=predictor.interval(scale),
        cost=float(cost(scale)),
        binding=tuple(axis for axis, is_held in zip(AXES, held, strict=True) if is_held),
        extrapolated=predictor.extrapolated_axes(scale),
        residual=residual,
    )
