"""Owns the names of variants: a precision with an optional layout and settings of the recipe.

``tf32-nhwc`` is one, ``fp16+warmup_epochs=1+padding=reflect`` another.
"""

from __future__ import annotations

from collections.abc import Sequence

from triprune.errors import InputError
from triprune.learning.recipe import Recipe


def recipe_of(variant: str, recipe: Recipe) -> Recipe:
    """Return ``recipe`` with the precision, layout and settings that ``variant`` names."""
    engine, *settings = variant.split("+")
    precision, _, layout = engine.partition("-")
    changes = {"precision": precision, "layout": layout or "auto", **read_settings(settings)}
    return Recipe.from_mapping({**recipe.to_mapping(), **changes})


def read_settings(settings: Sequence[str]) -> dict[str, object]:
    """Return the settings of a recipe that are written as NAME=VALUE."""
    changes: dict[str, object] = {}
    for setting in settings:
        name, _, value = setting.partition("=")
        if not value:
            asked = f"the settings {'+'.join(settings)}"
            raise InputError(asked, f"{setting} has no value", "give NAME=VALUE")
        changes[name] = _value(value)
    return changes


def _value(text: str) -> object:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
