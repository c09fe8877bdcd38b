"""Owns the estimate before a run: models, epochs and seconds; trains only a throwaway copy."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

import torch

from triprune.core.cost import paper_cost
from triprune.core.scale import AXES
from triprune.learning.images import ImageSet
from triprune.learning.job import Job
from triprune.learning.training import train
from triprune.run.artifacts import Survey
from triprune.run.case import Case
from triprune.run.steps import targets_of
from triprune.run.trainer import ImageTrainer

_BATCHES = 2


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run will do from its beginning; ``seconds`` is None where the speed is unknown."""

    rounds: int
    finals: int
    epochs: int
    seconds: float | None


def estimate(case: Case, known: Survey) -> Estimate:
    """Count the trainings and time a few batches of the original."""
    targets = targets_of(case.settings, known)
    scales = [scale for axis in AXES for scale in targets.targets(axis)]
    controls = 4 if case.settings.controls else 1
    finals = controls * case.settings.seeds
    a_round, a_final = case.trainer.epochs(False), case.trainer.epochs(True)
    # A smaller model takes about its share of the macs, on a machine that is kept busy.
    part = known.cost if case.settings.cost == "macs" else paper_cost
    whole = a_round * sum(map(part, scales)) + a_final * finals * case.settings.budget
    speed = _seconds_per_epoch(case)
    return Estimate(
        rounds=len(scales),
        finals=finals,
        epochs=a_round * len(scales) + a_final * finals,
        seconds=None if speed is None else whole * speed,
    )


def _seconds_per_epoch(case: Case) -> float | None:
    trainer = case.trainer
    if case.settings.executor == "ray":
        return None  # this machine may be of another kind than those that train
    if not isinstance(trainer, ImageTrainer) or not isinstance(trainer.splits.train, ImageSet):
        return None
    images = trainer.splits.train
    recipe = replace(trainer.recipe, epochs=2, warmup_epochs=0.0)
    few = images.take(torch.arange(min(len(images), _BATCHES * recipe.batch_size)))
    model = case.subject.model
    teacher = copy.deepcopy(model) if recipe.distillation else None
    job = Job(copy.deepcopy(model), few, recipe, teacher=teacher, device=trainer.device)
    return len(images) / train(job).history[-1].images_per_second
