"""Owns telling whether validation images can judge the original, or were learned by it."""

from __future__ import annotations

import copy
import math

import torch
from torch import nn

from triprune.learning.weights import weights_card
from triprune.run.image_facts import differing, trained_on
from triprune.run.spec import RunSpec
from triprune.run.trainer import ImageTrainer, Task, Trainer

_LEARNED = 0.97  # below this, having seen an image or not makes little difference to the answer
_REMEDY = 'validate on images taken out of the test part: validation = "test:2000", for example'


def notes_before(
    trainer: Trainer, spec: RunSpec | None, model: nn.Module, accuracy: float
) -> tuple[str, ...]:
    """Return what the images' division and the weights' own card say before anything is trained.

    ``accuracy`` is the original's on the validation images. Weights without a card betray having
    learned those images only where they know the training images by heart: then they answer the
    validation images as well.
    """
    if not isinstance(trainer, ImageTrainer):
        return ()
    notes = trainer.splits.notes
    card = None if spec is None or spec.weights is None else weights_card(spec.weights)
    if card is not None:
        if not differing(card, trained_on(trainer.splits.train)):
            return notes
        told = (
            "the weights were trained on other images than this run's training images; if the "
            f"validation images were among them, the observations are too high: {_REMEDY}"
        )
        return (*notes, told)
    trained = _accuracy_on_train(trainer, model)
    if trained >= _LEARNED and trained - accuracy < 3 * _error(trained, accuracy, trainer):
        told = (
            f"the original answers {accuracy:.2%} of the validation and {trained:.2%} of the "
            "training images rightly: it seems to have been trained on both, and then the "
            f"observations are too high. If so, {_REMEDY}"
        )
        return (*notes, told)
    return notes


def notes_after(trainer: Trainer, validated: float, tested: float) -> tuple[str, ...]:
    """Return what the opened test split says of the validation images."""
    if not isinstance(trainer, ImageTrainer):
        return ()
    counts = len(trainer.splits.validation), len(trainer.splits.test)
    error = math.sqrt(tested * (1 - tested) * sum(1 / count for count in counts))
    if validated - tested <= 4 * error:
        return ()
    told = (
        f"the original has {validated:.2%} on the validation images and {tested:.2%} on the test: "
        f"validation flattered every observation, as learned images do; {_REMEDY}"
    )
    return (told,)


def _accuracy_on_train(trainer: ImageTrainer, model: nn.Module) -> float:
    """Return the accuracy on as many training images, spread over all of them."""
    images = trainer.splits.train
    count = min(len(images), len(trainer.splits.validation))
    some = images.take(torch.linspace(0, len(images) - 1, count).long())
    task = Task("original", copy.deepcopy(model), images.resolution_px)
    return trainer.measure_on(task, some)


def _error(one: float, other: float, trainer: ImageTrainer) -> float:
    """Return the standard error of a difference between two scores that are truly the same.

    One more mistake than was seen keeps it above zero where hardly any was made.
    """
    count = len(trainer.splits.validation)
    wrong = (count * (2 - one - other) + 1) / (2 * count + 2)
    return math.sqrt(wrong * (1 - wrong) * 2 / count)
