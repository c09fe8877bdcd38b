"""Owns what a run is about: the original, who trains it, and the settings; what it depends on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from triprune.network.hardware import device_name
from triprune.run.costing import Meter
from triprune.run.spec import RunSpec, Settings
from triprune.run.subject import Subject
from triprune.run.trainer import Trainer


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """What every step is given: the original, who trains it, and the settings."""

    subject: Subject
    trainer: Trainer
    settings: Settings
    spec: RunSpec | None = None
    _meters: dict[frozenset[tuple[str, float]], Meter] = field(
        default_factory=dict[frozenset[tuple[str, float]], Meter], init=False
    )

    @property
    def device(self) -> str:
        """Where models are trained and timed."""
        return self.settings.device or ("cuda" if torch.cuda.is_available() else "cpu")

    def meter(self, block_scores: Mapping[str, float]) -> Meter:
        """Return what tells the cost of a scale, shared by all choices: none is timed twice."""
        known = frozenset(block_scores.items())
        if known not in self._meters:
            self._meters[known] = Meter(self.subject, block_scores, self.settings.cost, self.device)
        return self._meters[known]

    def facts(self) -> dict[str, Any]:
        """Return what every stored result depends on; the spec is only kept for later commands."""
        facts = {**self.subject.facts(), **self.trainer.facts()}
        facts["settings"] = self.settings.deciding()
        if self.settings.cost == "latency":
            facts["device"] = device_name(self.device)
        return facts if self.spec is None else {**facts, "spec": self.spec.to_mapping()}
