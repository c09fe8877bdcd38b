"""Owns the rows of a study of fine-tunings: their curves, and the file that they are written to."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from machine import write_json
from triprune.learning.progress import EpochRecord
from triprune.learning.recipe import Recipe

_SAVED_EVERY = 10.0


def every(text: str) -> int:
    """Return how many epochs lie between two that are judged, as a command line gives it."""
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError(f"{text} is no count of epochs: give 1 or more")
    return count


@dataclass(slots=True)
class Row:
    """One fine-tuning: a variant and a seed."""

    what: str
    seed: int
    recipe: Recipe
    history: list[EpochRecord] = field(default_factory=list)
    finished: bool = False
    error: str | None = None
    test_accuracy: float | None = None

    @property
    def name(self) -> str:
        """What the training is called in lines."""
        return f"{self.what} seed {self.seed}"

    @property
    def tuning(self) -> Recipe:
        """The recipe as the final fine-tuning follows it."""
        return self.recipe.fine_tuning(final=True)

    def line(self) -> str:
        """Return the row as one line of text."""
        if self.error is not None or not self.history:
            return f"{self.name}: {self.error or 'no epoch was begun'}"
        told = f"{self.name}: {len(self.history)} of {self.tuning.epochs} epochs"
        judged = [record.accuracy for record in self.history if record.accuracy is not None]
        if not judged:
            return f"{told}, none of them judged"
        last = judged[-5:]
        test = "" if self.test_accuracy is None else f", test {self.test_accuracy:.2%}"
        mean = statistics.fmean(last)
        return f"{told}, mean of the last {len(last)} judged {mean:.2%} on validation{test}"

    def to_mapping(self) -> dict[str, Any]:
        """Return what is written of it; one that no epoch was left for has an empty curve."""
        told: dict[str, Any] = {
            "what": self.what,
            "seed": self.seed,
            "stopped": not self.finished and self.error is None,
            "accuracy": [record.accuracy for record in self.history],
            "train_accuracy": self.history[-1].train_accuracy if self.history else None,
        }
        told |= {} if self.error is None else {"error": self.error}
        return told | ({} if self.test_accuracy is None else {"test_accuracy": self.test_accuracy})


class Study:
    """Watches the rows and writes them down while they train: a killed study keeps its epochs."""

    def __init__(self, path: Path, about: dict[str, Any], rows: Sequence[Row]) -> None:
        self.path, self.about = path, about
        self._rows = {row.name: row for row in rows}
        self._saved = time.monotonic()

    def on_epoch(self, training: str, record: EpochRecord) -> None:
        """Take the epoch down; write and tell now and then."""
        self._rows[training].history.append(record)
        if time.monotonic() - self._saved > _SAVED_EVERY:
            self.save()
            print(f"{training}: {record.line()}", flush=True)

    def on_end(self, training: str, note: str) -> None:
        """Tell the end."""
        print(f"{training}: {note}", flush=True)

    def save(self) -> None:
        """Write all that is known."""
        self._saved = time.monotonic()
        rows = [row.to_mapping() for row in self._rows.values()]
        write_json(self.path, {**self.about, "rows": rows})
