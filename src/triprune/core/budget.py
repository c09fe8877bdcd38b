"""Owns reading a budget: the part of the original compute that may remain."""

from __future__ import annotations

import math
from numbers import Real

from triprune.errors import InputError


def run_budget(budget: float | str, name: str = "budget") -> float:
    """Return a budget as runs know it, to a millionth: ``0.453`` and ``"45.3%"`` are the same."""
    exact = read_budget(budget, name)
    return round(exact, 6) or exact


def read_budget(budget: float | str, name: str = "budget") -> float:
    """Return a budget given as ``0.5`` or ``"50%"`` as a fraction in (0, 1]; errors call it so."""
    fraction = _percentage(budget) if isinstance(budget, str) else budget
    if isinstance(fraction, bool) or not isinstance(fraction, Real):  # pyright: ignore[reportUnnecessaryIsInstance]
        fraction = math.nan
    if not 0.0 < fraction <= 1.0:
        raise InputError(
            f"{name} {budget!r}",
            "it is not a part of the original compute",
            "give the part that may remain, as 0.5 or '50%'",
        )
    return float(fraction)


def _percentage(text: str) -> float:
    number, percent, rest = text.strip().partition("%")
    try:
        value = float(number)
    except ValueError:
        return math.nan
    return math.nan if rest else value / 100.0 if percent else value
