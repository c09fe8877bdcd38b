"""Owns what must be said of a choice that the observations hardly support: everywhere the same."""

from __future__ import annotations

import math

from triprune.core.choice import Choice
from triprune.core.link import is_bounded
from triprune.core.predictor import Predictor
from triprune.core.scale import AXES, Scale

_WIDE = 0.2
"""Good fits of accuracy have intervals of one to four points; from twenty on, they say little."""


def doubts(predictor: Predictor, *choices: Choice) -> tuple[str, ...]:
    """Say where choices lie beyond what was observed, and where the predictor hardly knows.

    And of those that it knows, which pass over a better one that uses too little of the budget.
    """
    guess = [guess_note(predictor, each) for each in choices if is_guess(predictor, each)][:1]
    return *extrapolations(predictor, *choices), *guess, *passed_over(predictor, *choices)


def passed_over(predictor: Predictor, *choices: Choice) -> tuple[str, ...]:
    """Name the smaller budgets that buy a scale that is forecast to be clearly better."""
    told: dict[str, None] = {}
    for each in choices:
        if each.cheaper is not None and not is_guess(predictor, each):
            cost, score = each.cheaper
            write = "{:.2%}" if _is_fraction(predictor, each) else "{:.4g}"
            told[
                f"less is forecast to be more: {write.format(score)} at {cost:.1%}, where "
                f"{each.cost:.1%} have {write.format(each.predicted_accuracy)}; ask for that budget"
            ] = None
    return tuple(told)


def extrapolations(predictor: Predictor, *choices: Choice) -> tuple[str, ...]:
    """Name the ends of the observations that choices lie beyond, in a sentence for each side."""
    told: list[str] = []
    for side, ends in (("below", predictor.observed), ("above", predictor.highest)):
        beyond = {
            f"{axis} {end:.2f}": None
            for choice in choices
            for axis, kept, end in zip(AXES, choice.scale, ends, strict=True)
            if axis in choice.extrapolated and (kept < end if side == "below" else kept > end)
        }
        if beyond:
            told.append(f"extrapolates: nothing was observed {side} {', '.join(beyond)}")
    return tuple(told)


def is_guess(predictor: Predictor, choice: Choice) -> bool:
    """Tell whether the interval is too wide for the prediction to mean much.

    Accuracies are held against twenty points; scores without a natural unit against how far the
    predictor lets them fall along any one axis.
    """
    width = choice.interval[1] - choice.interval[0]
    if _is_fraction(predictor, choice):
        return not width < _WIDE
    ends = [Scale.along(axis, low) for axis, low in zip(AXES, predictor.observed, strict=True)]
    scores = [predictor(scale) for scale in (Scale(), *ends)]
    return not width < max(scores) - min(scores)


def guess_note(predictor: Predictor, choice: Choice) -> str:
    """Say that the choice is little better than a guess, and what would help."""
    low, high = choice.interval
    if not (math.isfinite(low) and math.isfinite(high)):
        found = "the observations do not say how far off the prediction may be"
    elif _is_fraction(predictor, choice):
        found = f"90 % of measurements fall anywhere from {low:.0%} to {high:.0%}"
    else:
        found = f"90 % of measurements fall anywhere from {low:.4g} to {high:.4g}"
    return (
        f"hardly better than a guess: {found}; observe more rounds, or train each for more epochs"
    )


def _is_fraction(predictor: Predictor, choice: Choice) -> bool:
    return is_bounded(predictor.candidate.link) or 0.0 <= choice.predicted_accuracy <= 1.0
