"""Owns the estimate before a run: models, epochs and seconds; trains only a throwaway copy."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

import torch

from triprune.core.cost import paper_cost
from triprune.learning.images import ImageSet
from triprune.learning.job import Job
from triprune.learning.training import train
from triprune.run.artifacts import Survey
from triprune.run.case import Case
from triprune.run.due import Left
from triprune.run.trainer import ImageTrainer

_BATCHES = 2


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run has left to do; ``seconds`` is None where the speed is unknown."""

    rounds: int
    finals: int
    epochs: int
    seconds: float | None


def estimate(case: Case, known: Survey, left: Left) -> Estimate:
    """Count the epochs that are left and time a few batches of the original."""
    a_round, a_final = case.trainer.epochs(False), case.trainer.epochs(True)
    # A smaller model takes about its share of the macs, on a machine that is kept busy.
    part = known.cost if case.settings.cost == "macs" else paper_cost
    whole = a_round * sum(map(part, left.rounds)) + a_final * left.finals * left.budget
    epochs = a_round * len(left.rounds) + a_final * left.finals
    speed = _seconds_per_epoch(case) if epochs else None
    return Estimate(
        rounds=len(left.rounds),
        finals=left.finals,
        epochs=epochs,
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
