"""Owns holding an exported file against PyTorch; refuses one that answers otherwise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from triprune.errors import ExportError
from triprune.network.running import output_tensors

TOLERANCE = 1e-4
"""The largest difference, as a part of the largest answer (of 1, where answers are smaller)."""

Answer = Callable[[Tensor], Sequence[Tensor]]


@dataclass(frozen=True, slots=True)
class Parity:
    """How far an exported model is from PyTorch on ``images`` inputs; ``agreeing`` choose alike.

    ``difference`` is a part of the largest answer. ``agreeing`` is None where answers are no
    classes.
    """

    difference: float
    images: int
    agreeing: int | None

    def __str__(self) -> str:
        same = "" if self.agreeing is None else f", the same class for {self.agreeing} of them"
        return f"at most {self.difference:.1e} from PyTorch on {self.images} images{same}"


def compare(
    model: nn.Module,
    answer: Answer,
    inputs: Tensor,
    *,
    asked: str,
    prepared: Sequence[tuple[Tensor, Tensor]] = (),
) -> Parity:
    """Ask both on all inputs at once and on the first alone: the batch must be free.

    Of each pair in ``prepared`` the file is given the first, and the model the second, which is
    the same images prepared outside the graph. Raises ``ExportError`` where answers differ by more
    than ``TOLERANCE``.
    """
    pairs = [(inputs, inputs), (inputs[:1], inputs[:1]), *prepared]
    with torch.no_grad():
        expected = [output_tensors(model(seen)) for _, seen in pairs]
        found = [list(answer(sent)) for sent, _ in pairs]
    differences = [
        _difference(ours, theirs, asked)
        for pair in zip(expected, found, strict=True)
        for ours, theirs in _paired(*pair, asked)
    ]
    # max() alone would lose a NaN behind a number.
    difference = math.nan if any(map(math.isnan, differences)) else max(differences)
    if not difference <= TOLERANCE:
        raise ExportError(
            asked,
            f"it answers otherwise than PyTorch: by {difference:.1e} of the largest answer",
            f"nothing was written; at most {TOLERANCE:g} is allowed",
        )
    first, theirs = expected[0][0], found[0][0]
    agreeing = int((first.argmax(1) == theirs.argmax(1)).sum()) if first.ndim == 2 else None
    return Parity(difference, len(inputs), agreeing)


def _paired(ours: list[Tensor], theirs: list[Tensor], asked: str) -> list[tuple[Tensor, Tensor]]:
    if len(ours) != len(theirs) or not ours:
        raise ExportError(
            asked,
            f"it gives {len(theirs)} answers where PyTorch gives {len(ours)}",
            "return tensors from the model's forward",
        )
    return list(zip(ours, theirs, strict=True))


def _difference(ours: Tensor, theirs: Tensor, asked: str) -> float:
    if ours.shape != theirs.shape:
        raise ExportError(
            asked,
            f"it gives {tuple(theirs.shape)} where PyTorch gives {tuple(ours.shape)}",
            "make the model's forward free of fixed batch sizes",
        )
    largest = max(1.0, float(ours.abs().max()))
    return float((ours.double() - theirs.double()).abs().max()) / largest
