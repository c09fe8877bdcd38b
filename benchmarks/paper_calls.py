"""Owns what a call of paper_run.py says and leaves behind: its seconds, epochs and machine."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch

from machine import circumstances, write_json
from triprune.learning.progress import EpochRecord, PlainLines

_TOLD_EVERY = 10.0


class Clock:
    """Divides the time of trainings side by side among their runs: by epochs times macs.

    Epochs are counted as they go, and macs are the originals': how much a cut saves is not known.
    """

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._done: dict[tuple[Call, str], float] = {}

    def count(self, call: Call, stage: str, amount: float) -> None:
        """Note that a training got on: epochs, times the macs of its original."""
        self._done[call, stage] = self._done.get((call, stage), 0.0) + amount

    def settle(self) -> None:
        """Charge the time since the last settlement, if any training has got on since then."""
        whole = sum(self._done.values())
        if whole:
            spent = time.monotonic() - self._since
            for (call, stage), part in self._done.items():
                call.charge(stage, spent * part / whole)
            self._done.clear()
            self._since += spent

    def skip(self, seconds: float) -> None:
        """Leave out time that has been charged otherwise."""
        self._since += seconds


@dataclass(slots=True, eq=False)
class Call:
    """What one call did to one run: wall-clock seconds and epochs of each stage."""

    name: str
    command: str
    clock: Clock
    macs: float = 1.0  # of the original: what its models cost beside those of other runs
    stage: str = "open"
    progress: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    epochs: dict[str, int] = field(default_factory=dict)
    lines: PlainLines = field(default_factory=lambda: PlainLines(sys.stdout))
    told: float = 0.0

    @contextmanager
    def alone(self, stage: str) -> Iterator[None]:
        """Count what happens inside as ``stage``; everything else waits for it."""
        self.clock.settle()
        self.stage, begun = stage, time.monotonic()
        try:
            yield
        finally:
            spent = time.monotonic() - begun
            self.clock.skip(spent)
            self.charge(stage, spent)
            self.tell(stage)

    @contextmanager
    def beside(self, stage: str) -> Iterator[None]:
        """Count the trainings inside as ``stage``; others may take turns with them."""
        self.clock.settle()
        self.stage = stage
        try:
            yield
        finally:
            self.clock.settle()
            self.tell(stage)

    def charge(self, stage: str, seconds: float) -> None:
        """Add to what a stage took."""
        self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds

    def tell(self, stage: str) -> None:
        """Print what a stage has taken."""
        seconds, epochs = self.seconds.get(stage, 0.0), self.epochs.get(stage, 0)
        print(f"{self.name} [{stage}: {seconds:.1f} s, {epochs} epochs]", flush=True)

    def on_epoch(self, training: str, record: EpochRecord) -> None:
        """Count the epoch; print one now and then."""
        self.on_step(training, epoch=record.epoch, done=1.0)
        self.epochs[self.stage] = self.epochs.get(self.stage, 0) + 1
        if time.monotonic() - self.told > _TOLD_EVERY or record.epoch == record.epochs:
            self.told = time.monotonic()
            self.lines.on_epoch(f"{self.name}, {training}", record)

    def on_step(self, training: str, *, epoch: int, done: float) -> None:
        """Count what was done since the last time."""
        before = max(self.progress.get(training, 0.0), epoch - 1.0)
        self.progress[training] = epoch - 1 + done
        self.clock.count(self, self.stage, self.macs * max(0.0, epoch - 1 + done - before))

    def on_end(self, training: str, note: str) -> None:
        """Print the end."""
        self.progress.pop(training, None)
        self.lines.on_end(f"{self.name}, {training}", note)

    def write(self, folder: Path) -> None:
        """Write the call down in the run's folder."""
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        facts = circumstances(device)
        content = {
            "command": self.command,
            "circumstances": facts,
            "seconds": {stage: round(spent, 1) for stage, spent in self.seconds.items()},
            "epochs": self.epochs,
        }
        ended = facts["date"].replace(":", "-")
        path = folder / "calls" / f"{ended}.json"
        while path.exists():  # two stages may end within a second
            path = path.with_stem(f"{path.stem}-")
        write_json(path, content)


def command_of(settings: argparse.Namespace) -> str:
    """Return the command that does the same elsewhere: without this machine's own folders."""
    words = ["python", "benchmarks/paper_run.py", settings.action, *settings.what]
    words += [
        f"--{each}" for each in ("baseline", "rehearse", "together") if getattr(settings, each)
    ]
    words += [word for each in settings.budget or () for word in ("--budget", each)]
    words += [] if settings.seeds is None else ["--seeds", f"{settings.seeds}"]
    words += [] if settings.until == "finish" else ["--until", settings.until]
    return shlex.join([*words, "--seconds", f"{settings.seconds:g}"])
