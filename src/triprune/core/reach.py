"""Owns how far a choice may go: one axis down to the budget, all together as far as was seen."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping

from triprune.core.choice import Bounds
from triprune.core.lattice import Lattice
from triprune.core.predictor import Predictor
from triprune.core.scale import AXES, Axis, Scale

_NEAR = 1.15
"""A chain that ended within this factor of the budget may be followed down to the budget."""

AnyCost = Callable[[Scale], float]


def spent_alone(lattice: Lattice, axis: Axis, cost: AnyCost, budget: float) -> Scale | None:
    """Return the scale that keeps the most of one axis, and all of the others, for the budget."""
    scales = [Scale.along(axis, float(kept)) for kept in lattice.fractions(axis)]
    place = bisect_right(scales, budget, key=cost)
    return scales[place - 1] if place else None


def observed_alone(
    predictor: Predictor, lattice: Lattice, cost: AnyCost, budget: float
) -> dict[Axis, Scale]:
    """Return what spends the budget on each axis that was observed, where that can be."""
    found: dict[Axis, Scale] = {}
    for axis, seen in zip(AXES, predictor.observed, strict=True):
        if seen < 1.0 and (scale := spent_alone(lattice, axis, cost, budget)) is not None:
            found[axis] = scale
    return found


def reach(
    predictor: Predictor, alone: Mapping[Axis, Scale], cost: AnyCost, budget: float
) -> Bounds:
    """Return the bounds of a joint choice: spending all on one axis is a joint choice, too.

    A chain ends near its budget, on either side, and at what was built rather than asked for. So
    its last observation would rule out the very scale that spends the budget on its axis. A
    formula for the ``cost`` is enough to tell which chains ended near. The bounds are a box:
    beside the axis alone they let in what is cut a rounding further in two axes at once.
    """
    bounds: dict[Axis, tuple[float, float]] = {}
    for axis, seen in zip(AXES, predictor.observed, strict=True):
        near = axis in alone and cost(Scale.along(axis, seen)) <= _NEAR * budget
        bounds[axis] = (min(seen, getattr(alone[axis], axis)) if near else seen, 1.0)
    return bounds
