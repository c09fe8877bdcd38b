"""Owns the predictor seen along one axis at a time, beside the observations made there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from triprune.core.observation import Observation
from triprune.core.predictor import Predictor
from triprune.core.scale import AXES, Axis, Scale

_STEPS = 40


@dataclass(frozen=True, slots=True)
class Seen:
    """An observation on the slice, and what the predictor says there."""

    kept: float
    accuracy: float
    predicted: float

    @property
    def residual(self) -> float:
        """How far the observation lies above the prediction."""
        return self.accuracy - self.predicted


@dataclass(frozen=True, slots=True)
class Slice:
    """Predicted accuracy along one axis, the others whole, with its 90 % interval."""

    axis: Axis
    kept: tuple[float, ...]
    accuracy: tuple[float, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    seen: tuple[Seen, ...]


def slices(predictor: Predictor, observations: Sequence[Observation]) -> tuple[Slice, ...]:
    """Return a slice for every axis that was observed below full scale."""
    lows = zip(AXES, predictor.observed, strict=True)
    return tuple(_slice(predictor, observations, axis, low) for axis, low in lows if low < 1.0)


def _slice(
    predictor: Predictor, observations: Sequence[Observation], axis: Axis, low: float
) -> Slice:
    kept = [float(x) for x in np.linspace(low, 1.0, _STEPS + 1)]
    scales = [Scale.along(axis, x) for x in kept]
    ends = [predictor.interval(scale) for scale in scales]
    on_axis = [item for item in observations if set(item.scale.cut_axes()) <= {axis}]
    return Slice(
        axis=axis,
        kept=tuple(kept),
        accuracy=tuple(predictor(scale) for scale in scales),
        lower=tuple(end[0] for end in ends),
        upper=tuple(end[1] for end in ends),
        seen=tuple(
            Seen(getattr(item.scale, axis), item.accuracy, predictor(item.scale))
            for item in on_axis
        ),
    )
