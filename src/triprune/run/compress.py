"""Owns the whole job in one call, from Python; the command line runs the same pipeline."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from torch import nn

from triprune.core.budget import read_budget
from triprune.errors import InputError
from triprune.learning.data import DataSource, load_data
from triprune.learning.images import Splits
from triprune.learning.progress import Watcher
from triprune.places import Place
from triprune.run.pipeline import Pipeline
from triprune.run.result import Result
from triprune.run.spec import Settings
from triprune.run.steps import Case
from triprune.run.store import Store
from triprune.run.subject import Subject
from triprune.run.trainer import ImageTrainer, Trainer


def compress(
    model: nn.Module,
    data: DataSource | Splits | Trainer,
    *,
    budget: float | str,
    settings: Settings | None = None,
    out: str | Place | None = None,
    watchers: Sequence[Watcher] = (),
) -> Result:
    """Return ``model`` made smaller: the best depth, width and resolution within ``budget``.

    ``data`` is what ``load_data`` takes or returns, or, for any task with one score,
    ``OwnTraining(train, evaluate, input_size)``. With ``out``, a call that was interrupted goes on
    where it was. ``settings`` say how; their own budget gives way to ``budget``.
    """
    remaining = read_budget(budget)
    chosen = Settings(remaining) if settings is None else replace(settings, budget=remaining)
    if isinstance(data, (str, Path, tuple)):
        data = load_data(data)
    if isinstance(data, Splits):
        data = ImageTrainer(data, chosen.spent_recipe, chosen.device, watchers)
    case = Case(checked_subject(model, data), data, chosen)
    if out is not None:
        return Pipeline(case, Store(out)).run()
    with tempfile.TemporaryDirectory(prefix="triprune-") as folder:
        return Pipeline(case, Store(folder)).run()


def checked_subject(model: nn.Module, trainer: Trainer) -> Subject:
    """Return the model as a subject; refuse one that does not tell the data's classes apart."""
    subject = Subject(model, trainer.input_size)
    if isinstance(trainer, ImageTrainer):
        classes = len(trainer.splits.train.classes)
        answered = subject.answers()
        if answered != classes:
            raise InputError(
                f"training a {type(model).__name__} on {classes} classes",
                f"it gives {answered} answers" if answered else "it gives no logits, N×classes",
                f"build it with num_classes={classes}",
            )
    return subject
