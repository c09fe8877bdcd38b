"""Owns what a student is taught: a teacher's answers, computed as it goes or looked up.

A teacher of hundreds of epochs is asked about the same views again and again. Its answers to all
of them fit in a table: 162 views of CIFAR-10's images are 150 MB, and cost as much as 162 epochs
of its forward passes, in large batches.
"""

from __future__ import annotations

import copy
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeGuard

import torch
from torch import Tensor, nn

from triprune.errors import InputError
from triprune.learning.evaluation import evaluating
from triprune.learning.images import ImageSet, ImageStream, normalised, resize
from triprune.learning.own_kernels import fast_forward
from triprune.learning.precision import autocast, lay_out, memory_format, switches
from triprune.learning.recipe import Recipe
from triprune.learning.views import crops_of, show

LARGEST_TABLE = 4 * 2**30  # bytes
_PIXELS_A_BATCH = 4096 * 32 * 32


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """A teacher's logits for every view of every image: ``table`` is views × images × classes."""

    table: Tensor

    def look_up(self, numbers: Tensor, views: Tensor | None) -> Tensor:
        """Return the answers to these images as they were shown; None is as they are."""
        views = torch.zeros_like(numbers) if views is None else views
        return self.table[views, numbers]

    def require_for(self, images: ImageSet | ImageStream, recipe: Recipe) -> None:
        """Refuse images of another number, or shown in another way, than those answered."""
        asked, known = (views_of(images, recipe), len(images)), tuple(self.table.shape[:2])
        if asked != known:
            raise InputError(
                f"teaching {asked[1]} images in {asked[0]} views",
                f"the answers at hand are to {known[1]} images in {known[0]} views",
                "remember the teacher's answers to these images, by the same recipe",
            )


def views_of(images: ImageSet | ImageStream, recipe: Recipe) -> int:
    """Return in how many ways the recipe shows an image; 0 where images cannot be told apart."""
    if not isinstance(images, ImageSet):
        return 0
    return crops_of(images.images).views if recipe.augment else 1


def worth_remembering(
    images: ImageSet | ImageStream, recipe: Recipe, epochs: int
) -> TypeGuard[ImageSet]:
    """Whether a table of answers costs less than asking for ``epochs``, and can be held."""
    views = views_of(images, recipe)
    return 0 < views < epochs and 4 * views * len(images) * len(images.classes) <= LARGEST_TABLE


@torch.no_grad()
def remember(teacher: nn.Module, images: ImageSet, recipe: Recipe) -> Answers:
    """Ask ``teacher`` about every view of ``images``, on their device, in the recipe's precision.

    ``teacher`` is moved there and stays.
    """
    device = images.images.device
    layout = memory_format(recipe.layout, recipe.precision, device)
    lay_out(teacher.to(device), layout)
    affine = images.affine(device)
    count, batch = views_of(images, recipe), max(1, _PIXELS_A_BATCH // images.images[0, 0].numel())
    table: Tensor | None = None  # filled in place: parts put together at the end would be it twice
    with evaluating(teacher), switches(recipe.precision, device):
        few = normalised(images.images[:2], affine, layout)
        answer, _ = fast_forward(teacher, recipe, few)
        for view in range(count):
            for first in range(0, len(images), batch):
                part = images.images[first : first + batch]
                views = torch.full((len(part),), view, device=device)
                seen = show(part, views, recipe.padding) if recipe.augment else part
                inputs = normalised(seen, affine, layout)
                with autocast(recipe.precision, device):
                    said = answer(inputs)
                if table is None:
                    table = said.new_empty(count, len(images), said.shape[1])
                table[view, first : first + batch] = said
    assert table is not None
    return Answers(table)


class Memory:
    """What one teacher answered, asked once for all trainings that show images alike.

    Trainings by several recipes can share it. Another teacher's answers take its place.
    """

    def __init__(self) -> None:
        self._teacher: nn.Module | None = None
        self._known: dict[tuple[object, ...], Answers] = {}

    def __len__(self) -> int:
        return len(self._known)

    def recall(
        self, teacher: nn.Module, images: ImageSet, recipe: Recipe, device: torch.device
    ) -> Answers | None:
        """Return all that ``teacher`` says in a resolved precision; None where it does not fit."""
        if teacher is not self._teacher:
            self._known.clear()
            self._teacher = teacher
        shown = recipe.augment, recipe.padding
        key = images, device, *shown, recipe.precision, recipe.layout, recipe.kernels
        if key not in self._known:
            with suppress(torch.OutOfMemoryError):
                self._known[key] = self.ask(teacher, images, recipe, device)
        return self._known.get(key)

    def ask(
        self, teacher: nn.Module, images: ImageSet, recipe: Recipe, device: torch.device
    ) -> Answers:
        """Ask ``teacher``, which stays as it is."""
        return remember(copy.deepcopy(teacher), images.to(device), recipe)


@dataclass(frozen=True, slots=True, eq=False)
class Teaching:
    """Who teaches; the teacher sees images at their own size, the student at ``student_px``."""

    teacher: nn.Module | Answers
    student_px: int | None = None

    @torch.no_grad()
    def answers(self, inputs: Tensor, numbers: Tensor | None, views: Tensor | None) -> Tensor:
        """Return what the teacher says of ``inputs``, which are these images in these views."""
        if isinstance(self.teacher, nn.Module):
            return self.teacher(inputs).float()
        assert numbers is not None
        return self.teacher.look_up(numbers, views).float()

    def shown(self, inputs: Tensor, layout: torch.memory_format) -> Tensor:
        """Return ``inputs`` as the student sees them, in ``layout``."""
        seen = inputs if self.student_px is None else resize(inputs, self.student_px)
        return seen.contiguous(memory_format=layout)
