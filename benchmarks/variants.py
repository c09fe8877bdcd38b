"""Owns the names of engine variants: a precision with an optional layout, as in ``tf32-nhwc``."""

from __future__ import annotations

from dataclasses import replace

from triprune.learning.recipe import Recipe


def recipe_of(variant: str, recipe: Recipe) -> Recipe:
    """Return ``recipe`` in the precision and layout that ``variant`` names."""
    precision, _, layout = variant.partition("-")
    return replace(recipe, precision=precision, layout=layout or "auto")  # pyright: ignore[reportArgumentType]
