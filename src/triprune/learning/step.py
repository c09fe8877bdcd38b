"""Owns one optimisation step, wholly on the device; refuses to ask the host anything."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from triprune.learning.feed import Feed
from triprune.learning.images import normalised
from triprune.learning.low_copies import LowCopies
from triprune.learning.precision import FP16_LOSS_SCALE, autocast, memory_format
from triprune.learning.ranks import Ranks
from triprune.learning.recipe import Precision, Recipe
from triprune.learning.sgd import Sgd
from triprune.learning.teaching import Teaching
from triprune.learning.views import draw_views, show


def loss_of(logits: Tensor, labels: Tensor, recipe: Recipe, teacher: Tensor | None) -> Tensor:
    """Return cross-entropy, mixed with the distance to the teacher's soft answers if given."""
    loss = functional.cross_entropy(logits, labels, label_smoothing=recipe.label_smoothing)
    if teacher is None:
        return loss
    heat = recipe.temperature
    soft = functional.kl_div(
        functional.log_softmax(logits / heat, 1),
        functional.log_softmax(teacher / heat, 1),
        reduction="batchmean",
        log_target=True,
    )
    # Soft gradients shrink with heat²: the factor keeps the two terms comparable.
    return (1 - recipe.distillation) * loss + recipe.distillation * heat**2 * soft


class Step:
    """Augment, forward, loss, backward, SGD; sums of loss and right answers stay on the device.

    ``forward`` is a fast way through ``model``, with the same parameters and buffers.
    """

    def __init__(
        self,
        model: nn.Module,
        feed: Feed,
        recipe: Recipe,
        *,
        teaching: Teaching | None = None,
        ranks: Ranks,
        forward: LowCopies | None = None,
    ) -> None:
        self.model, self.feed, self.ranks = model, feed, ranks
        self._forward = forward or LowCopies(model, None)
        self._recipe, self._teaching = recipe, teaching
        self.device = feed.device
        self.precision: Precision = recipe.precision
        self._layout = memory_format(recipe.layout, recipe.precision, self.device)
        self._loss_scale = FP16_LOSS_SCALE if recipe.precision == "fp16" else 1.0
        self.optimiser = Sgd(
            [parameter for parameter in model.parameters() if parameter.requires_grad],
            momentum=recipe.momentum,
            weight_decay=recipe.weight_decay,
            loss_scale=self._loss_scale,
        )
        self._slopes_of = self._forward.stand_ins(self.optimiser.parameters)
        self._affine = feed.affine()
        self.loss_sum = torch.zeros((), device=self.device)
        self.correct = torch.zeros((), dtype=torch.int64, device=self.device)

    def start(self, epoch: int) -> None:
        """Begin ``epoch``: its feed, and sums from zero."""
        self.feed.start(epoch)
        self.loss_sum.zero_()
        self.correct.zero_()

    def __call__(self) -> None:
        """Take the next step of the epoch."""
        pixels, labels, rate, numbers = self.feed.next()
        views = None
        if self._recipe.augment:
            views = draw_views(pixels, self.feed.generator)
            pixels = show(pixels, views, self._recipe.padding)
        inputs = normalised(pixels, self._affine, self._layout)
        teaching = self._teaching
        shown = inputs if teaching is None else teaching.shown(inputs, self._layout)
        with autocast(self.precision, self.device):
            logits = self._forward(shown)
            target = None if teaching is None else teaching.answers(inputs, numbers, views)
        loss = loss_of(logits.float(), labels, self._recipe, target)
        self.optimiser.step(self._gradients(loss), rate)
        with torch.no_grad():
            self.loss_sum.add_(loss)
            self.correct.add_((logits.argmax(1) == labels).sum())

    def _gradients(self, loss: Tensor) -> tuple[Tensor | None, ...]:
        scaled = loss * self._loss_scale if self._loss_scale != 1 else loss
        gradients = torch.autograd.grad(scaled, self._slopes_of, allow_unused=True)
        if self.ranks.world > 1:  # means of 16-bit numbers are taken in more
            gradients = tuple(None if each is None else each.float() for each in gradients)
            self.ranks.average([gradient for gradient in gradients if gradient is not None])
        return gradients

    def tensors(self) -> list[Tensor]:
        """Return everything that a step changes."""
        return [
            *self.model.parameters(),
            *self.model.buffers(),
            *self.optimiser.momenta,
            self.feed.position,
            self.loss_sum,
            self.correct,
        ]
