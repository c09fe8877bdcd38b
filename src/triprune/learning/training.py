"""Owns the one training loop: from scratch or fine-tuning, resumable; refuses to see test images.

``train`` runs one job. The loop itself is a generator that gives way after every launched step,
so that ``side_by_side`` can drive several on one GPU.
"""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn

from triprune.errors import DivergedError, OutOfMemoryError
from triprune.learning.checkpoint import (
    TrainingState,
    read_state,
    resume,
    state_of,
    write_state,
)
from triprune.learning.engine import Engine, engine_for
from triprune.learning.evaluation import Inputs, count_correct
from triprune.learning.feed import feed_for, seed_for
from triprune.learning.images import ImageSet
from triprune.learning.job import Job, Stop, TrainResult
from triprune.learning.memory import (
    available_bytes,
    bytes_of_step,
    measure_batches,
    memory_error,
    out_of_memory,
)
from triprune.learning.own_kernels import fast_forward
from triprune.learning.precision import (
    laid_out,
    lay_out,
    memory_format,
    on_stream,
    overlapping_norms,
    resolved_precision,
    wide_outputs,
)
from triprune.learning.progress import EpochRecord, Watcher, Watchers
from triprune.learning.ranks import current_ranks
from triprune.learning.recipe import Recipe
from triprune.learning.step import Step
from triprune.learning.teaching import Teaching
from triprune.learning.turns import Work, drive
from triprune.places import place

_LOSS_CHECK = 20  # steps between looks at the loss where looking is free (not on a GPU)
_HOPELESS = 10.0  # times the loss of guessing


def train(job: Job, *, watchers: Sequence[Watcher] = (), stop: Stop | None = None) -> TrainResult:
    """Run ``job`` to its end, or until ``stop`` says so after an epoch."""
    return drive([Training(job, watchers, stop).run()])[0]


class Training:
    """A job under way."""

    def __init__(self, job: Job, watchers: Sequence[Watcher], stop: Stop | None) -> None:
        device = torch.device(job.device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self._job, self._stop = job, stop
        self._device = device
        self._recipe = replace(
            job.recipe, precision=resolved_precision(job.recipe.precision, device)
        )
        self._ranks = current_ranks()
        self._watchers = Watchers(watchers if self._ranks.leads else ())
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._history: list[EpochRecord] = []
        self._by_torch: str | None = None

    def run(self) -> Work[TrainResult]:
        """Train; gives way after every launched step, and at least once an epoch."""
        try:
            result = yield from self._run()
        except Exception as error:
            told = self._memory_error(error) if out_of_memory(error) else error
            self._watchers.on_end(self._job.name, f"failed: {told}")
            if told is error:
                raise
            raise told from error
        word = "finished" if result.finished else "stopped"
        note = "; ".join([f"{word} after epoch {len(self._history)}", *result.notes])
        self._watchers.on_end(self._job.name, note)
        return result

    def _run(self) -> Work[TrainResult]:
        saved = self._saved()
        layout = memory_format(self._recipe.layout, self._recipe.precision, self._device)
        model = self._job.model.to(self._device)
        with (
            laid_out(model, layout),
            wide_outputs(model, self._recipe.precision),
            overlapping_norms(model, self._device),
        ):
            if self._stream is not None:
                self._stream.wait_stream(torch.cuda.current_stream(self._device))
            with on_stream(self._stream):
                step, validation = self._prepare(layout, saved), self._validation()
                engine, reason = engine_for(step, self._stream)
            yield
            for epoch in range(len(self._history), self._recipe.epochs):
                record = yield from self._epoch(engine, step, validation, epoch)
                self._history.append(record)
                ended = len(self._history) == self._recipe.epochs
                ended |= self._ranks.as_lead_says(self._stop is not None and self._stop(record))
                self._save(step, now=ended)
                self._watchers.on_epoch(self._job.name, record)
                if ended:
                    break
                yield
        if self._stream is not None:
            torch.cuda.current_stream(self._device).wait_stream(self._stream)
        finished = len(self._history) == self._recipe.epochs
        notes = (() if reason is None else (reason,)) + self._notes()
        return TrainResult(self._job.model, tuple(self._history), finished, engine.label, notes)

    def _notes(self) -> tuple[str, ...]:
        streams = [self._job.images, self._job.validation]
        found = [s.notes for s in streams if s is not None and not isinstance(s, ImageSet)]
        told = tuple(note for notes in found for note in notes)
        return told if self._by_torch is None else (*told, self._by_torch)

    def _saved(self) -> TrainingState | None:
        """Return what was saved; "auto" goes on in the precision that it was begun in elsewhere."""
        job = self._job
        if job.checkpoint is None or not place(job.checkpoint).exists():
            return None
        saved = read_state(job.checkpoint)
        if job.recipe.precision == "auto":
            begun = resolved_precision(saved.facts["recipe"]["precision"], self._device)
            self._recipe = replace(self._recipe, precision=begun)
        return saved

    def _prepare(self, layout: torch.memory_format, saved: TrainingState | None) -> Step:
        job = self._job
        if isinstance(job.teacher, nn.Module):
            lay_out(job.teacher.to(self._device).eval(), layout)
        job.model.train()  # a way through it holds for one mode
        step = self._step(self._recipe)
        if saved is not None:
            self._history = resume(step, saved, self._facts())
        self._ranks.require_same(len(self._history), f"epochs of {job.name} that were saved")
        return step

    def _validation(self) -> Inputs | None:
        """Return this process's part of the validation images."""
        job, images = self._job, self._job.validation
        if images is None:
            return None
        if self._ranks.world > 1:
            images = images.take(torch.arange(self._ranks.rank, len(images), self._ranks.world))
        return Inputs(job.model, images, resolution_px=job.resolution_px)

    def _step(self, recipe: Recipe) -> Step:
        job, size = self._job, self._job.resolution_px
        teaching = None
        if job.teacher is not None and recipe.distillation:
            teaching, size = Teaching(job.teacher, size), None
        place = self._device, size
        feed = feed_for(job.images, recipe, seed=job.seed, ranks=self._ranks, place=place)
        forward, self._by_torch = fast_forward(job.model, recipe, self._example())
        return Step(job.model, feed, recipe, teaching=teaching, ranks=self._ranks, forward=forward)

    def _example(self) -> Tensor:
        """Return numbers that are laid out as the model's inputs will be."""
        images, size = self._job.images, self._job.resolution_px or self._job.images.resolution_px
        layout = memory_format(self._recipe.layout, self._recipe.precision, self._device)
        shape = 2, len(images.mean), size, size
        numbers = torch.linspace(-1, 1, math.prod(shape), device=self._device)
        return numbers.view(shape).contiguous(memory_format=layout)

    def _epoch(
        self, engine: Engine, step: Step, validation: Inputs | None, epoch: int
    ) -> Work[EpochRecord]:
        started = time.perf_counter()
        steps = step.feed.steps
        with on_stream(self._stream):
            step.start(epoch)
        if self._stream is None:
            with model_randomness(seed_for(self._job.seed, epoch, f"model/{self._ranks.rank}")):
                for done in range(1, steps + 1):
                    engine.advance()
                    self._watchers.on_step(self._job.name, epoch=epoch + 1, done=done / steps)
                    if done % _LOSS_CHECK == 0:
                        self._check(float(step.loss_sum) / done, epoch)
        else:
            for done in range(1, steps + 1):
                engine.advance()
                self._watchers.on_step(self._job.name, epoch=epoch + 1, done=done / steps)
                yield
        engine.close_epoch()
        trained = time.perf_counter()
        due = epoch + 1 == self._recipe.epochs or (epoch + 1) % self._job.validate_every == 0
        with on_stream(self._stream):
            sums = self._sums(step, validation if due else None)
        yield from self._done()
        loss, correct, right = sums.tolist()
        if self._stream is not None:
            trained = time.perf_counter()
        loss /= steps * self._ranks.world
        self._check(loss, epoch)
        seen = steps * self._recipe.batch_size
        count = len(self._job.validation) if due and self._job.validation is not None else 0
        return EpochRecord(
            epoch=epoch + 1,
            epochs=self._recipe.epochs,
            rate=fmean(self._recipe.rates(epoch, steps)),
            loss=loss,
            train_accuracy=correct / seen,
            accuracy=right / count if count else None,
            seconds=time.perf_counter() - started,
            images_per_second=seen / (trained - started),
        )

    def _sums(self, step: Step, validation: Inputs | None) -> Tensor:
        """Return summed loss, right answers in training and in validation, on the device."""
        floats = [tensor for tensor in step.model.buffers() if tensor.is_floating_point()]
        self._ranks.average(floats)
        right = torch.zeros((), dtype=torch.float64, device=self._device)
        if validation is not None:
            right = count_correct(step.model, validation, self._recipe.precision)[0]
        sums = torch.stack([step.loss_sum.double(), step.correct.double(), right])
        self._ranks.add_up([sums])
        return sums

    def _done(self) -> Iterator[None]:
        """Give way until the device has done everything that was launched."""
        if self._stream is None:
            return
        event = torch.cuda.Event()
        event.record(self._stream)
        while not event.query():
            yield
            time.sleep(1e-4)

    def _check(self, loss: float, epoch: int) -> None:
        guessing = math.log(max(2, len(self._job.images.classes)))
        soft = self._recipe.distillation  # its part of the loss is multiplied by heat²
        limit = _HOPELESS * guessing * (1 - soft + soft * max(1.0, self._recipe.temperature**2))
        if math.isfinite(loss) and loss < limit:
            return
        rate = self._recipe.rate_at(epoch) or self._recipe.rate
        raise DivergedError(
            f"training {self._job.name}, epoch {epoch + 1}, rate {rate:.4g}",
            f"the mean loss is {loss:.4g}",
            f"try a rate of {rate / 10:.2g}, a warm-up of a few epochs"
            + (", or precision fp32" if self._recipe.precision != "fp32" else ""),
        )

    def _save(self, step: Step, *, now: bool) -> None:
        due = now or len(self._history) % self._job.checkpoint_every == 0
        if self._job.checkpoint is not None and due and self._ranks.leads:
            write_state(self._job.checkpoint, state_of(step, self._facts(), self._history))

    def _facts(self) -> dict[str, Any]:
        return {
            "recipe": self._recipe.to_mapping(),
            "seed": self._job.seed,
            "resolution_px": self._job.resolution_px or self._job.images.resolution_px,
            "images": len(self._job.images),
        }

    def _memory_error(self, error: BaseException) -> OutOfMemoryError:
        """Return the error that names a batch size, after measuring smaller ones."""
        traceback.clear_frames(error.__traceback__)  # they hold the tensors that did not fit
        batch = self._recipe.batch_size
        on_gpu = self._device.type == "cuda"
        measured = measure_batches(self._bytes_of_step, batch) if on_gpu else []
        available = available_bytes(self._device)
        return memory_error(self._job.name, batch, measured=measured, available=available)

    def _bytes_of_step(self, batch: int) -> int:
        return bytes_of_step(self._step(replace(self._recipe, batch_size=batch)))


@contextmanager
def model_randomness(seed: int) -> Iterator[None]:
    """Seed the randomness inside the model (dropout) and leave the caller's as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield
