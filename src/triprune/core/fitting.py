# numpy leaves parts of its own types open:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Owns the fit: from observations to a predictor, in the form that was asked for or the best."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from triprune.core.basis import observed_low
from triprune.core.least_squares import Problem
from triprune.core.link import Array, LinkName, check_link, from_link, to_link
from triprune.core.observation import Observation
from triprune.core.predictor import Candidate, Degrees, Predictor
from triprune.core.scale import AXES, finite_number, is_count
from triprune.errors import InputError, NotIdentifiedError

_MIN_FREEDOM = 0.5
"""With fewer degrees of freedom than this the residuals say nothing of the noise."""

_PICK_FREEDOM = 2.0
"""A pick leaves at least this many where it can: one is charged for picking, one must remain."""

_TRAINING_SHARE = 1.0 / 3.0
"""Of the variance of so many independent images: how a score differs from training to training."""


def fit_predictor(
    observations: Iterable[Observation],
    *,
    rank: int | None = None,
    degree: int | Sequence[int] | None = None,
    link: LinkName | None = None,
    ridge: float | None = None,
    images: int | None = None,
) -> Predictor:
    """Fit accuracy as a function of scale.

    With nothing but observations, form, degree and ridge are picked by leave-one-out error; the
    predictor's ``ranking`` tells what was compared. With any of the others given, the form is
    Wang et al. 2021, Eq. 7 of that ``rank`` (1) and ``degree`` (3, or one for each axis) on the
    given ``link`` ("identity" or "logit"); ``link="root"`` asks for the additive rival. ``ridge``
    penalises squared coefficients; giving one allows a rank that the data do not identify.
    ``images`` is how many every accuracy was counted on: however well the observations happen to
    lie on a curve, intervals are then no narrower than so many judges allow (docs/adr/0105).
    """
    sample = _Sample.of(observations)
    least = 0.0 if images is None else _training_noise(sample.accuracies, images)
    if rank is None and degree is None and link is None and ridge is None:
        fits = [_Fit.of(sample, candidate) for candidate in _rivals(sample)]
        best, *others = sorted(fits, key=_Fit.rank_key)
        return best.predictor(sample, least_noise=least, charge=1.0, others=others)
    asked_for = _asked_for(sample, rank, degree, link, ridge)
    return _Fit.of(sample, asked_for).predictor(sample, least_noise=least)


def _training_noise(accuracies: Array, images: int) -> float:
    """Return by how much an accuracy counted on ``images`` differs from training to training."""
    if not is_count(images, least=1):
        raise InputError(f"images {images!r}", "it is not a positive integer", "count them")
    typical = float(np.median(accuracies))
    if not 0.0 <= typical <= 1.0:
        raise InputError(
            f"accuracies counted on {images} images",
            f"a typical one is {typical:g}, which is no fraction",
            "divide percentages by 100, or leave images out for any other score",
        )
    return float(np.sqrt(_TRAINING_SHARE * typical * (1.0 - typical) / images))


@dataclass(frozen=True, slots=True)
class _Sample:
    """Observations as arrays; repeated scales are averaged and count for as many as they are."""

    points: Array
    accuracies: Array
    weights: Array
    scatter: float
    """The squared deviations of repeated measurements from their average, added up."""

    @classmethod
    def of(cls, observations: Iterable[Observation]) -> _Sample:
        listed = list(observations)
        wrong = [item for item in listed if not isinstance(item, Observation)]  # pyright: ignore[reportUnnecessaryIsInstance]
        if not listed or wrong:
            found = f"{wrong[0]!r} is not an Observation" if wrong else "there are none"
            raise InputError(
                "fitting a predictor to observations",
                found,
                "pass Observation(Scale(depth, width, resolution), accuracy) items",
            )
        everywhere = np.array([[*item.scale] for item in listed])
        accuracies = np.array([item.accuracy for item in listed])
        points, where = np.unique(everywhere, axis=0, return_inverse=True)
        where = where.ravel()
        counts = np.bincount(where).astype(float)
        means = np.bincount(where, weights=accuracies) / counts
        return cls(points, means, counts, float(((accuracies - means[where]) ** 2).sum()))

    @property
    def low(self) -> tuple[float, float, float]:
        """The lowest observed value of each axis."""
        depth, width, resolution = (float(x) for x in self.points.min(axis=0))
        return depth, width, resolution

    @property
    def high(self) -> tuple[float, float, float]:
        """The highest observed value of each axis."""
        depth, width, resolution = (float(x) for x in self.points.max(axis=0))
        return depth, width, resolution

    @property
    def steps(self) -> Degrees:
        """How many different values below 1 each axis was observed at."""
        depth, width, resolution = (
            int((np.unique(self.points[:, i]) < 1.0).sum()) for i in range(3)
        )
        return depth, width, resolution

    @property
    def only_axes(self) -> bool:
        """Whether no observation cuts two axes at once."""
        return bool(((self.points < 1.0).sum(axis=1) <= 1).all())

    def problem(self, candidate: Candidate) -> Problem:
        """Set up the fit of one candidate."""
        depth, width, resolution = (observed_low(self.points[:, i]) for i in range(3))
        return Problem.at(
            candidate.form((depth, width, resolution)),
            self.points,
            scores=to_link(self.accuracies, candidate.link),
            weights=self.weights,
            ridge=candidate.ridge,
        )


def _rivals(sample: _Sample) -> list[Candidate]:
    """Return the ways to fit that are worth comparing on this sample, preferred ones first."""
    bounded = bool(sample.accuracies.min() >= 0.0 and sample.accuracies.max() <= 1.0)
    rivals: list[Candidate] = []
    for most in (3, 4, 2):
        depth, width, resolution = (min(most, steps) for steps in sample.steps)
        degree = (depth, width, resolution)
        if bounded:
            rivals += [Candidate("root", 1, degree, ridge) for ridge in (1.0, 0.1, 0.01, 10.0)]
        if most <= 3:
            links: tuple[LinkName, ...] = ("identity",)
            if bounded and not sample.only_axes:
                # On the axes a logit fits as well as anything; only points off them can tell.
                links = ("logit", "identity")
            rivals += [Candidate(link, 1, degree, ridge) for link in links for ridge in (1e-2, 0.0)]
    return list(dict.fromkeys(rivals))


def _asked_for(
    sample: _Sample,
    rank: int | None,
    degree: int | Sequence[int] | None,
    link: LinkName | None,
    ridge: float | None,
) -> Candidate:
    check_link(link or "identity", sample.accuracies)
    rank = 1 if rank is None else rank
    if not is_count(rank, least=1):
        raise InputError(f"rank {rank!r}", "it is not a positive integer", "use 1, as the paper")
    if ridge is not None and finite_number(ridge, "ridge") < 0.0:
        raise InputError(f"ridge {ridge!r}", "it is not a number from 0 up", "use 1e-2, say")
    if rank > 1 and link == "root":
        raise InputError(f"rank {rank} with link 'root'", "that form has no rank", "drop rank")
    if rank > 1 and sample.only_axes and not ridge:
        raise NotIdentifiedError(
            f"a predictor of rank {rank}",
            "every observation cuts one axis only, and on the axes alone a sum of products is "
            "fitted equally well by infinitely many different ones",
            "use rank=1, add observations that cut two axes at once, or give a ridge "
            "(for example ridge=1e-3) to ask for the smallest of them by name",
        )
    return Candidate(link or "identity", int(rank), _three_degrees(degree), ridge or 0.0)


def _three_degrees(degree: int | Sequence[int] | None) -> Degrees:
    given = 3 if degree is None else degree
    listed = tuple(given) if isinstance(given, Sequence) else (given,) * len(AXES)
    if len(listed) != len(AXES) or not all(is_count(k, least=0) and k <= 20 for k in listed):
        raise InputError(
            f"degree {degree!r}",
            "it is neither an integer from 0 to 20 nor one for each axis",
            "use degree=3, or degree=(3, 2, 3) for depth, width and resolution",
        )
    depth, width, resolution = (int(k) for k in listed)
    return depth, width, resolution


@dataclass(frozen=True, slots=True)
class _Fit:
    """A candidate with its leave-one-out error, its parameters [p] and what they leave free."""

    candidate: Candidate
    problem: Problem
    theta: Array
    covariance: Array
    freedom: float

    @classmethod
    def of(cls, sample: _Sample, candidate: Candidate) -> _Fit:
        problem = sample.problem(candidate)
        theta = problem.solve()
        covariance, effective = problem.covariance(theta)
        if len(sample.accuracies) > 1:
            left_out = from_link(problem.left_out_scores(theta), candidate.link)
            rms = float(np.sqrt(np.mean((left_out - sample.accuracies) ** 2)))
            candidate = replace(candidate, leave_one_out=rms)
        return cls(candidate, problem, theta, covariance, sample.weights.sum() - effective)

    def rank_key(self) -> tuple[bool, float]:
        """Sort by leave-one-out error, but after all fits that can still tell their noise."""
        return self.freedom < _PICK_FREEDOM, self.candidate.leave_one_out or 0.0

    def predictor(
        self,
        sample: _Sample,
        *,
        least_noise: float,
        charge: float = 0.0,
        others: Sequence[_Fit] = (),
    ) -> Predictor:
        freedom = self.freedom - charge
        slope = _link_slope(sample.accuracies, self.candidate.link)
        scatter = sample.scatter * slope**2
        squares = float(sample.weights @ self.problem.residuals(self.theta) ** 2) + scatter
        known = freedom >= _MIN_FREEDOM
        return Predictor(
            candidate=self.candidate,
            form=self.problem.form.with_theta(self.theta),
            covariance=self.covariance,
            noise=float(np.sqrt(squares / freedom)) if known else 0.0,
            freedom=float(freedom) if known else 0.0,
            observed=sample.low,
            highest=sample.high,
            ranking=(self.candidate, *(other.candidate for other in others)),
            least_noise=slope * least_noise,
        )


def _link_slope(accuracies: Array, link: LinkName) -> float:
    """Return how far a small change of a typical accuracy moves its score on the link's scale."""
    around = np.clip(float(np.median(accuracies)) + np.array([-1e-4, 1e-4]), 0.0, 1.0)
    if link == "identity":
        return 1.0
    low, high = to_link(around, link)
    return float((high - low) / (around[1] - around[0]))
