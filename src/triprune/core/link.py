# numpy leaves parts of its own types open:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Owns the links: monotone maps from accuracy to the scale on which a form is fitted."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from triprune.errors import InputError

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
LinkName = Literal["identity", "logit", "root"]
LINKS: tuple[LinkName, ...] = ("identity", "logit", "root")

_LOGIT_EDGE = 1e-4
"""Accuracies of exactly 0 or 1 have no logit; they are read as this far inside."""


def to_link(accuracy: Array, link: LinkName) -> Array:
    """Map accuracies to the link's scale: a, log(a / (1 - a)) or -sqrt(1 - a)."""
    if link == "identity":
        return accuracy
    if link == "logit":
        inside = np.clip(accuracy, _LOGIT_EDGE, 1.0 - _LOGIT_EDGE)
        return np.log(inside / (1.0 - inside))
    return -np.sqrt(1.0 - accuracy)


def from_link(score: Array, link: LinkName) -> Array:
    """Map scores on the link's scale back to accuracies; bounded links stay within [0, 1]."""
    if link == "identity":
        return score
    if link == "logit":
        return np.asarray(0.5 * (1.0 + np.tanh(0.5 * score)))
    return np.clip(1.0 - np.minimum(score, 0.0) ** 2, 0.0, 1.0)


def is_bounded(link: LinkName) -> bool:
    """Tell whether a link speaks of fractions in [0, 1] only."""
    return link != "identity"


def check_link(link: object, accuracies: Array) -> None:
    """Refuse an unknown link, or a bounded one on scores that are no fractions."""
    if link not in LINKS:
        raise InputError(f"link {link!r}", "there is no such link", f"use one of {LINKS}")
    if link != "identity" and (accuracies.min() < 0.0 or accuracies.max() > 1.0):
        raise InputError(
            f"link {link!r} on scores from {accuracies.min():g} to {accuracies.max():g}",
            "it takes fractions in [0, 1]",
            "divide percentages by 100, or use link='identity' for any other score",
        )
