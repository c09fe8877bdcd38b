"""Owns what was measured of finished models, on the test split and by a clock; measures nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev, variance

from triprune.core.scale import Scale


@dataclass(frozen=True, slots=True)
class Judged:
    """A finished model as the test split judged it, over all its seeds, with what it costs."""

    name: str
    scale: Scale
    resolution_px: int
    accuracies: tuple[float, ...]
    macs: int
    params: int
    latency_ms: float

    @property
    def accuracy(self) -> float:
        """The mean over the seeds."""
        return fmean(self.accuracies)

    @property
    def spread(self) -> float | None:
        """The standard deviation over the seeds; None for one."""
        return stdev(self.accuracies) if len(self.accuracies) > 1 else None


def gap_error(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the standard error of the gap between two means over seeds, at least two of each."""
    return math.sqrt(sum(variance(scores) / len(scores) for scores in (one, other)))


def gap_doubt(one: Sequence[float], other: Sequence[float], *, best_of: int = 1) -> float:
    """Return how wide a gap the scatter of seeds explains in 95 % of cases, by Welch's t.

    ``other`` may be the best of several, which had more chances to be lucky (Bonferroni). Scores
    that do not scatter at all say nothing: then any gap is explained.
    """
    from scipy.special import stdtrit  # pyright: ignore[reportMissingTypeStubs]

    error = gap_error(one, other)
    if error == 0.0:
        return math.inf
    parts = [(variance(scores) / len(scores)) ** 2 / (len(scores) - 1) for scores in (one, other)]
    freedom = error**4 / sum(parts)
    return float(stdtrit(freedom, 1 - 0.025 / best_of)) * error


@dataclass(frozen=True, slots=True)
class Timed:
    """One model at one batch size: median and quartiles of a forward pass, and its peak memory.

    ``budget`` is 1 for the original. ``peak_bytes`` is None where it cannot be measured.
    """

    name: str
    budget: float
    batch_size: int
    median_ms: float
    lower_ms: float
    upper_ms: float
    samples: int
    peak_bytes: int | None

    @property
    def images_per_second(self) -> float:
        """The throughput at the median."""
        return 1000 * self.batch_size / self.median_ms


def times_faster(row: Timed, rows: Iterable[Timed]) -> float:
    """Return how many times faster than the original of ``rows``, at the same batch size."""
    wholes = (each for each in rows if each.name == "original")
    original = next(each for each in wholes if each.batch_size == row.batch_size)
    return original.median_ms / row.median_ms
