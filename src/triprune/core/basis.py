# numpy leaves parts of its own types open:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Owns the univariate basis of one axis: Legendre polynomials, all zero at full scale."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.polynomial import legendre

from triprune.core.link import Array


@dataclass(frozen=True, slots=True)
class AxisBasis:
    """The functions P_k(t(x)) - 1, k = 1..degree, with t mapping [low, 1] onto [-1, 1].

    ``t`` is linear in ``x**power``. Subtracting 1 makes every function vanish at x = 1, which
    fixes the gauge: whatever multiplies the basis, the model at full scale is not moved by it.
    Below ``low`` the functions continue as straight lines in ``x**power`` when ``straight_tail``
    is set, and as the same polynomials otherwise.
    """

    low: float
    degree: int
    power: float = 1.0
    straight_tail: bool = False

    def values(self, x: Array) -> Array:
        """Return the basis at ``x`` [m], as [m, degree]."""
        t = self._t(x)
        inner = np.maximum(t, -1.0) if self.straight_tail else t
        values: Array = np.asarray(legendre.legvander(inner, self.degree)[:, 1:] - 1.0, dtype=float)
        if self.straight_tail:
            values = values + (t - inner)[:, None] * self._slopes_in_t(inner)
        return values

    def slopes(self, x: Array) -> Array:
        """Return the derivatives of the basis by ``x`` [m], as [m, degree]."""
        t = self._t(x)
        inner = np.maximum(t, -1.0) if self.straight_tail else t
        dt_dx = 2.0 * self.power * x ** (self.power - 1.0) / (1.0 - self.low**self.power)
        return self._slopes_in_t(inner) * dt_dx[:, None]

    def _t(self, x: Array) -> Array:
        bottom = self.low**self.power
        return 2.0 * (x**self.power - bottom) / (1.0 - bottom) - 1.0

    def _slopes_in_t(self, t: Array) -> Array:
        # P_k' = (2k-1) P_{k-1} + (2k-5) P_{k-3} + ...
        lower = legendre.legvander(t, max(self.degree - 1, 0))
        slopes = np.zeros((len(t), self.degree))
        for k in range(1, self.degree + 1):
            below = np.arange(k - 1, -1, -2)
            slopes[:, k - 1] = lower[:, below] @ (2.0 * below + 1.0)
        return slopes


def observed_low(values: Array) -> float:
    """Return the lower end of an axis' range; an axis that was never cut gets a nominal one."""
    low = float(values.min())
    return low if low < 1.0 else 0.5
