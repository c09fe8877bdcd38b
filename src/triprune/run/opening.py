"""Owns the way from a spec to a case: model, weights and data, checked before any training."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from triprune.errors import InputError
from triprune.learning.data import load_data
from triprune.learning.loading import Reading
from triprune.learning.models import build_model
from triprune.learning.normalisation import card_normalisation
from triprune.learning.progress import Watcher
from triprune.learning.weights import load_weights
from triprune.run.compress import checked_subject
from triprune.run.spec import RunSpec
from triprune.run.steps import Case
from triprune.run.trainer import ImageTrainer


def open_case(spec: RunSpec, watchers: Sequence[Watcher] = ()) -> Case:
    """Build the model, load its weights and the data; whatever is wrong with them is told here."""
    settings = spec.settings
    own_file = ".py:" in spec.model
    model = build_model(spec.model)
    if spec.weights is None and not own_file:
        raise InputError(
            f"pruning {spec.model}",
            "without weights it is not a trained model",
            "give --weights FILE.safetensors",
        )
    splits = load_data(spec.data, _reading(spec, model), seed=settings.seed)
    if not own_file:
        model = build_model(spec.model, num_classes=len(splits.train.classes))
    if spec.weights is not None:
        load_weights(model, spec.weights)
    trainer = ImageTrainer(splits, settings.spent_recipe, settings.device, watchers)
    return Case(checked_subject(model, trainer), trainer, settings, spec)


def _reading(spec: RunSpec, model: nn.Module) -> Reading:
    first = next((m for m in model.modules() if isinstance(m, nn.Conv2d)), None)
    channels = 1 if first is not None and first.in_channels == 1 else 3
    card = card_normalisation(model) if channels == 3 else None
    return Reading(spec.resolution_px, channels=channels, normalisation=card)
