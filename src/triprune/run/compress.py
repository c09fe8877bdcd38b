"""Owns the whole job in one call, from Python; the command line runs the same pipeline."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, overload

from torch import nn

from triprune.core.budget import run_budget
from triprune.errors import InputError
from triprune.learning.data import DataSource
from triprune.learning.images import Splits
from triprune.learning.progress import Watcher
from triprune.network.hardware import require_device
from triprune.places import Place
from triprune.run.case import Case
from triprune.run.data import data_for
from triprune.run.own_training import OwnTraining
from triprune.run.pipeline import Pipeline
from triprune.run.result import Result
from triprune.run.spec import Settings
from triprune.run.store import Store
from triprune.run.subject import Subject
from triprune.run.trainer import ImageTrainer, Trainer

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from triprune.run.own_training import OwnFunctions


@overload
def compress(
    model: nn.Module,
    data: DataSource | Splits | Trainer,
    *,
    budget: float | str,
    settings: Settings | None = None,
    out: str | Place | None = None,
    watchers: Sequence[Watcher] = (),
) -> Result: ...


@overload
def compress(
    model: nn.Module,
    *,
    budget: float | str,
    settings: Settings | None = None,
    out: str | Place | None = None,
    watchers: Sequence[Watcher] = (),
    **own: Unpack[OwnFunctions],
) -> Result: ...


def compress(
    model: nn.Module,
    data: DataSource | Splits | Trainer | None = None,
    *,
    budget: float | str,
    settings: Settings | None = None,
    out: str | Place | None = None,
    watchers: Sequence[Watcher] = (),
    **own: Any,
) -> Result:
    """Return ``model`` made smaller: the best depth, width and resolution within ``budget``.

    ``data`` is what ``load_data`` takes or returns. A folder, a name or a pair is read as by
    ``triprune run``: divided by the settings' seed, and normalised by the card of a torchvision or
    timm model. No other model tells what it was trained with: its images are normalised by their
    own mean and std. Where weights expect something else, give what ``load_data`` returns, which
    stays as it is.

    For any other task with one score, give ``train=`` and ``evaluate=`` instead, functions of a
    model and a resolution, with ``input_size=`` (``OwnTraining`` says more). With ``out``, a call
    that was interrupted goes on where it was. ``settings`` say how; their own budget gives way to
    ``budget``.
    """
    if not isinstance(model, nn.Module):  # pyright: ignore[reportUnnecessaryIsInstance]
        asked = f"compressing a {type(model).__name__}"
        raise InputError(asked, "it is not a torch.nn.Module", "give the model itself")
    if not isinstance(settings, (Settings, NoneType)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"settings={settings!r}", "they are no Settings", "pass Settings(budget)")
    remaining = run_budget(budget)
    chosen = Settings(remaining) if settings is None else replace(settings, budget=remaining)
    trainer = _trainer(model, data, own, settings=chosen, watchers=watchers)
    case = Case(checked_subject(model, trainer, chosen), trainer, chosen)
    if out is not None:
        return Pipeline(case, Store(out)).run()
    with tempfile.TemporaryDirectory(prefix="triprune-") as folder:
        return Pipeline(case, Store(folder)).run()


def _trainer(
    model: nn.Module,
    data: DataSource | Splits | Trainer | None,
    own: Mapping[str, Any],
    *,
    settings: Settings,
    watchers: Sequence[Watcher],
) -> Trainer:
    """Return who trains: what was given, the recipe on images, or the user's functions."""
    unknown = sorted(set(own) - {each.name for each in fields(OwnTraining)})
    if unknown:
        raise InputError(
            f"compress with {', '.join(f'{name}=' for name in unknown)}",
            "it takes no such argument",
            "how to prune and train goes into settings=triprune.Settings(budget, rounds=2), "
            "for example",
        )
    if (data is None) != bool(own):
        raise InputError(
            "compressing a model",
            "there is nothing to train it with" if data is None else "data and train= both say how",
            "give data, or train=, evaluate= and input_size=",
        )
    if data is None:
        return OwnTraining.of(model, own)
    if isinstance(data, (str, Path, tuple)):
        data = data_for(model, data, seed=settings.seed)
    if not isinstance(data, Splits) and not hasattr(data, "fine_tune"):
        raise InputError(
            f"data of type {type(data).__name__}",
            "it is neither a pair of data sets nor what load_data takes or returns",
            "pass (train, test), two torch Datasets, or the path of a folder of images",
        )
    if isinstance(data, Splits):
        recipe, planned = settings.spent_recipe, settings.planned_epochs
        return ImageTrainer(data, recipe, settings.device, watchers, planned_epochs=planned)
    return data


def checked_subject(model: nn.Module, trainer: Trainer, settings: Settings) -> Subject:
    """Return the model as a subject; refuse one that does not tell the data's classes apart."""
    if settings.device is not None:
        require_device(settings.device, "a run")
    subject = Subject(model, trainer.input_size, settings.importance, round_to=settings.round_to)
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
