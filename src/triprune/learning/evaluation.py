"""Owns measuring a model on images it is not trained on; the only opener of the test split."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from triprune.errors import InputError
from triprune.learning.images import ImageSet, ImageStream, SealedTest, affine_of, normalised
from triprune.learning.precision import switches
from triprune.learning.recipe import Precision

_PIXELS_A_BATCH = {"cuda": 2500 * 32 * 32, "cpu": 250 * 32 * 32}


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How a model does on ``count`` images: top-1 ``accuracy`` in [0, 1] and mean ``loss``."""

    accuracy: float
    loss: float
    count: int


def evaluate(
    model: nn.Module, images: ImageSet | ImageStream, *, resolution_px: int | None = None
) -> Evaluation:
    """Measure ``model`` in fp32 on ``images`` at ``resolution_px``, on the model's device."""
    if isinstance(images, SealedTest):
        raise InputError(
            "evaluating a model",
            "the images are the sealed test split",
            "give training or validation images; the test split goes to evaluate_final",
        )
    sums = count_correct(model, Inputs(model, images, resolution_px=resolution_px)).tolist()
    return Evaluation(sums[0] / len(images), sums[1] / len(images), len(images))


def evaluate_final(
    model: nn.Module, test: SealedTest, *, resolution_px: int | None = None
) -> Evaluation:
    """Open the sealed test split and measure the finished ``model`` on it."""
    if not isinstance(test, SealedTest):
        raise InputError(
            "the final evaluation",
            f"it was given a {type(test).__name__}",
            "give the sealed test split, Splits.test; other images go to evaluate",
        )
    return test.open_once_for(lambda images: evaluate(model, images, resolution_px=resolution_px))


class Inputs:
    """Every image once, in order, as ``model`` wants its inputs, with the labels.

    Made once and iterated often: only making it waits for the device.
    """

    def __init__(
        self,
        model: nn.Module,
        images: ImageSet | ImageStream,
        *,
        resolution_px: int | None = None,
    ) -> None:
        self.device = device_of(model)
        self._affine = affine_of(images.mean, images.std, self.device)
        self._layout = _layout_of(model)
        self._resolution_px = resolution_px
        size = resolution_px or images.resolution_px
        self._batch = max(1, _PIXELS_A_BATCH.get(self.device.type, 2**18) // size**2)
        held = isinstance(images, ImageSet)
        self._images = images.to(self.device).at(resolution_px) if held else images

    def __len__(self) -> int:
        return len(self._images)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for pixels, labels in self._batches():
            there = pixels.to(self.device, non_blocking=True)
            inputs = normalised(there, self._affine, self._layout)
            yield inputs, labels.to(self.device, non_blocking=True)

    def _batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        images = self._images
        if isinstance(images, ImageSet):
            parts = images.images.split(self._batch), images.labels.split(self._batch)
            return zip(*parts, strict=True)
        rows = [part.tolist() for part in torch.arange(len(images)).split(self._batch)]
        return images.batches(rows, resolution_px=self._resolution_px)


@torch.no_grad()
def count_correct(model: nn.Module, inputs: Inputs, precision: Precision = "fp32") -> Tensor:
    """Return right answers and summed loss as two float64 on the device, without waiting.

    Any ``precision`` but fp32 lets a GPU round factors to TF32, and no more than that: cuDNN's
    fp32 convolutions in NHWC, where a model in training is held, are many times slower.
    """
    sums = torch.zeros(2, dtype=torch.float64, device=inputs.device)
    with evaluating(model), switches(precision, inputs.device, search=False):
        for batch, labels in inputs:
            logits = model(batch).float()
            sums[0] += (logits.argmax(1) == labels).sum()
            sums[1] += functional.cross_entropy(logits, labels, reduction="sum")
    return sums


def device_of(model: nn.Module) -> torch.device:
    """Return where the model lives; the CPU where it has no parameters."""
    return next((tensor.device for tensor in model.parameters()), torch.device("cpu"))


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put every module into evaluation mode inside, and back as each was afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def _layout_of(model: nn.Module) -> torch.memory_format:
    """Return channels-last if the model's first real convolution is held so."""
    for tensor in model.parameters():
        if tensor.ndim == 4 and not tensor.is_contiguous():
            return torch.channels_last
    return torch.contiguous_format
