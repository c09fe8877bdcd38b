"""Owns what the pipeline asks of a training, and the answer for labelled images.

A trainer sees one task at a time and knows nothing of chains, choices or files. Its fine-tuning
is a generator that gives way, so that an executor can run several at once.
"""

from __future__ import annotations

import copy
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch
from torch import nn

from triprune.core.scale import Scale
from triprune.errors import InputError
from triprune.learning.deadline import Deadline, time_is_up
from triprune.learning.evaluation import evaluate, evaluate_final
from triprune.learning.images import ImageSet, ImageStream, Splits
from triprune.learning.job import Job
from triprune.learning.precision import resolved_precision
from triprune.learning.probe import block_scores, probe_blocks
from triprune.learning.progress import EpochRecord, Watcher
from triprune.learning.ranks import current_ranks
from triprune.learning.recipe import Recipe
from triprune.learning.streaming import StreamedSet
from triprune.learning.teaching import Answers, Memory, worth_remembering
from triprune.learning.training import Training
from triprune.network.plan import Plan
from triprune.places import Place
from triprune.run.image_facts import facts_of
from triprune.run.widths import suiting_multiple, widening_for


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A model at a scale, to be fine-tuned in place or measured at ``resolution_px``.

    A recipe that distils learns from ``original``, which stays as it is; ``plan`` made the model
    of it.
    """

    name: str
    model: nn.Module
    resolution_px: int
    scale: Scale = field(default_factory=Scale)
    final: bool = False
    seed: int = 0
    checkpoint: Place | None = None
    original: nn.Module | None = None
    plan: Plan | None = None


@dataclass(frozen=True, slots=True)
class Tuned:
    """What came of a fine-tuning: the validation score, and every epoch where they are known.

    ``notes`` are for the result of the run, such as images that could not be read.
    """

    accuracy: float
    history: tuple[EpochRecord, ...] = ()
    notes: tuple[str, ...] = ()


class Trainer(Protocol):
    """Fine-tunes and measures; one score, higher is better."""

    @property
    def input_size(self) -> tuple[int, int, int]:
        """Channels and sides of the images at full resolution."""
        ...

    @property
    def judges(self) -> int | None:
        """How many images the score of ``validate`` is counted on; None where it is no count."""
        ...

    def facts(self) -> Mapping[str, Any]:
        """Return what a stored score depends on, by name and fit for JSON."""
        ...

    def epochs(self, final: bool) -> int:
        """Return the epochs of a round, or of the final fine-tuning."""
        ...

    def fine_tune(self, task: Task) -> Generator[None, None, Tuned]:
        """Train the task's model in place; give way often."""
        ...

    def validate(self, task: Task) -> float:
        """Return the score that chains and choices may see."""
        ...

    def test(self, task: Task) -> float:
        """Return the score that only the last step sees."""
        ...

    def block_scores(self, model: nn.Module, blocks: Sequence[str]) -> dict[str, float] | None:
        """Return what each block is worth, or None where that cannot be told."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class ImageTrainer:
    """Fine-tunes classifiers on the training images by a recipe; on a GPU if there is one.

    ``planned_epochs`` are all those of the fine-tunings to come: with many of them, a GPU asks the
    original about every view of every image once, and remembers what it said.
    """

    splits: Splits
    recipe: Recipe
    device: str | None = None
    watchers: Sequence[Watcher] = ()
    deadline: Deadline | None = None
    checkpoint_every: int = 1
    validate_every: int = 1
    planned_epochs: int = 0
    width_multiple: int | None = None
    """Pruned models train at multiples of so many channels; None is what suits the precision."""
    memory: Memory = field(default_factory=Memory, repr=False)

    @property
    def input_size(self) -> tuple[int, int, int]:
        """Channels and sides of the images at full resolution."""
        side = self.splits.train.resolution_px
        return len(self.splits.train.mean), side, side

    @property
    def judges(self) -> int:
        """How many validation images there are."""
        return len(self.splits.validation)

    def facts(self) -> Mapping[str, Any]:
        """Return the fingerprints of the images, the sealed test's among them."""
        return facts_of(self.splits)

    def epochs(self, final: bool) -> int:
        """Return the recipe's epochs."""
        return self.recipe.fine_tuning(final=final).epochs

    def fine_tune(self, task: Task) -> Generator[None, None, Tuned]:
        """Train by the recipe, going on after the checkpoint's last epoch."""
        over = self.deadline is not None and self.deadline.over
        if current_ranks().as_lead_says(over):
            raise time_is_up(f"training {task.name}")
        recipe = self.recipe.fine_tuning(final=task.final)
        wider = widening_for(task, self.width_multiple or self._suiting_multiple())
        model = task.model if wider is None else wider.widened(task.model.state_dict())
        job = Job(
            model,
            self.splits.train,
            recipe,
            name=task.name,
            validation=self.splits.validation,
            resolution_px=task.resolution_px,
            seed=task.seed,
            teacher=self._teacher(task.original, recipe),
            checkpoint=task.checkpoint,
            checkpoint_every=self.checkpoint_every,
            validate_every=self.validate_every,
            device=self._device(),
        )
        result = yield from Training(job, self.watchers, self.deadline).run()
        if not result.finished:
            raise time_is_up(f"training {task.name}")
        assert result.accuracy is not None
        if wider is not None:
            task.model.load_state_dict(wider.narrowed(model.state_dict()))
        return Tuned(result.accuracy, result.history, result.notes)

    def validate(self, task: Task) -> float:
        """Return top-1 accuracy on the validation images."""
        return self.measure_on(task, self.splits.validation)

    def measure_on(self, task: Task, images: ImageSet | ImageStream) -> float:
        """Return top-1 accuracy on any images but the test's."""
        model = task.model.to(self._device())
        return evaluate(model, images, resolution_px=task.resolution_px).accuracy

    def test(self, task: Task) -> float:
        """Open the test split and return top-1 accuracy on it."""
        model = task.model.to(self._device())
        return evaluate_final(model, self.splits.test, resolution_px=task.resolution_px).accuracy

    def block_scores(self, model: nn.Module, blocks: Sequence[str]) -> dict[str, float] | None:
        """Return linear-probe importance, or None where a block is no module that can be probed."""
        images = self.splits.train, self.splits.validation
        try:
            probed = model.to(self._device())
            return block_scores(probe_blocks(probed, blocks, train=images[0], validation=images[1]))
        except InputError:
            return None

    def _teacher(self, original: nn.Module | None, recipe: Recipe) -> nn.Module | Answers | None:
        if original is None or not recipe.distillation:
            return None
        device, images = self._device(), self.splits.train
        epochs = self.planned_epochs // current_ranks().world  # a table is of all images everywhere
        known = None
        if device.type == "cuda" and worth_remembering(images, recipe, epochs):
            known = self._answers(original, images, recipe)
        return copy.deepcopy(original) if known is None else known

    def _answers(self, original: nn.Module, images: ImageSet, recipe: Recipe) -> Answers | None:
        device = self._device()
        exact = replace(recipe, precision=resolved_precision(recipe.precision, device))
        return self.memory.recall(original, images, exact, device)

    def _suiting_multiple(self) -> int:
        device = self._device()
        return suiting_multiple(device, resolved_precision(self.recipe.precision, device))

    def _device(self) -> torch.device:
        return torch.device(self.device or ("cuda" if torch.cuda.is_available() else "cpu"))


def on_worker(trainer: Trainer, watchers: Sequence[Watcher], cores: int) -> Trainer:
    """Return ``trainer`` for a worker that has one kind of device to itself, and ``cores`` cores.

    A trainer of the user's own travels as it is.
    """
    if not isinstance(trainer, ImageTrainer):
        return trainer
    splits = trainer.splits
    shared = [
        replace(part, workers=min(part.workers, cores) if part.workers >= 0 else cores)
        if isinstance(part, StreamedSet)
        else part
        for part in (splits.train, splits.validation)
    ]
    parts = replace(splits, train=shared[0], validation=shared[1])
    return replace(
        trainer,
        splits=parts,
        device=device_kind(trainer.device),
        watchers=tuple(watchers),
        # Every piece begins with a trainer that remembers nothing: one fine-tuning is sure to come.
        planned_epochs=max(trainer.epochs(final) for final in (False, True)),
        memory=Memory(),
    )


def device_kind(device: str | None) -> str | None:
    """Return ``device`` without its number: a worker numbers its own from 0."""
    return None if device is None else torch.device(device).type
