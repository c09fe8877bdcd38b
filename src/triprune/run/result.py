"""Owns what a run hands back: the smaller model with its plan, and how it compares."""

from __future__ import annotations

import copy
import tempfile
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from triprune.core.choice import Choice
from triprune.files import copy_files
from triprune.network.plan import Plan
from triprune.places import Place, RemotePath
from triprune.run.about import About
from triprune.run.artifacts import Chosen, Outcome, TrainedModel
from triprune.run.card import write_card
from triprune.run.steps import restore
from triprune.saving import PLAN_FILE, save


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """The smaller model, fine-tuned, with the plan that makes it and its test accuracy.

    ``accuracy`` is the mean over the seeds; ``model`` is the first seed's. ``outcome`` holds the
    whole comparison: original, joint and controls.
    """

    model: nn.Module
    choice: Choice
    plan: Plan
    outcome: Outcome
    about: About
    original: nn.Module

    def __repr__(self) -> str:
        """Return what matters, in a line."""
        share = self.macs / self.outcome.row("original").macs
        return (
            f"Result({type(self.model).__name__} at {self.choice.scale}, "
            f"{self.plan.resolution_px} px, macs={self.macs:,} ({share:.1%}), "
            f"accuracy={self.accuracy:.4g})"
        )

    @classmethod
    def of(
        cls,
        original: nn.Module,
        chosen: Chosen,
        *,
        trained: TrainedModel,
        outcome: Outcome,
        about: About,
    ) -> Result:
        """Return the result of a run from its last artifacts."""
        assert chosen.choice is not None
        model = restore(original, trained)
        return cls(model, chosen.choice, trained.plan, outcome, about, original)

    @property
    def accuracy(self) -> float:
        """Accuracy on the test split."""
        return self.outcome.row("joint").accuracy

    @property
    def macs(self) -> int:
        """Macs of the smaller model at its resolution."""
        return self.outcome.row("joint").macs

    def save_in(self, folder: Place) -> Place:
        """Save to a folder that may be remote."""
        if not isinstance(folder, RemotePath):
            return self.save(folder)
        with tempfile.TemporaryDirectory(prefix="triprune-") as near:
            return copy_files(self.save(near), folder, last=PLAN_FILE)

    def save(self, folder: str | Path) -> Path:
        """Write plan, weights and a model card to ``folder``; ``triprune.load`` reads them."""
        home = save(self.model, self.plan, folder, build=lambda: copy.deepcopy(self.original))
        write_card(self.about, home)
        return home
