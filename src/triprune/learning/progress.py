"""Owns what a training tells: a record an epoch, and those who watch; refuses to slow it down."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """One finished epoch, counted from 1. ``accuracy`` is on validation images, if there are any.

    ``rate`` is the mean over the epoch's steps: the last one's says little of a cosine, which ends
    near zero. ``loss`` and ``train_accuracy`` are means over the epoch's augmented batches, while
    the model was still changing.
    """

    epoch: int
    epochs: int
    rate: float
    loss: float
    train_accuracy: float
    accuracy: float | None
    seconds: float
    images_per_second: float

    def line(self) -> str:
        """Return the record as one line of text."""
        accuracy = "" if self.accuracy is None else f"  accuracy {self.accuracy:.2%}"
        left = (self.epochs - self.epoch) * self.seconds
        return (
            f"epoch {self.epoch}/{self.epochs}  rate {self.rate:.4g}  loss {self.loss:.4f}"
            f"{accuracy}  {self.images_per_second:,.0f} images/s  {clock(left)} left"
        )

    def to_mapping(self) -> dict[str, Any]:
        """Return the record as plain values."""
        return asdict(self)


class Watcher(Protocol):
    """Someone who watches trainings: your logger needs these two methods and nothing else."""

    def on_epoch(self, training: str, record: EpochRecord) -> None:
        """Take note of a finished epoch of the training called ``training``."""
        ...

    def on_end(self, training: str, note: str) -> None:
        """Take note that ``training`` is over: finished, stopped or failed, as ``note`` says."""
        ...


@runtime_checkable
class StepWatcher(Watcher, Protocol):
    """A watcher who also wants to know how far inside an epoch a training is."""

    def on_step(self, training: str, *, epoch: int, done: float) -> None:
        """Take note that a fraction ``done`` of ``epoch`` is behind ``training``."""
        ...


class Watchers:
    """Several watchers as one; steps are passed on a few times a second only."""

    def __init__(self, watchers: Sequence[Watcher]) -> None:
        self._watchers = tuple(watchers)
        self._steppers = [each for each in watchers if isinstance(each, StepWatcher)]
        self._last = 0.0

    def on_epoch(self, training: str, record: EpochRecord) -> None:
        """Pass the record on."""
        for watcher in self._watchers:
            watcher.on_epoch(training, record)

    def on_end(self, training: str, note: str) -> None:
        """Pass the end on."""
        for watcher in self._watchers:
            watcher.on_end(training, note)

    def on_step(self, training: str, *, epoch: int, done: float) -> None:
        """Pass the step on, unless one was passed on just before."""
        if self._steppers and time.monotonic() - self._last > 0.2:
            self._last = time.monotonic()
            for watcher in self._steppers:
                watcher.on_step(training, epoch=epoch, done=done)


class PlainLines:
    """One line an epoch, for logs and pipes."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        self._stream = stream or sys.stderr

    def on_epoch(self, training: str, record: EpochRecord) -> None:
        """Print the epoch."""
        print(f"{training}: {record.line()}", file=self._stream, flush=True)

    def on_end(self, training: str, note: str) -> None:
        """Print the end."""
        print(f"{training}: {note}", file=self._stream, flush=True)


class LiveBars:
    """A live bar per training, in a terminal (needs rich)."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, Progress, TextColumn

        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[text]}")
        )
        self._tasks: dict[str, Any] = {}

    def on_step(self, training: str, *, epoch: int, done: float) -> None:
        """Move the bar inside an epoch."""
        self._progress.update(self._task(training), completed=epoch - 1 + done)

    def on_epoch(self, training: str, record: EpochRecord) -> None:
        """Move the bar and say how the epoch went."""
        self._progress.update(
            self._task(training),
            completed=record.epoch,
            total=record.epochs,
            text=record.line(),
        )

    def on_end(self, training: str, note: str) -> None:
        """Leave the bar with the last word; the last training to end stops the display."""
        self._progress.update(self._task(training), text=note)
        self._progress.refresh()
        self._tasks[training] = None
        if all(task is None for task in self._tasks.values()):
            self._progress.stop()

    def _task(self, training: str) -> Any:
        task = self._tasks.get(training)
        if task is None:
            self._progress.start()
            task = self._progress.add_task(training, total=None, text="")
            self._tasks[training] = task
        return task


class TensorBoard:
    """Writes every epoch to a TensorBoard log, one run a training (needs tensorboard)."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._writers: dict[str, Any] = {}

    def on_epoch(self, training: str, record: EpochRecord) -> None:
        """Write loss, accuracies, rate and speed."""
        writer = self._writer(training)
        values = record.to_mapping()
        for name in ("loss", "train_accuracy", "accuracy", "rate", "images_per_second"):
            if values[name] is not None:
                writer.add_scalar(name, values[name], record.epoch)
        writer.flush()

    def on_end(self, training: str, note: str) -> None:
        """Write the last word and close the log."""
        writer = self._writer(training)
        writer.add_text("end", note)
        writer.close()
        del self._writers[training]

    def _writer(self, training: str) -> Any:
        if training not in self._writers:
            from torch.utils.tensorboard.writer import SummaryWriter

            self._writers[training] = SummaryWriter(str(self._folder / training))
        return self._writers[training]


def terminal_watcher() -> Watcher:
    """Return live bars in a terminal that has rich, plain lines anywhere else."""
    if sys.stderr.isatty():
        try:
            return LiveBars()
        except ImportError:
            pass
    return PlainLines()


def clock(seconds: float) -> str:
    """Return a duration as h:mm:ss or m:ss."""
    minutes, rest = divmod(round(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
