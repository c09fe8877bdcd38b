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


def train_side_by_side(
    jobs: Sequence[Job], *, watchers: Sequence[Watcher] = (), stop: Stop | None = None
) -> list[TrainResult | Exception]:
    """Run ``jobs`` together; return, in their order, each one's result or its error."""
    _require_apart(jobs)
    outcomes: dict[int, TrainResult | Exception] = {}
    waiting = {number: Training(job, watchers, stop).run() for number, job in enumerate(jobs)}
    while waiting:
        for number, turns in list(waiting.items()):
            try:
                next(turns)
            except StopIteration as end:
                outcomes[number] = end.value
                del waiting[number]
            except Exception as error:
                outcomes[number] = error
                del waiting[number]
    return [outcomes[number] for number in range(len(jobs))]


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
