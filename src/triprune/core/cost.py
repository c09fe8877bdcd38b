# numpy leaves parts of its own types open:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Owns cost: the compute of a scale relative to the original model, by formula or calibrated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from triprune.core.link import Array, Mask
from triprune.core.scale import AXES, Axis, Scale, finite_number
from triprune.errors import InputError

_PAPER_EXPONENTS = (1.0, 2.0, 2.0)
_PAIRS = ((0, 1), (0, 2), (1, 2))
_TERMS = ((0,), (1,), (2,), (0,), (1,), (2,), *_PAIRS)
"""Which axes each coefficient belongs to: slopes, bends, crossings."""

_FLAT = 1e-3
"""A cost whose logarithm changes by less than this along an axis does not depend on it."""

_SCATTER = 0.25
"""How far, as a logarithm, measurements may scatter around a cost that never falls."""


class Cost(Protocol):
    """The compute of a scale relative to the original model; it falls along no axis."""

    def __call__(self, scale: Scale) -> float:
        """Return the relative compute at ``scale``."""
        ...


@runtime_checkable
class SmoothCost(Cost, Protocol):
    """A cost that also answers for many points at once, with its slope."""

    def log_at(self, logs: Array) -> tuple[Array, Array]:
        """Return log cost [m] and its gradient [m, 3] at logarithms of scales [m, 3]."""
        ...


@dataclass(frozen=True, slots=True)
class CalibratedCost:
    """log C = sum of slopes·u + bends·u² + crossings·u_i u_j, with u the log of each fraction.

    The paper's d·w²·r² (Wang et al. 2021, Eq. 4) is slopes (1, 2, 2) and nothing else. Real
    models bend away from it: dense blocks in depth, depthwise layers in width, first layers and
    rounding everywhere.
    """

    slopes: tuple[float, float, float] = _PAPER_EXPONENTS
    bends: tuple[float, float, float] = (0.0, 0.0, 0.0)
    crossings: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def __call__(self, scale: Scale) -> float:
        """Return the relative compute at ``scale``."""
        return float(np.exp(self.log_at(np.log([[*scale]]))[0][0]))

    @property
    def flat_axes(self) -> tuple[Axis, ...]:
        """The axes that cost nothing: parameters, for example, do not depend on resolution."""
        coefficients = (*self.slopes, *self.bends, *self.crossings)
        used = {i for axes, each in zip(_TERMS, coefficients, strict=True) if each for i in axes}
        return tuple(axis for index, axis in enumerate(AXES) if index not in used)

    def log_at(self, logs: Array) -> tuple[Array, Array]:
        """Return log cost [m] and its gradient [m, 3] at logarithms of scales [m, 3]."""
        value = logs @ np.array(self.slopes) + logs**2 @ np.array(self.bends)
        gradient = np.array(self.slopes) + 2.0 * logs * np.array(self.bends)
        for (i, j), crossing in zip(_PAIRS, self.crossings, strict=True):
            value = value + crossing * logs[:, i] * logs[:, j]
            gradient[:, i] += crossing * logs[:, j]
            gradient[:, j] += crossing * logs[:, i]
        return value, gradient

    @classmethod
    def fit(cls, scales: Iterable[Scale], relative_macs: Sequence[float]) -> CalibratedCost:
        """Fit to measured costs; what the measurements leave open stays as in the paper.

        ``relative_macs`` may be any relative cost: macs, parameters, latency. It may be flat
        along an axis. Raises when it clearly falls along one, or grows along none, since no
        budget can be solved for then.
        """
        listed = list(scales)
        measured = np.array([finite_number(value, "relative cost") for value in relative_macs])
        if not listed or len(listed) != len(measured) or measured.min() <= 0.0:
            raise InputError(
                f"calibrating a cost on {len(listed)} scales and {len(measured)} values",
                "there must be as many of each, at least one, and every value above 0",
                "pass the measured cost of each scale over the original model's",
            )
        logs = np.log(np.array([[*scale] for scale in listed]))
        target = np.log(measured)
        flat = np.array([_is_flat(logs, target, index) for index in range(3)])
        box = _box(np.minimum(logs.min(axis=0), np.log(0.5)))
        for terms in (9, 6, 3):
            fitted = _fit_terms(logs, target, terms, flat=flat)
            slopes = fitted.log_at(box)[1][:, ~flat]
            if slopes.size and (slopes > 0.0).all():
                return fitted
        return _never_falling(logs, target)


paper_cost = CalibratedCost()
"""d·w²·r² (Wang et al. 2021, Eq. 4)."""


def _is_flat(logs: Array, target: Array, index: int) -> bool:
    """Whether scales that differ along one axis alone were measured, and cost the same."""
    _, where = np.unique(np.delete(logs, index, axis=1), axis=0, return_inverse=True)
    groups = [where.ravel() == number for number in range(where.max() + 1)]
    compared = [group for group in groups if np.ptp(logs[group, index]) > 0.0]
    return bool(compared) and all(np.ptp(target[group]) < _FLAT for group in compared)


def _fit_terms(logs: Array, target: Array, terms: int, *, flat: Mask) -> CalibratedCost:
    """Fit the first ``terms`` coefficients, pulled to the paper's; none for ``flat`` axes."""
    crossed = np.stack([logs[:, i] * logs[:, j] for i, j in _PAIRS], axis=1)
    columns = np.hstack([logs, logs**2, crossed])
    prior = np.concatenate([_PAPER_EXPONENTS, np.zeros(6)])
    used = np.arange(9) < terms
    used &= np.array([not flat[list(axes)].any() for axes in _TERMS])
    columns, prior = columns[:, used], prior[used]
    matrix = np.vstack([columns, 1e-4 * np.eye(len(prior))])
    right = np.concatenate([target - columns @ prior, np.zeros(len(prior))])
    found = np.zeros(9)
    found[used] = prior + np.linalg.lstsq(matrix, right, rcond=None)[0]
    a, b, c, d, e, f, g, h, i = (float(value) for value in found)
    return CalibratedCost((a, b, c), (d, e, f), (g, h, i))


def _never_falling(logs: Array, target: Array) -> CalibratedCost:
    """Fit three slopes of which none is negative: what noisy timings are reduced to."""
    # Late, so that a machine that only trains needs no scipy.
    from scipy.optimize import nnls  # pyright: ignore[reportMissingTypeStubs]

    pull = 1e-4 * np.eye(3)
    right = np.concatenate([target, pull @ np.array(_PAPER_EXPONENTS)])
    slopes, _ = nnls(np.vstack([logs, pull]), right)
    slopes = np.where(slopes < _FLAT, 0.0, slopes)
    depth, width, resolution = (float(slope) for slope in slopes)
    scatter = float(np.sqrt(np.mean((logs @ slopes - target) ** 2)))
    if scatter > _SCATTER or not slopes.any():
        raise InputError(
            "calibrating a cost",
            "the measured values do not grow with depth, width and resolution",
            "measure again, with more repetitions where they are latencies",
        )
    return CalibratedCost((depth, width, resolution))


def _box(lowest: Array) -> Array:
    """Return a grid of logarithms from ``lowest`` to full scale [m, 3]."""
    sides = [np.linspace(low, 0.0, 7) for low in lowest]
    return np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1).reshape(-1, 3)


def log_cost(cost: Cost, logs: Array) -> Array:
    """Return the log of any cost [m] at logarithms of scales [m, 3]."""
    if isinstance(cost, SmoothCost):
        return cost.log_at(logs)[0]
    scales = np.exp(np.minimum(logs, 0.0))
    asked = (cost(Scale(*(float(x) for x in point))) for point in scales)
    costs = np.array([finite_number(paid, "a cost") for paid in asked])
    if (costs <= 0.0).any():
        raise InputError(
            "solving for a budget", "the cost gave a value that is not above 0", "mend the cost"
        )
    return np.log(costs)


def log_cost_slopes(cost: Cost, logs: Array) -> Array:
    """Return the gradient of ``log_cost`` [m, 3], by differences where the cost has no slopes."""
    if isinstance(cost, SmoothCost):
        return cost.log_at(logs)[1]
    step = 1e-3
    slopes = np.empty_like(logs)
    for axis in range(3):
        # A cost cannot be asked beyond full scale: there the difference looks backwards.
        shift = step * np.eye(3)[axis]
        inside = (logs[:, axis] <= -2.0 * step)[:, None]
        start = np.where(inside, logs - 2.0 * shift, logs - 4.0 * shift)
        values = [log_cost(cost, start + k * shift) for k in range(5)]
        central = (values[0] - 8.0 * values[1] + 8.0 * values[3] - values[4]) / 12.0
        backward = (
            3.0 * values[0] - 16.0 * values[1] + 36.0 * values[2] - 48.0 * values[3]
        ) / 12.0 + 25.0 * values[4] / 12.0
        slopes[:, axis] = np.where(inside[:, 0], central, backward) / step
    return slopes
