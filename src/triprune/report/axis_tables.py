"""Owns the predictor cut into one table an axis, from which a page computes any accuracy exactly.

Every form that is fitted by default is, on its link's scale, a sum or a product of one function
an axis. Their values at whole blocks, channels and pixels are all that a page needs; nothing is
interpolated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from triprune.core.forms import SumOfCurves, value_at
from triprune.core.lattice import Lattice
from triprune.core.link import Array, LinkName, from_link
from triprune.core.predictor import Predictor
from triprune.core.scale import AXES, Scale

_STEPS = 48
"""Steps of an axis whose blocks, channels or pixels are not known."""


@dataclass(frozen=True, slots=True)
class AxisTable:
    """The kept fractions of an axis, ascending, and the predictor's part at each of them."""

    kept: tuple[float, ...]
    part: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class AxisTables:
    """Score = start + sum of parts, or start · product of parts; accuracy = from_link(score)."""

    link: LinkName
    adds: bool
    start: float
    axes: tuple[AxisTable, AxisTable, AxisTable]

    def accuracy(self, scale: Scale) -> float:
        """Return the accuracy at a scale that is in the tables, as the page computes it."""
        parts = [t.part[t.kept.index(x)] for t, x in zip(self.axes, scale, strict=True)]
        score = self.start + sum(parts) if self.adds else self.start * math.prod(parts)
        return float(from_link(np.array([score]), self.link)[0])


def axis_tables(
    predictor: Predictor, lattice: Lattice | None, lowest: tuple[float, float, float]
) -> AxisTables | None:
    """Return the tables down to ``lowest``; None for a rank above one, which is no product."""
    adds = isinstance(predictor.form, SumOfCurves)
    if not adds and predictor.candidate.rank > 1:
        return None
    sides = [_kept(lattice, index, low) for index, low in enumerate(lowest)]
    anchor = np.ones(3)
    if not adds:
        # A product can be divided only where it is not zero: by its largest value along depth.
        values = np.abs(value_at(predictor.form, _along(anchor, 0, sides[0])))
        anchor[0] = sides[0][int(np.argmax(values))]
    start = float(value_at(predictor.form, anchor[None])[0])
    tables: list[AxisTable] = []
    for index, side in enumerate(sides):
        values = value_at(predictor.form, _along(anchor, index, side))
        parts = values - start if adds else values / start
        tables.append(AxisTable(tuple(side.tolist()), tuple(parts.tolist())))
    depth, width, resolution = tables
    return AxisTables(predictor.candidate.link, adds, start, (depth, width, resolution))


def _kept(lattice: Lattice | None, index: int, low: float) -> Array:
    if low >= 1.0:
        return np.ones(1)
    if lattice is not None:
        return lattice.within(AXES[index], low, 1.0)
    return np.linspace(low, 1.0, _STEPS + 1)


def _along(anchor: Array, index: int, side: Array) -> Array:
    points = np.tile(anchor, (len(side), 1))
    points[:, index] = side
    return points
