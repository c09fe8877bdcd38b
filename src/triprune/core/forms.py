# numpy leaves parts of its own types open:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Owns the two forms of a predictor on its link's scale: products (Eq. 7) and sums of curves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from triprune.core.basis import AxisBasis
from triprune.core.link import Array

Bases = tuple[AxisBasis, AxisBasis, AxisBasis]
Design = tuple[Array, Array, Array]
"""The basis of each axis at n points: three times [n, degree]."""


class Form(Protocol):
    """A family of functions of a scale with parameters ``theta`` [p]."""

    @property
    def bases(self) -> Bases:
        """The basis of each axis."""
        ...

    @property
    def theta(self) -> Array:
        """The parameters [p]."""
        ...

    def with_theta(self, theta: Array) -> Form:
        """Return the same form with other parameters."""
        ...

    def evaluate(self, design: Design, thetas: Array) -> tuple[Array, Array]:
        """Return values [b, n] and derivatives by parameter [b, n, p] for ``thetas`` [b, p]."""
        ...

    def gradient(self, points: Array) -> Array:
        """Return the derivatives by depth, width and resolution at ``points`` [n, 3], as [n, 3]."""
        ...

    def penalty(self) -> Array:
        """Return the weight of each squared parameter in a ridge [p]; 0 leaves it free."""
        ...

    def units(self, spread: float) -> Array:
        """Return the unit of each squared parameter [p], when scores are about ``spread``."""
        ...


def design_at(form: Form, points: Array) -> Design:
    """Return the basis of each axis at ``points`` [n, 3]."""
    depth, width, resolution = form.bases
    return (
        depth.values(points[:, 0]),
        width.values(points[:, 1]),
        resolution.values(points[:, 2]),
    )


def value_at(form: Form, points: Array) -> Array:
    """Return the form's value at ``points`` [n, 3], as [n]."""
    return form.evaluate(design_at(form, points), form.theta[None])[0][0]


def jacobian_at(form: Form, points: Array) -> Array:
    """Return the form's derivatives by its parameters at ``points`` [n, 3], as [n, p]."""
    return form.evaluate(design_at(form, points), form.theta[None])[1][0]


@dataclass(frozen=True, slots=True)
class SumOfCurves:
    """f(d, w, r) = c + g_d(d) + g_w(w) + g_r(r), each g a polynomial that is 0 at full scale.

    ``theta`` is c, then the coefficients of each axis. The ridge spares constants and slopes: it
    pulls towards straight curves, the harder the higher the degree.
    """

    bases: Bases
    theta: Array

    def with_theta(self, theta: Array) -> SumOfCurves:
        """Return the same form with other parameters."""
        return replace(self, theta=theta)

    def evaluate(self, design: Design, thetas: Array) -> tuple[Array, Array]:
        """Return values [b, n] and derivatives by parameter [b, n, p] for ``thetas`` [b, p]."""
        matrix = np.hstack([np.ones((len(design[0]), 1)), *design])
        return thetas @ matrix.T, np.broadcast_to(matrix, (len(thetas), *matrix.shape))

    def gradient(self, points: Array) -> Array:
        """Return the derivatives by depth, width and resolution at ``points`` [n, 3], as [n, 3]."""
        coefficients = np.split(self.theta[1:], np.cumsum([b.degree for b in self.bases])[:-1])
        return np.stack(
            [b.slopes(points[:, i]) @ coefficients[i] for i, b in enumerate(self.bases)], axis=1
        )

    def penalty(self) -> Array:
        """Return the weight of each squared parameter in a ridge [p]; 0 leaves it free."""
        curvature = [np.arange(basis.degree, dtype=float) ** 2 for basis in self.bases]
        return np.concatenate([[0.0], *curvature])

    def units(self, spread: float) -> Array:  # noqa: ARG002 - every parameter is a score
        """Return the unit of each squared parameter [p], when scores are about ``spread``."""
        return np.ones(len(self.theta))


@dataclass(frozen=True, slots=True)
class SumOfProducts:
    """Wang et al. 2021, Eq. 7: f(d, w, r) = sum over q of H(d; s_q) H(w; u_q) H(r; v_q).

    ``theta`` holds, for each q, the depth factor's value at full scale and its coefficients, then
    the coefficients of the width and the resolution factor, which both equal 1 at full scale:
    that fixes the gauge, since a constant may move freely between the factors of a product.
    """

    bases: Bases
    theta: Array
    rank: int = 1

    def with_theta(self, theta: Array) -> SumOfProducts:
        """Return the same form with other parameters."""
        return replace(self, theta=theta)

    def evaluate(self, design: Design, thetas: Array) -> tuple[Array, Array]:
        """Return values [b, n] and derivatives by parameter [b, n, p] for ``thetas`` [b, p]."""
        terms = thetas.reshape(len(thetas), self.rank, -1)
        depth, width, resolution = self._factors(design, terms)
        jacobian = np.empty((len(thetas), self.rank, len(design[0]), terms.shape[2]))
        ends = self._ends()
        around_depth = (width * resolution)[..., None]
        jacobian[..., :1] = around_depth
        jacobian[..., ends[0] : ends[1]] = around_depth * design[0]
        jacobian[..., ends[1] : ends[2]] = (depth * resolution)[..., None] * design[1]
        jacobian[..., ends[2] :] = (depth * width)[..., None] * design[2]
        by_point = jacobian.transpose(0, 2, 1, 3).reshape(len(thetas), len(design[0]), -1)
        return (depth * width * resolution).sum(axis=1), by_point

    def gradient(self, points: Array) -> Array:
        """Return the derivatives by depth, width and resolution at ``points`` [n, 3], as [n, 3]."""
        terms = self.theta.reshape(1, self.rank, -1)
        factors = [factor[0] for factor in self._factors(design_at(self, points), terms)]
        ends = self._ends()
        slopes: list[Array] = []
        for axis, basis in enumerate(self.bases):
            slope = terms[0, :, ends[axis] : ends[axis + 1]] @ basis.slopes(points[:, axis]).T
            slopes.append((slope * factors[axis - 1] * factors[axis - 2]).sum(axis=0))
        return np.stack(slopes, axis=1)

    def penalty(self) -> Array:
        """Return the weight of each squared parameter in a ridge [p]; 0 leaves it free."""
        one_term = np.ones(self._ends()[3])
        one_term[0] = 0.0
        return np.tile(one_term, self.rank)

    def units(self, spread: float) -> Array:
        """Return the unit of each squared parameter [p], when scores are about ``spread``."""
        one_term = np.full(self._ends()[3], spread**2)
        one_term[: self._ends()[1]] = 1.0
        return np.tile(one_term, self.rank)

    def _ends(self) -> list[int]:
        """Return where a term's depth, width and resolution coefficients begin, and its size."""
        depth, width, resolution = (basis.degree for basis in self.bases)
        return [1, 1 + depth, 1 + depth + width, 1 + depth + width + resolution]

    def _factors(self, design: Design, terms: Array) -> tuple[Array, Array, Array]:
        """Return the three factors of ``terms`` [b, rank, size], each [b, rank, n]."""
        ends = self._ends()
        depth, width, resolution = (
            terms[:, :, ends[axis] : ends[axis + 1]] @ design[axis].T for axis in range(3)
        )
        return terms[:, :, :1] + depth, 1.0 + width, 1.0 + resolution
