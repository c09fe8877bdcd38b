"""Owns what a report can show: plain values, every part of them optional; draws nothing.

Whoever has results fills in a ``Report``: a run folder, finished or not, or a CSV of observations.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from triprune.core.choice import Quote
from triprune.core.cost import CalibratedCost, paper_cost
from triprune.core.lattice import Lattice
from triprune.core.measured import Judged, Timed
from triprune.core.observation import Observation
from triprune.core.predictor import Predictor
from triprune.report.amounts import Spending

Pixels = NDArray[np.uint8]
Map = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class SpeedTest:
    """Models timed in turns on one machine."""

    device: str
    runtime: str
    machine: str
    date: str
    rows: tuple[Timed, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Original, joint and controls at one budget; ``device`` is where latency was measured."""

    budget: float
    models: tuple[Judged, ...]
    device: str
    epochs: int
    paper_epochs: int

    def model(self, name: str) -> Judged | None:
        """Return the model called ``name``, if it is there."""
        return next((each for each in self.models if each.name == name), None)

    @property
    def controls(self) -> tuple[Judged, ...]:
        """The models that spend the budget on one axis."""
        return tuple(each for each in self.models if each.name not in ("original", "joint"))


@dataclass(frozen=True, slots=True)
class LearningCurve:
    """The epochs of one fine-tuning. ``group`` is the axis of a chain, or "final"."""

    name: str
    group: str
    losses: tuple[float, ...]
    accuracies: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Layer:
    """A convolution of the original and the channels that the plan keeps; 0: it is gone."""

    name: str
    whole: int
    kept: int


@dataclass(frozen=True, slots=True)
class Surgery:
    """What the joint plan cuts. ``blocks`` are all that could go, with their scores."""

    layers: tuple[Layer, ...] = ()
    blocks: tuple[tuple[str, float], ...] = ()
    removed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class Gallery:
    """The last convolution's maps by model, on the same images (n×h×w×c)."""

    images: Pixels
    labels: tuple[str, ...]
    maps: dict[str, Map]
    likeness: dict[str, float]
    compared: int


@dataclass(frozen=True, slots=True, eq=False)
class Report:
    """All that is known of a run so far, or of a file of observations.

    ``subject`` names what was pruned, ``state`` says how far it is. ``finished`` holds a
    comparison for each budget, the one that the report is about first; ``chosen`` the run's own
    choices, at the cost that was measured. ``facts`` are pairs of a name and a value.
    """

    subject: str
    state: str
    predictor: Predictor | None = None
    observations: tuple[Observation, ...] = ()
    cost: CalibratedCost = paper_cost
    lattice: Lattice | None = None
    spending: Spending = field(default_factory=Spending)
    chosen: tuple[Quote, ...] = ()
    finished: tuple[Comparison, ...] = ()
    speed: tuple[SpeedTest, ...] = ()
    curves: tuple[LearningCurve, ...] = ()
    surgery: Surgery = field(default_factory=Surgery)
    gallery: Gallery | None = None
    notes: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()

    @property
    def comparison(self) -> Comparison | None:
        """The finished comparison that the report is about."""
        return self.finished[0] if self.finished else None

    @property
    def in_percent(self) -> bool:
        """Whether all scores are fractions, to be written as percentages."""
        scores = [item.accuracy for item in self.observations]
        scores += [a for c in self.finished for m in c.models for a in m.accuracies]
        return all(0.0 <= score <= 1.0 for score in scores)

    @property
    def cost_error(self) -> float | None:
        """How far the fitted cost is off, at most, on the models that were measured."""
        if self.spending.by == "paper":
            return None
        known = [(item.scale, self.spending.paid(item)) for item in self.observations]
        known += [(quote.choice.scale, quote.choice.cost) for quote in self.chosen]
        return max((abs(self.cost(s) / paid - 1.0) for s, paid in known if paid), default=None)

    def share(self, model: Judged, original: Judged) -> float:
        """Return the part of the original's cost that a finished model has, as it was measured."""
        pairs = {
            "macs": (model.macs, original.macs),
            "params": (model.params, original.params),
            "latency": (model.latency_ms, original.latency_ms),
        }
        spent = pairs.get(self.spending.by)
        return spent[0] / spent[1] if spent else self.cost(model.scale)
