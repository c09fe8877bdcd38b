# numpy leaves parts of its own types open:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Owns the budget surface: all scales of one cost within bounds, and climbing on it.

Everything here lives in the logarithms of the kept fractions, where the paper's cost is a plane.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from triprune.core.cost import Cost, SmoothCost, log_cost, log_cost_slopes
from triprune.core.forms import Form, value_at
from triprune.core.link import Array, Mask

_AXES = np.arange(3)


@dataclass(frozen=True, slots=True)
class Surface:
    """The points u in [low, high] with log cost(u) = level, and the score of a form on them."""

    form: Form
    cost: Cost
    level: float
    low: Array
    high: Array

    def score(self, logs: Array) -> Array:
        """Return the form's value at ``logs`` [m, 3], as [m]."""
        return value_at(self.form, np.exp(logs))

    def starting_points(self) -> Array:
        """Return the promising local maxima of a grid on the surface [m, 3], best first."""
        side = 25 if isinstance(self.cost, SmoothCost) else 9
        low, high = self._smallest_box()
        peaks: list[Array] = []
        lowest = np.inf
        for solved in range(3):
            first, second = np.delete(_AXES, solved)
            grid = np.empty((side, side, 3))
            grid[..., first] = np.linspace(low[first], high[first], side)[:, None]
            grid[..., second] = np.linspace(low[second], high[second], side)
            points = grid.reshape(-1, 3)
            points[:, solved] = self._solved(points, solved)
            on_level = np.abs(log_cost(self.cost, points) - self.level) < 1e-6
            scores = np.where(on_level, self.score(points), -np.inf).reshape(side, side)
            peaks.append(points.reshape(side, side, 3)[_peaks(scores)])
            lowest = min(lowest, float(scores[np.isfinite(scores)].min(initial=np.inf)))
        candidates = np.concatenate(peaks)
        scores = self.score(candidates)
        order = np.argsort(-scores, kind="stable")
        # Climbing gains little over a grid this fine: far lower peaks cannot win.
        within = scores[order] >= scores.max() - 0.2 * (scores.max() - lowest)
        return _spaced(candidates[order][within], 0.05 * float((high - low).max()))[:6]

    def climb(self, start: Array) -> Array:
        """Return the local maximum that Newton's method reaches from ``start`` [3]."""
        point, moved, left = start, self._inside(start), 60
        while moved is not None and left:
            point, left = moved, left - 1
            step = self._newton_step(point)
            moved = None if step is None else self._line_search(point, step)
        return point

    def residual(self, point: Array) -> float:
        """Return how far ``point`` [3] is from a KKT point, relative to the score and its slope."""
        return max(abs(self._missed(point)), self._exchange(point)[0])

    def _smallest_box(self) -> tuple[Array, Array]:
        """Return the ends of the smallest box that holds the surface."""
        ends = np.stack([np.tile(self.high, (3, 1)), np.tile(self.low, (3, 1))])
        low = np.array([self._solved(ends[0, [i]], i)[0] for i in range(3)])
        high = np.array([self._solved(ends[1, [i]], i)[0] for i in range(3)])
        return low, high

    def _slope(self, logs: Array) -> Array:
        scales = np.exp(logs)
        return self.form.gradient(scales) * scales

    def _solved(self, points: Array, axis: int) -> Array:
        """Return the coordinate along ``axis`` [m] that brings ``points`` closest to the level.

        The Illinois variant of the false position: exact at once where log cost is a plane.
        """
        trial = points.copy()
        low, high = (np.full(len(points), edge[axis]) for edge in (self.low, self.high))
        trial[:, axis] = low
        below = log_cost(self.cost, trial) - self.level
        trial[:, axis] = high
        above = log_cost(self.cost, trial) - self.level
        too_dear, too_cheap = below >= 0.0, above <= 0.0
        found = np.where(too_dear, low, high)
        bracketed = ~(too_dear | too_cheap)
        worst, left = 1.0, 60
        while worst > 1e-13 and left:
            gap = np.where(bracketed, above - below, 1.0)
            trial[:, axis] = np.where(bracketed, high - above * (high - low) / gap, found)
            found, left = trial[:, axis].copy(), left - 1
            value = np.where(bracketed, log_cost(self.cost, trial) - self.level, 0.0)
            worst = float(np.abs(value).max())
            rising = value > 0.0
            below, above = (
                np.where(rising, 0.5 * below, value),
                np.where(rising, value, 0.5 * above),
            )
            low, high = np.where(rising, low, found), np.where(rising, found, high)
        return found

    def _inside(self, point: Array) -> Array:
        """Return ``point`` [3] within the box, and exactly on an edge that it all but touches."""
        point = np.where(point < self.low + 1e-13, self.low, point)
        return np.where(point > self.high - 1e-13, self.high, point)

    def _missed(self, point: Array) -> float:
        """Return by how much the log cost of ``point`` [3] is above the level."""
        return float(log_cost(self.cost, point[None])[0]) - self.level

    def _exchange(self, point: Array) -> tuple[float, Mask]:
        """Return the relative gain of the best exchange between two axes, and who takes part.

        An axis is worth what it gains per unit of log cost. At a KKT point nothing that can be
        raised is worth more than anything that can be lowered.
        """
        # An axis that costs nothing here is worth a great deal, not infinitely much.
        price = np.maximum(log_cost_slopes(self.cost, point[None])[0], 1e-9)
        worth = self._slope(point[None])[0] / price
        rise = np.where(point < self.high, worth, -np.inf)
        fall = np.where(point > self.low, worth, np.inf)
        up, down = int(np.argmax(rise)), int(np.argmin(fall))
        part = (point < self.high) & (point > self.low)
        part[[up, down]] = True
        size = max(float(np.abs(worth).max()), abs(float(self.score(point[None])[0])), 1e-300)
        return max(float(rise[up] - fall[down]) / size, 0.0), part

    def _newton_step(self, point: Array) -> Array | None:
        """Return the ascent direction along the surface [3], or None at a KKT point."""
        gain, part = self._exchange(point)
        return self._step_among(part, point) if gain > 1e-12 else None

    def _step_among(self, part: Mask, point: Array) -> Array:
        """Return the modified Newton step [3] that moves only the axes that take ``part``."""
        slope = self._slope(point[None])[0]
        normal = log_cost_slopes(self.cost, point[None])[0]
        axes = np.flatnonzero(part)
        across = normal[axes]
        share = float(across @ slope[axes]) / float(across @ across)
        tangent = np.zeros((3, len(axes) - 1))
        tangent[axes] = np.linalg.svd(across[None])[2][1:].T
        curvature = tangent.T @ self._curvature(point, share) @ tangent
        values, vectors = np.linalg.eigh(0.5 * (curvature + curvature.T))
        bent = np.maximum(np.abs(values), 1e-8 * float(np.abs(slope).max()))
        step = tangent @ (vectors @ ((vectors.T @ (tangent.T @ (slope - share * normal))) / bent))
        return step * min(1.0, 0.5 / max(float(np.abs(step).max()), 1e-300))

    def _curvature(self, point: Array, share: float) -> Array:
        """Return the Hessian of the Lagrangian [3, 3], by differences of slopes."""
        around = np.minimum(point + 1e-5 * np.concatenate([np.eye(3), -np.eye(3)]), 0.0)
        gaps = np.diag(around[:3] - around[3:])[:, None]
        slopes = self._slope(around) - share * log_cost_slopes(self.cost, around)
        return (slopes[:3] - slopes[3:]) / gaps

    def _line_search(self, point: Array, step: Array) -> Array | None:
        """Return a better point along ``step`` that is back on the surface, or None."""
        here = float(self.score(point[None])[0])
        unrest = self._exchange(point)[0]
        for halvings in range(40):
            moved = self._restored(self._inside(point + 0.5**halvings * step), step != 0.0)
            gained = float(self.score(moved[None])[0]) - here
            # Near the top the score no longer tells points apart; the KKT residual still does.
            calmer = gained >= -1e-13 * abs(here) and self._exchange(moved)[0] < 0.5 * unrest
            if abs(self._missed(moved)) < 1e-12 and (gained > 0.0 or calmer):
                return moved
        return None

    def _restored(self, point: Array, moving: Mask) -> Array:
        """Bring ``point`` [3] back to the level along the ``moving`` axes, as far as they go."""
        missed, left = self._missed(point), 30
        while abs(missed) > 1e-14 and left:
            room = point > self.low if missed > 0.0 else point < self.high
            normal = log_cost_slopes(self.cost, point[None])[0] * (room & moving)
            step = normal * missed / max(float(normal @ normal), 1e-300)
            point = self._inside(point - step)
            missed, left = self._missed(point), left - 1
        return point


def _peaks(scores: Array) -> Mask:
    """Return where ``scores`` [n, n] is no lower than its neighbours."""
    padded = np.pad(scores, 1, constant_values=-np.inf)
    rows, columns = scores.shape
    peak = np.isfinite(scores)
    for down in (0, 1, 2):
        for right in (0, 1, 2):
            peak &= scores >= padded[down : down + rows, right : right + columns]
    return peak


def _spaced(points: Array, gap: float) -> Array:
    """Return ``points`` without those that lie near an earlier one."""
    kept: list[Array] = []
    for point in points:
        if all(np.abs(point - other).max() > gap for other in kept):
            kept.append(point)
    return np.array(kept)
