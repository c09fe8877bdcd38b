"""Owns the observation: a scale that was really built and measured."""

from __future__ import annotations

from dataclasses import dataclass

from triprune.core.scale import Scale, finite_number
from triprune.errors import InputError


@dataclass(frozen=True, slots=True)
class Observation:
    """A scale that was built and fine-tuned, with the accuracy and the cost that were measured.

    ``accuracy`` is a fraction in [0, 1] for classification; any finite score (an mAP, a negative
    loss) will do as long as higher is better and the predictor's link is the identity.
    """

    scale: Scale
    accuracy: float
    macs: int | None = None
    params: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.scale, Scale):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(
                f"an observation at {self.scale!r}", "that is not a Scale", "pass Scale(d, w, r)"
            )
        object.__setattr__(self, "accuracy", finite_number(self.accuracy, "accuracy"))
        for name in ("macs", "params"):
            object.__setattr__(self, name, _count(getattr(self, name), name))


def _count(value: object, name: str) -> int | None:
    if value is None:
        return None
    number = finite_number(value, name)
    if number <= 0 or number != int(number):
        raise InputError(f"{name} = {value!r}", "it is not a positive count", "give an integer")
    return int(number)
