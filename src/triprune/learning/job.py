"""Owns what a training is asked for, and what it returns; refuses the sealed test split."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import nn

from triprune.errors import InputError
from triprune.learning.images import ImageSet, ImageStream, SealedTest
from triprune.learning.progress import EpochRecord
from triprune.learning.recipe import Recipe
from triprune.learning.teaching import Answers
from triprune.places import Place

Stop = Callable[[EpochRecord], bool]


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """One training: ``model`` is trained in place and stays on ``device``.

    ``device`` is a GPU if there is one. With ``checkpoint``, every ``checkpoint_every`` epochs are
    saved there and a job started again goes on from it. Every ``validate_every`` epochs, and after
    the last, the model is measured on ``validation``. ``teacher``, or its remembered answers to
    these images, is used if the recipe's ``distillation`` is above zero.
    """

    model: nn.Module
    images: ImageSet | ImageStream
    recipe: Recipe
    name: str = "training"
    validation: ImageSet | ImageStream | None = None
    resolution_px: int | None = None
    seed: int = 0
    teacher: nn.Module | Answers | None = None
    checkpoint: Place | None = None
    checkpoint_every: int = 1
    validate_every: int = 1
    device: torch.device | str | None = None

    def __post_init__(self) -> None:
        for name in ("images", "validation"):
            if isinstance(getattr(self, name), SealedTest):
                raise InputError(
                    f"training with {name}",
                    "it is the sealed test split",
                    "give images cut from the training data; the test goes to evaluate_final alone",
                )
        for name in ("checkpoint_every", "validate_every"):
            if (given := getattr(self, name)) < 1:
                raise InputError(f"{name} = {given}", "it is no count of epochs", "give 1 or more")
        if self.recipe.distillation and self.teacher is None:
            raise InputError(
                f"distillation = {self.recipe.distillation:g}",
                "there is no teacher",
                "give the original model as teacher, or distillation = 0",
            )
        if isinstance(self.teacher, Answers):
            self.teacher.require_for(self.images, self.recipe)


@dataclass(frozen=True, slots=True, eq=False)
class TrainResult:
    """What came of a job. ``finished`` is False where it was stopped before its last epoch."""

    model: nn.Module
    history: tuple[EpochRecord, ...]
    finished: bool
    engine: str
    notes: tuple[str, ...] = field(default=())

    @property
    def accuracy(self) -> float | None:
        """Accuracy on the validation images after the last epoch (not the best of all)."""
        return self.history[-1].accuracy if self.history else None
