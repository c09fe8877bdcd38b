"""Owns what a call of paper_run.py says and leaves behind: its seconds, epochs and machine."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch

from machine import circumstances, write_json
from triprune.learning.progress import EpochRecord, PlainLines

_TOLD_EVERY = 10.0


@dataclass(slots=True)
class Call:
    """What one call did to one run: wall-clock seconds and epochs of each stage."""

    command: str
    stage: str = "open"
    seconds: dict[str, float] = field(default_factory=dict)
    epochs: dict[str, int] = field(default_factory=dict)
    lines: PlainLines = field(default_factory=lambda: PlainLines(sys.stdout))
    told: float = 0.0

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Count what happens inside as ``stage``."""
        self.stage, begun = stage, time.monotonic()
        try:
            yield
        finally:
            self.counted(stage, time.monotonic() - begun)

    def counted(self, stage: str, seconds: float) -> None:
        """Add to what a stage took."""
        self.seconds[stage] = round(self.seconds.get(stage, 0.0) + seconds, 1)
        done = self.epochs.get(stage, 0)
        print(f"[{stage}: {seconds:.1f} s, {done} epochs]", flush=True)

    def on_epoch(self, training: str, record: EpochRecord) -> None:
        """Count the epoch; print one now and then."""
        self.epochs[self.stage] = self.epochs.get(self.stage, 0) + 1
        if time.monotonic() - self.told > _TOLD_EVERY or record.epoch == record.epochs:
            self.told = time.monotonic()
            self.lines.on_epoch(training, record)

    def on_end(self, training: str, note: str) -> None:
        """Print the end."""
        self.lines.on_end(training, note)

    def write(self, folder: Path) -> None:
        """Write the call down in the run's folder."""
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        facts = circumstances(device)
        content = {
            "command": self.command,
            "circumstances": facts,
            "seconds": self.seconds,
            "epochs": self.epochs,
        }
        ended = facts["date"].replace(":", "-")
        path = folder / "calls" / f"{ended}.json"
        while path.exists():  # two stages may end within a second
            path = path.with_stem(f"{path.stem}-")
        write_json(path, content)


@contextmanager
def timed_together(calls: Sequence[Call], stage: str) -> Iterator[None]:
    """Count what happens inside as ``stage`` of all calls, each by its part of the epochs."""
    begun = time.monotonic()
    before = [call.epochs.get(stage, 0) for call in calls]
    for call in calls:
        call.stage = stage
    try:
        yield
    finally:
        spent = time.monotonic() - begun
        done = [call.epochs.get(stage, 0) - n for call, n in zip(calls, before, strict=True)]
        for call, epochs in zip(calls, done, strict=True):
            call.counted(stage, spent * epochs / max(1, sum(done)))


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
