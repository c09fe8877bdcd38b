"""Owns several independent trainings at once: on a GPU they overlap, on a CPU they take turns.

A small network leaves most of a GPU idle. Each training has its own stream, graph and generator;
the failure of one is its own result and harms no other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from triprune.errors import InputError
from triprune.learning.job import Job, Stop, TrainResult
from triprune.learning.progress import Watcher
from triprune.learning.training import Training
from triprune.learning.turns import Work, drive


def train_side_by_side(
    jobs: Sequence[Job], *, watchers: Sequence[Watcher] = (), stop: Stop | None = None
) -> list[TrainResult | Exception]:
    """Run ``jobs`` together; return, in their order, each one's result or its error."""
    _require_apart(jobs)
    return drive([_outcome(Training(job, watchers, stop)) for job in jobs])


def _outcome(training: Training) -> Work[TrainResult | Exception]:
    """Train to the end, or to an error."""
    try:
        return (yield from training.run())
    except Exception as error:
        return error


def _require_apart(jobs: Sequence[Job]) -> None:
    names = [name for name, count in Counter(job.name for job in jobs).items() if count > 1]
    if names:
        raise InputError(
            "training side by side", f"several jobs are called {names[0]}", "name each of them"
        )
    if len({id(job.model) for job in jobs}) < len(jobs):
        raise InputError(
            "training side by side", "two jobs share one model", "give each a model of its own"
        )
    files = [job.checkpoint for job in jobs if job.checkpoint is not None]
    if len(set(files)) < len(files):
        raise InputError(
            "training side by side", "two jobs share a checkpoint file", "give each its own"
        )
