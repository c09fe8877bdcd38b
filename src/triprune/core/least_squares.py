# numpy leaves parts of its own types open:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Owns regularised least squares on a form: the fit, its spread, and its leave-one-out errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from triprune.core.forms import Design, Form, SumOfProducts, design_at
from triprune.core.link import Array

_FLOOR = 1e-12
"""A ridge so small that it only decides what the data leave open: there, zero."""

_REFIT_LIMIT = 64
"""Up to this many points a nonlinear form is refitted for each one that is left out."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Fit ``form`` to ``scores`` [n] with ``weights`` [n] at ``design``, under ``penalty`` [p]."""

    form: Form
    design: Design
    scores: Array
    weights: Array
    penalty: Array

    @classmethod
    def at(
        cls, form: Form, points: Array, *, scores: Array, weights: Array, ridge: float
    ) -> Problem:
        """Set up the fit of ``form`` to ``scores`` at ``points`` [n, 3]."""
        penalty = (form.penalty() * ridge + _FLOOR) * form.units(_spread(scores))
        return cls(form, design_at(form, points), scores, weights, penalty)

    def solve(self) -> Array:
        """Return the best parameters [p]."""
        if not isinstance(self.form, SumOfProducts):
            origin = np.zeros_like(self.penalty)
            return origin + self._step(origin, np.zeros_like(self.penalty))
        fits = [self._levenberg_marquardt(start) for start in self._starts(self.form)]
        terms = min(fits, key=self._loss).reshape(self.form.rank, -1)
        return terms[np.argsort(-np.abs(terms[:, 0]), kind="stable")].ravel()

    def left_out_scores(self, theta: Array) -> Array:
        """Return what the fit predicts for each point [n] when that point is left out."""
        if isinstance(self.form, SumOfProducts) and len(self.scores) <= _REFIT_LIMIT:
            return self._refitted(theta)
        residual, jacobian = self._linearised(theta)
        inverse = self._inverse(jacobian)
        leverage = np.einsum("ip,pq,iq->i", jacobian, inverse, jacobian) * self.weights
        return self.scores - residual / (1.0 - np.minimum(leverage, 1.0 - 1e-9))

    def covariance(self, theta: Array) -> tuple[Array, float]:
        """Return the covariance per unit of noise [p, p], and how many parameters are in effect."""
        jacobian = self._linearised(theta)[1]
        inverse = self._inverse(jacobian)
        return inverse, float(np.einsum("ip,pq,iq,i->", jacobian, inverse, jacobian, self.weights))

    def residuals(self, theta: Array) -> Array:
        """Return what the fit leaves unexplained [n]."""
        return self._linearised(theta)[0]

    def _linearised(self, theta: Array) -> tuple[Array, Array]:
        values, jacobians = self.form.evaluate(self.design, theta[None])
        return self.scores - values[0], jacobians[0]

    def _inverse(self, jacobian: Array) -> Array:
        normal = jacobian.T @ (jacobian * self.weights[:, None]) + np.diag(self.penalty)
        return np.linalg.pinv(normal, rcond=1e-15, hermitian=True)

    def _loss(self, theta: Array) -> float:
        residual = self._linearised(theta)[0]
        return float(self.weights @ residual**2 + self.penalty @ theta**2)

    def _step(self, theta: Array, damping: Array) -> Array:
        """Return the Gauss-Newton step of the penalised squares, held back by ``damping`` [p]."""
        residual, jacobian = self._linearised(theta)
        root = np.sqrt(self.weights)
        pull = np.sqrt(self.penalty + damping)
        matrix = np.vstack([jacobian * root[:, None], np.diag(pull)])
        right = np.concatenate([residual * root, -self.penalty * theta / pull])
        return np.asarray(np.linalg.lstsq(matrix, right, rcond=None)[0], dtype=float)

    def _levenberg_marquardt(self, theta: Array) -> Array:
        spread = _spread(self.scores)
        units = self.form.units(spread)
        damping, loss = 1e-3, self._loss(theta)
        for _ in range(200):
            step = self._step(theta, damping * units)
            trial_loss = self._loss(theta + step)
            if trial_loss > loss:
                damping *= 10.0
                if damping > 1e6:
                    break
                continue
            theta, loss, damping = theta + step, trial_loss, max(damping * 0.01, 1e-15)
            if float(np.abs(step * np.sqrt(units)).max()) < 1e-10 * spread:
                break
        return theta

    def _starts(self, form: SumOfProducts) -> list[Array]:
        """Return deterministic starting points: flat for one term, spread out for several."""
        flat = np.zeros((form.rank, len(self.penalty) // form.rank))
        flat[0, 0] = float(np.average(self.scores, weights=self.weights))
        if form.rank == 1:
            return [flat.ravel()]
        generator = np.random.default_rng(0)
        return [(flat + 0.3 * generator.standard_normal(flat.shape)).ravel() for _ in range(8)]

    def _refitted(self, theta: Array) -> Array:
        """Refit without each point in turn, starting from the full fit, all refits at once."""
        count = len(self.scores)
        thetas = np.tile(theta, (count, 1))
        weights = (1.0 - np.eye(count)) * self.weights
        steadying = np.diag(self.penalty + 1e-11 * self.form.units(_spread(self.scores)))
        with np.errstate(all="ignore"):
            for _ in range(6):
                values, jacobians = self.form.evaluate(self.design, thetas)
                weighted = jacobians * weights[..., None]
                normal = weighted.transpose(0, 2, 1) @ jacobians + steadying
                residual = (self.scores - values)[..., None]
                right = weighted.transpose(0, 2, 1) @ residual - (self.penalty * thetas)[..., None]
                thetas = thetas + np.linalg.solve(normal, right)[..., 0]
            left_out = np.diag(self.form.evaluate(self.design, thetas)[0])
        return np.nan_to_num(left_out, nan=1e6, posinf=1e6, neginf=-1e6)


def _spread(scores: Array) -> float:
    """Return the size of the scores, so that a ridge means the same whatever their unit."""
    return float(np.sqrt(np.mean(scores**2))) or 1.0
