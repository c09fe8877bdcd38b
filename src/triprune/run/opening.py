"""Owns the way from a spec to a case: model, weights and data, checked before any training."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from triprune.errors import InputError
from triprune.learning.deadline import Deadline
from triprune.learning.images import Splits
from triprune.learning.models import build_model
from triprune.learning.progress import Watcher
from triprune.learning.training import model_randomness
from triprune.learning.weights import load_weights
from triprune.run.case import Case
from triprune.run.compress import checked_subject
from triprune.run.data import data_for
from triprune.run.spec import RunSpec
from triprune.run.trainer import ImageTrainer


def open_case(
    spec: RunSpec, watchers: Sequence[Watcher] = (), deadline: Deadline | None = None
) -> Case:
    """Build the model, load its weights and the data; whatever is wrong with them is told here."""
    settings = spec.settings
    if spec.weights is None and not _own_file(spec):
        build_model(spec.model)  # a name that leads nowhere is told first
        raise InputError(
            f"pruning {spec.model}",
            "without weights it is not a trained model",
            "give --weights FILE.safetensors",
        )
    model, splits = open_parts(spec)
    if spec.weights is not None:
        load_weights(model, spec.weights)
    trainer = ImageTrainer(
        splits,
        settings.spent_recipe,
        settings.device,
        watchers,
        deadline,
        planned_epochs=settings.planned_epochs,
    )
    subject = checked_subject(model, trainer, settings)
    return Case(subject, trainer, settings, spec)


def open_parts(spec: RunSpec) -> tuple[nn.Module, Splits]:
    """Return the model, untrained and with as many answers as the data has classes, and the data.

    Weights begin at random from the run's seed, and the images are divided by it.
    """
    seed = spec.settings.seed
    with model_randomness(seed):
        model = build_model(spec.model)
    splits = data_for(
        model,
        spec.data,
        seed=seed,
        validation=spec.validation,
        resolution_px=spec.resolution_px,
        normalisation=spec.normalisation,
    )
    if not _own_file(spec):
        with model_randomness(seed):
            model = build_model(spec.model, num_classes=len(splits.train.classes))
    return model, splits


def _own_file(spec: RunSpec) -> bool:
    return ".py:" in spec.model
