"""Owns telling an original that hardly does better than guessing; says so, and refuses nothing."""

from __future__ import annotations

import math

import torch

from triprune.learning.images import ImageSet
from triprune.learning.streaming import StreamedSet
from triprune.run.trainer import ImageTrainer, Trainer

_ERRORS = 2.0


def notes_on_guessing(trainer: Trainer, accuracy: float) -> tuple[str, ...]:
    """Return a note where so many validation images cannot tell the original from guessing.

    Whoever guesses best names the most frequent class of them, always.
    """
    if not isinstance(trainer, ImageTrainer):
        return ()
    images = trainer.splits.validation
    guessed = 1 / len(images.classes)
    if isinstance(images, (ImageSet, StreamedSet)):
        guessed = float(torch.bincount(images.labels).max()) / len(images)
    if accuracy > guessed + _ERRORS * math.sqrt(guessed * (1 - guessed) / len(images)):
        return ()
    return (
        f"the original answers {accuracy:.2%} of the {len(images):,} validation images rightly, "
        f"hardly better than guessing ({guessed:.2%}): were its trained weights given (--weights), "
        "and do its classes come in the data's order?",
    )
