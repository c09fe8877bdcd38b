"""Owns scales as they are written on a command line."""

from __future__ import annotations

from triprune.core.scale import Scale
from triprune.errors import InputError


def read_scale(text: str) -> Scale:
    """Return the scale written as three kept fractions: depth, width and resolution."""
    try:
        depth, width, resolution = map(float, text.split(","))
    except ValueError as error:
        raise InputError(
            f"the scale {text!r}", "it is no three numbers", "give them as 0.78,0.82,0.97"
        ) from error
    return Scale(depth, width, resolution)
