"""Owns the words for how much of a model is kept: the three axes, and a scale along them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from triprune.errors import InputError

Axis = Literal["depth", "width", "resolution"]
AXES: tuple[Axis, Axis, Axis] = ("depth", "width", "resolution")


@dataclass(frozen=True, slots=True)
class Scale:
    """The *kept* fractions of depth (blocks), width (filters) and resolution, each in (0, 1]."""

    depth: float = 1.0
    width: float = 1.0
    resolution: float = 1.0

    def __post_init__(self) -> None:
        for axis in AXES:
            object.__setattr__(self, axis, kept_fraction(getattr(self, axis), axis))

    def __iter__(self) -> Iterator[float]:
        return iter((self.depth, self.width, self.resolution))

    @classmethod
    def along(cls, axis: Axis, kept: float) -> Scale:
        """Return the scale that keeps ``kept`` of one axis and all of the others."""
        return cls(**{axis: kept})

    def cut_axes(self) -> tuple[Axis, ...]:
        """Return the axes of which less than everything is kept."""
        return tuple(axis for axis in AXES if getattr(self, axis) < 1.0)


def finite_number(value: object, name: str) -> float:
    """Return ``value`` as a float, or explain why it is not a finite number."""
    try:
        number = float(value)  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(value, (bool, str, bytes)) or not math.isfinite(number):
        raise InputError(f"{name} = {value!r}", "it is not a finite number", "give a plain number")
    return number


def is_count(value: object, *, least: int) -> bool:
    """Tell whether ``value`` is an integer, Python's or numpy's, from ``least`` up."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        return False
    return int(value) >= least  # pyright: ignore[reportUnknownArgumentType]


def kept_fraction(value: object, name: str) -> float:
    """Return ``value`` as a float in (0, 1], or explain that fractions here mean what is kept."""
    number = finite_number(value, name)
    if not 0.0 < number <= 1.0:
        raise InputError(
            f"{name} = {value!r}",
            "it lies outside (0, 1]",
            "give the fraction that is kept, for example 0.75 to keep three quarters",
        )
    return number
