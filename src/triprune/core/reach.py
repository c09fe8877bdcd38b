"""Owns how little a joint choice may keep: what was observed, and what one axis alone needs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from triprune.core.choice import Bounds
from triprune.core.lattice import Lattice
from triprune.core.predictor import Predictor
from triprune.core.scale import AXES, Axis, Scale

_NEAR = 1.15
"""A chain that ended within this factor of the budget may be followed down to the budget."""


def most_within(
    lattice: Lattice,
    axis: Axis,
    cost: Callable[[Scale], float],
    budget: float,
    *,
    below: float = 1.0,
) -> float | None:
    """Return the most of one axis, at most ``below``, that the budget allows by itself."""
    steps = [float(x) for x in lattice.within(axis, 0.0, below)]
    place = bisect_right(steps, budget, key=lambda kept: cost(Scale.along(axis, kept)))
    return steps[place - 1] if place else None


def reach(
    predictor: Predictor, lattice: Lattice, cost: Callable[[Scale], float], budget: float
) -> Bounds:
    """Return the bounds of a joint choice: spending all on one axis is a joint choice, too.

    A chain ends near its budget, on either side, and at what was built rather than asked for. So
    its last observation alone would rule out the very scale that spends the budget on its axis.
    """
    bounds: dict[Axis, tuple[float, float]] = {}
    for axis, seen in zip(AXES, predictor.observed, strict=True):
        alone = None
        if seen < 1.0 and cost(Scale.along(axis, seen)) <= _NEAR * budget:
            alone = most_within(lattice, axis, cost, budget, below=seen)
        bounds[axis] = (seen if alone is None else alone, 1.0)
    return bounds
