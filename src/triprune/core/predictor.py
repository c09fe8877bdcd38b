# numpy leaves parts of its own types open:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Owns the accuracy predictor: what it says of a scale, how sure it is, and its round trip."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from triprune.core.basis import AxisBasis
from triprune.core.forms import Form, SumOfCurves, SumOfProducts, jacobian_at, value_at
from triprune.core.link import LINKS, Array, LinkName, from_link, is_bounded
from triprune.core.scale import AXES, Axis, Scale, finite_number, kept_fraction
from triprune.errors import InputError

Degrees = tuple[int, int, int]


_ROUNDING = 0.01
"""What is asked for and what is built of it may differ by so much, as a part."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to fit, and its leave-one-out error: the root mean square, in accuracy."""

    link: LinkName
    rank: int
    degree: Degrees
    ridge: float
    leave_one_out: float | None = None

    def form(self, low: tuple[float, float, float]) -> Form:
        """Return the form without its parameters, for axes observed down to ``low``.

        The rival of Eq. 7 adds three curves on the square root of the error, each a polynomial in
        ``x ** -0.5``; docs/adr/0003-predictor-form.md says why.
        """
        additive = self.link == "root"
        depth, width, resolution = (
            AxisBasis(low[i], self.degree[i], -0.5 if additive else 1.0, straight_tail=additive)
            for i in range(3)
        )
        bases = (depth, width, resolution)
        size = 1 + sum(self.degree)
        if additive:
            return SumOfCurves(bases, np.zeros(size))
        return SumOfProducts(bases, np.zeros(size * self.rank), self.rank)


@dataclass(frozen=True, slots=True)
class Predictor:
    """Accuracy as a function of scale, with what is known of its error.

    ``noise`` is the standard deviation of one measurement on the link's scale, estimated with
    ``freedom`` degrees of freedom; ``least_noise`` is what it is known to be at least. ``ranking``
    lists the ways to fit that were compared, best first (one entry when the form was asked for).
    ``observed`` and ``highest`` are the lowest and the highest observed value of each axis.
    """

    candidate: Candidate
    form: Form
    covariance: Array
    noise: float
    freedom: float
    observed: tuple[float, float, float]
    ranking: tuple[Candidate, ...]
    highest: tuple[float, float, float] = (1.0, 1.0, 1.0)
    least_noise: float = 0.0

    def __call__(self, scale: Scale) -> float:
        """Return the predicted accuracy at ``scale``."""
        return float(self.accuracies(_point(scale))[0])

    @property
    def leave_one_out(self) -> float | None:
        """The root mean square error on observations that were left out; None below two."""
        return self.candidate.leave_one_out

    def accuracies(self, points: Array) -> Array:
        """Return the predicted accuracy at ``points`` [m, 3], as [m]."""
        return from_link(value_at(self.form, points), self.candidate.link)

    def extrapolated_axes(self, scale: Scale) -> tuple[Axis, ...]:
        """Return the axes along which ``scale`` lies beyond what was observed, on either side.

        Observations are of what was built, choices of what is asked for: a rounding lies between.
        """
        ends = zip(AXES, scale, self.observed, self.highest, strict=True)
        return tuple(
            axis
            for axis, x, low, high in ends
            if not low * (1.0 - _ROUNDING) <= x <= high * (1.0 + _ROUNDING)
        )

    def interval(self, scale: Scale, level: float = 0.9) -> tuple[float, float]:
        """Return where one new measurement at ``scale`` falls with probability ``level``."""
        if not 0.0 < finite_number(level, "level") < 1.0:
            raise InputError(f"level {level!r}", "it lies outside (0, 1)", "use 0.9, for example")
        point = _point(scale)
        link = self.candidate.link
        if self.freedom <= 0.0:
            return (0.0, 1.0) if is_bounded(link) else (-math.inf, math.inf)
        gradient = jacobian_at(self.form, point)[0]
        # Late, so that a machine that only trains needs no scipy.
        from scipy.special import ndtri, stdtrit  # pyright: ignore[reportMissingTypeStubs]

        quantile = float(stdtrit(self.freedom, 0.5 + level / 2.0))
        centre = float(value_at(self.form, point)[0])
        # What is known needs no allowance for having been estimated from few residuals.
        at_once = max(quantile * self.noise, float(ndtri(0.5 + level / 2.0)) * self.least_noise)
        reach = at_once * math.sqrt(1.0 + float(gradient @ self.covariance @ gradient))
        ends = from_link(np.array([centre, centre - reach, centre + reach]), link)
        middle, low, high = (float(end) for end in ends)
        doubt = quantile * self._doubt_of_combination(point)
        return _widened(middle, low, -doubt, link), _widened(middle, high, doubt, link)

    def _doubt_of_combination(self, point: Array) -> float:
        """Return the standard deviation of accuracy for not knowing how axes combine.

        Observations on single axes do not say whether errors add or multiply when two axes are
        cut together. The form stands in the middle; taking the truth as anywhere between the two
        with equal probability gives the gap over sqrt(12).
        """
        if self.candidate.link != "root":
            return 0.0
        alone = np.ones((4, 3))
        alone[[0, 1, 2], [0, 1, 2]] = point[0]
        *errors, whole = 1.0 - self.accuracies(alone)
        added = whole + sum(error - whole for error in errors)
        multiplied = whole * math.prod(error / whole for error in errors) if whole > 0 else added
        return abs(added - multiplied) / math.sqrt(12.0)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; ``from_dict`` gives the same predictor to the last bit."""
        return {
            "kind": "triprune-predictor",
            "version": 1,
            "candidate": asdict(self.candidate),
            "ranking": [asdict(candidate) for candidate in self.ranking],
            "low": [basis.low for basis in self.form.bases],
            "theta": self.form.theta.tolist(),
            "covariance": self.covariance.tolist(),
            "noise": self.noise,
            "freedom": self.freedom,
            "observed": list(self.observed),
            "highest": list(self.highest),
            "least_noise": self.least_noise,
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Predictor:
        """Rebuild a predictor from ``to_dict``'s values."""
        try:
            if (values["kind"], values["version"]) != ("triprune-predictor", 1):
                raise KeyError("kind")
            candidate = _candidate(values["candidate"])
            low = _three_fractions(values["low"])
            if max(low) == 1.0:
                raise ValueError("low")
            form = candidate.form(low)
            theta = np.array(values["theta"], dtype=float)
            covariance = np.array(values["covariance"], dtype=float)
            if theta.shape != form.theta.shape or covariance.shape != 2 * theta.shape:
                raise ValueError("theta")
            if not (np.isfinite(theta).all() and np.isfinite(covariance).all()):
                raise ValueError("theta")
            return cls(
                candidate=candidate,
                form=form.with_theta(theta),
                covariance=covariance,
                noise=finite_number(values["noise"], "noise"),
                freedom=finite_number(values["freedom"], "freedom"),
                observed=_three_fractions(values["observed"]),
                ranking=tuple(_candidate(c) for c in values["ranking"]),
                highest=_three_fractions(values["highest"]),
                least_noise=finite_number(values.get("least_noise", 0.0), "least_noise"),
            )
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise InputError(
                "reading a predictor",
                f"these are not values that to_dict wrote ({error})",
                "pass what Predictor.to_dict returned, from this version",
            ) from error


def _point(scale: Scale) -> Array:
    if not isinstance(scale, Scale):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"predicting at {scale!r}", "that is not a Scale", "pass Scale(d, w, r)")
    return np.array([[*scale]])


def _widened(middle: float, edge: float, doubt: float, link: LinkName) -> float:
    """Move ``edge`` away from ``middle`` by an independent ``doubt`` in the same direction."""
    moved = middle + math.copysign(math.hypot(edge - middle, doubt), doubt)
    return min(max(moved, 0.0), 1.0) if is_bounded(link) else moved


def _three_fractions(values: Any) -> tuple[float, float, float]:
    first, second, third = (kept_fraction(value, "an observed fraction") for value in values)
    return first, second, third


def _candidate(values: dict[str, Any]) -> Candidate:
    link, error = values["link"], values["leave_one_out"]
    first, second, third = (int(degree) for degree in values["degree"])
    if link not in LINKS or int(values["rank"]) < 1 or min(first, second, third) < 0:
        raise ValueError(f"candidate {values}")
    return Candidate(
        link=link,
        rank=int(values["rank"]),
        degree=(first, second, third),
        ridge=float(values["ridge"]),
        leave_one_out=None if error is None else float(error),
    )
