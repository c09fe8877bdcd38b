"""Owns what a run stores: a frozen value for each step; knows of no file (the store does)."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from torch import Tensor

from triprune.core.choice import Choice
from triprune.core.cost import CalibratedCost
from triprune.core.lattice import Lattice
from triprune.core.measured import Judged, Timed
from triprune.core.observation import Observation
from triprune.core.predictor import Predictor
from triprune.core.scale import Axis, Scale
from triprune.network.plan import Plan

Spends = Axis | Literal["joint"]
Parts = tuple[dict[str, Any], dict[str, Tensor]]


@dataclass(frozen=True, slots=True)
class Survey:
    """What is known of the original before any training: its score, costs, integers and blocks."""

    accuracy: float
    macs: int
    params: int
    lattice: Lattice
    cost: CalibratedCost
    block_scores: dict[str, float]
    notes: tuple[str, ...] = ()
    layers: dict[str, int] = field(default_factory=dict[str, int])
    """The channels of every convolution of the original, in its order."""

    def to_parts(self) -> Parts:
        """Return plain values."""
        return asdict(self), {}

    @classmethod
    def from_parts(cls, values: dict[str, Any], tensors: dict[str, Tensor]) -> Survey:
        """Rebuild the survey."""
        del tensors
        cost = {name: tuple(numbers) for name, numbers in values["cost"].items()}
        given: dict[str, Any] = {
            **values,
            "lattice": Lattice(**values["lattice"]),
            "cost": CalibratedCost(**cost),
            "notes": tuple(values["notes"]),
        }
        return cls(**given)


@dataclass(frozen=True, slots=True)
class Epoch:
    """An epoch as it is stored: nothing that a clock says, so that runs can be compared by bits."""

    loss: float
    train_accuracy: float
    accuracy: float | None
    rate: float


@dataclass(frozen=True, slots=True, eq=False)
class TrainedModel:
    """A pruned, fine-tuned model: plan and tensors, its validation accuracy, what it costs."""

    plan: Plan
    tensors: dict[str, Tensor]
    accuracy: float
    macs: int
    params: int
    epochs: int
    history: tuple[Epoch, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def observation(self) -> Observation:
        """What the model teaches the predictor."""
        return Observation(self.plan.realised, self.accuracy, self.macs, self.params)

    def to_parts(self) -> Parts:
        """Return the plan and the measurements as plain values, and the tensors."""
        values = {
            "plan": self.plan.to_json(),
            "accuracy": self.accuracy,
            "macs": self.macs,
            "params": self.params,
            "epochs": self.epochs,
            "history": [asdict(epoch) for epoch in self.history],
            "notes": self.notes,
        }
        return values, self.tensors

    @classmethod
    def from_parts(cls, values: dict[str, Any], tensors: dict[str, Tensor]) -> TrainedModel:
        """Rebuild the trained model."""
        plan = Plan.from_json(values["plan"])
        history = tuple(Epoch(**epoch) for epoch in values.get("history", ()))
        given: dict[str, Any] = {
            **values,
            "plan": plan,
            "tensors": tensors,
            "history": history,
            "notes": tuple(values.get("notes", ())),
        }
        return cls(**given)


@dataclass(frozen=True, slots=True)
class Fitted:
    """The predictor, as an artifact."""

    predictor: Predictor

    def to_parts(self) -> Parts:
        """Return plain values."""
        return self.predictor.to_dict(), {}

    @classmethod
    def from_parts(cls, values: dict[str, Any], tensors: dict[str, Tensor]) -> Fitted:
        """Rebuild the predictor."""
        del tensors
        return cls(Predictor.from_dict(values))


@dataclass(frozen=True, slots=True)
class Chosen:
    """The scale that a budget buys, with the macs that were counted there.

    ``spends`` is "joint" or the one axis that the budget is spent on. ``choice`` is None where
    that axis alone cannot meet the budget; ``note`` says so.
    """

    spends: Spends
    choice: Choice | None
    macs: int = 0
    note: str = ""

    def to_parts(self) -> Parts:
        """Return plain values."""
        return asdict(self), {}

    @classmethod
    def from_parts(cls, values: dict[str, Any], tensors: dict[str, Tensor]) -> Chosen:
        """Rebuild the choice."""
        del tensors
        told = values["choice"]
        given: dict[str, Any] = {**values, "choice": None if told is None else _choice(told)}
        return cls(**given)


def _choice(told: dict[str, Any]) -> Choice:
    lists = {name: tuple(told[name]) for name in ("interval", "binding", "extrapolated")}
    given: dict[str, Any] = {**told, **lists, "scale": Scale(**told["scale"])}
    return Choice(**given)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The last word of a run: original, joint and controls on the test split."""

    budget: float
    rows: tuple[Judged, ...]
    latency_device: str
    epochs: int
    paper_epochs: int
    notes: tuple[str, ...] = ()
    cost: str = "macs"
    """What the budget is a part of."""

    @property
    def models(self) -> int:
        """How many trained models it speaks of."""
        return sum(len(row.accuracies) for row in self.rows)

    def row(self, name: str) -> Judged:
        """Return the line called ``name``."""
        return next(row for row in self.rows if row.name == name)

    def to_parts(self) -> Parts:
        """Return plain values."""
        return asdict(self), {}

    @classmethod
    def from_parts(cls, values: dict[str, Any], tensors: dict[str, Tensor]) -> Outcome:
        """Rebuild the outcome."""
        del tensors
        rows = tuple(map(row_of, values["rows"]))
        given: dict[str, Any] = {**values, "rows": rows, "notes": tuple(values["notes"])}
        return cls(**given)


def row_of(told: dict[str, Any]) -> Judged:
    """Rebuild a line from plain values."""
    accuracies, scale = tuple(told["accuracies"]), Scale(**told["scale"])
    given: dict[str, Any] = {**told, "accuracies": accuracies, "scale": scale}
    return Judged(**given)


@dataclass(frozen=True, slots=True)
class Bench:
    """The models of a run timed in turns, one after the other in every round, on one machine."""

    device: str
    runtime: str
    hardware: str
    threads: int
    versions: dict[str, str]
    date: str
    rows: tuple[Timed, ...]

    def to_parts(self) -> Parts:
        """Return plain values."""
        return asdict(self), {}

    @classmethod
    def from_parts(cls, values: dict[str, Any], tensors: dict[str, Tensor]) -> Bench:
        """Rebuild the measurement."""
        del tensors
        given: dict[str, Any] = {**values, "rows": tuple(Timed(**r) for r in values["rows"])}
        return cls(**given)
