"""Owns a time limit; refuses to begin an epoch that would not end within it, or a late step."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from triprune.core.scale import finite_number
from triprune.errors import InputError, RunStoppedError
from triprune.learning.progress import EpochRecord

_MARGIN = 1.5  # epochs vary, and what follows the last one takes time too
_FORGETTING = 0.97  # an epoch later: one that had to wait for something else tells little for long


class Deadline:
    """Says, after each epoch of any training, whether to stop: a ``stop`` for ``train``.

    Between the steps of a run, ``require_time`` asks the same.
    """

    def __init__(self, seconds: float) -> None:
        if seconds != math.inf and finite_number(seconds, "seconds") < 0:
            raise InputError(f"seconds = {seconds:g}", "it is no duration", "give 0 or more")
        # The wall clock, since a deadline travels to the workers of a cluster with their trainings.
        self._end = time.time() + seconds
        self._slowest = 0.0
        self._moved = False

    def __call__(self, record: EpochRecord) -> bool:
        """Return whether another epoch, as slow as the slowest of late, would end too late."""
        self._slowest = max(_FORGETTING * self._slowest, record.seconds)
        self._moved = True
        return self.over

    def __reduce__(self) -> tuple[Callable[[float], Deadline], tuple[float]]:
        """Travel to another machine by the time of day: its other clock began elsewhere."""
        return _arrived, (time.time() + self.seconds_left,)

    @property
    def seconds_left(self) -> float:
        """The time until the limit; negative after it."""
        return self._end - time.time()

    @property
    def over(self) -> bool:
        """Whether there is no time for another epoch or step; the first one is always begun."""
        return self._moved and self.seconds_left < _MARGIN * self._slowest

    def moved(self) -> None:
        """Note that a step has come to its end and is kept: stopping now still gets a run on."""
        self._moved = True

    def require_time(self, step: str) -> None:
        """Refuse to begin a step when the time is up."""
        if self.over:
            raise time_is_up(step)


def time_is_up(step: str) -> RunStoppedError:
    """Return the error of a step that was not begun, or not ended, for want of time."""
    return RunStoppedError(
        step,
        "the time that was given is up",
        "give the same command to go on; nothing finished is lost",
    )


def _arrived(end: float) -> Deadline:
    return Deadline(max(0.0, end - time.time()))
