"""Owns amounts: what a budget is a part of (macs, parameters, latency, a formula), as text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from triprune.core.observation import Observation

SpentName = Literal["macs", "params", "latency", "paper"]

_NOUNS = {"macs": "macs", "params": "parameters", "latency": "latency", "paper": "compute"}
_MADE = {"macs": "counted", "params": "counted", "latency": "measured", "paper": "by formula"}


@dataclass(frozen=True, slots=True)
class Spending:
    """What a budget is a part of; ``whole`` is the original's amount, None if it is not known."""

    by: SpentName = "paper"
    whole: float | None = None

    @property
    def noun(self) -> str:
        """What is spent, to follow "the"."""
        return _NOUNS[self.by]

    @property
    def made(self) -> str:
        """How the amount of a built model comes about."""
        return _MADE[self.by]

    def text(self, part: float) -> str:
        """Return a part of the original's amount; "–" where that is not known."""
        if self.whole is None:
            return "–"
        return milliseconds(part * self.whole) if self.by == "latency" else count(part * self.whole)

    def paid(self, item: Observation) -> float | None:
        """Return the part that an observed model was counted to have, if it was."""
        found = {"macs": item.macs, "params": item.params}.get(self.by)
        return found / self.whole if found and self.whole else None


def count(value: float) -> str:
    """Return a large number in k, M or G."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:,.2f} {letter}"
    return f"{value:,.0f}"


def milliseconds(value: float) -> str:
    """Return a duration with about three digits."""
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:,.{digits}f} ms"
