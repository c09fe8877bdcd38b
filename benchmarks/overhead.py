"""Measures which share of a real run is not training: cutting, choosing, storing, testing.

    python benchmarks/overhead.py --config examples/demo.toml --out results/run/overhead.json

``--epochs ROUND FINAL`` replaces the fine-tuning epochs of the config. Whatever they are, what is
not training happens as often, so the share falls as they rise.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from machine import circumstances, write_json
from triprune.run import pipeline, steps
from triprune.run.opening import open_case
from triprune.run.pipeline import Pipeline
from triprune.run.spec import RunSpec
from triprune.run.store import Store
from triprune.run.trainer import ImageTrainer, Task

BAR = 0.03


class Clock:
    """Adds up wall and processor seconds by purpose; what happens inside another counts there."""

    def __init__(self) -> None:
        self.wall: dict[str, float] = defaultdict(float)
        self.processor: dict[str, float] = defaultdict(float)
        self._inside: str | None = None

    @contextmanager
    def of(self, purpose: str) -> Iterator[None]:
        """Count what happens inside as ``purpose``."""
        outer, self._inside = self._inside, purpose
        began = time.perf_counter(), time.process_time()
        yield
        spent = time.perf_counter() - began[0], time.process_time() - began[1]
        self._inside = outer
        for seconds, by_purpose in zip(spent, (self.wall, self.processor), strict=True):
            by_purpose[purpose] += seconds
            if outer is not None:
                by_purpose[outer] -= seconds


def timed_trainer(trainer: ImageTrainer, clock: Clock) -> ImageTrainer:
    class Timed(ImageTrainer):
        __slots__ = ()

        def fine_tune(self, task: Task) -> Generator[None, None, Any]:
            turns = super().fine_tune(task)
            while True:
                with clock.of("training"):
                    try:
                        next(turns)
                    except StopIteration as end:
                        return end.value
                yield

    return Timed(trainer.splits, trainer.recipe, trainer.device, trainer.watchers)


def timed_steps(clock: Clock) -> None:
    for name in ("survey", "fit", "choose", "measure", "illustrate"):
        plain = getattr(steps, name)

        def step(*arguments: Any, _name: str = name, _plain: Any = plain, **options: Any) -> Any:
            with clock.of(_name):
                return _plain(*arguments, **options)

        setattr(pipeline.steps, name, step)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, default=Path("examples/demo.toml"))
    parser.add_argument("--out", type=Path, default=Path("results/run/overhead.json"))
    parser.add_argument("--epochs", type=int, nargs=2, metavar=("ROUND", "FINAL"))
    parser.add_argument("--images", type=int, help="train on the first of them only")
    given = parser.parse_args()
    load = os.getloadavg()[0]
    spec = RunSpec.from_toml(given.config)
    settings = spec.settings
    if given.epochs:
        a_round, a_final = given.epochs
        recipe = replace(settings.recipe, round_epochs=a_round, final_epochs=a_final)
        settings = replace(settings, recipe=recipe, effort="paper")
        spec = replace(spec, settings=settings)
    clock = Clock()
    timed_steps(clock)
    with tempfile.TemporaryDirectory() as folder, clock.of("cutting and storing"):
        with clock.of("opening"):
            case = open_case(spec)
        trainer = timed_trainer(case.trainer, clock)
        if given.images:
            few = trainer.splits.train.take(torch.arange(given.images))
            trainer = replace(trainer, splits=replace(trainer.splits, train=few))
        Pipeline(replace(case, trainer=trainer), Store(folder)).run()
    shares = {
        name: 1 - by["training"] / sum(by.values())
        for name, by in (("wall", clock.wall), ("processor", clock.processor))
    }
    for purpose, seconds in sorted(clock.wall.items(), key=lambda item: -item[1]):
        print(f"{purpose:<20} {seconds:8.1f} s  {seconds / sum(clock.wall.values()):6.1%}")
    print(
        f"outside training: {shares['wall']:.1%} of the run by the clock, "
        f"{shares['processor']:.1%} of the processor's time (bar {BAR:.0%})"
    )
    write_json(
        given.out,
        {
            "kind": "overhead of a run",
            "settings": spec.to_mapping(),
            "images": len(trainer.splits.train),
            "seed": settings.seed,
            "circumstances": circumstances(torch.device(case.device)) | {"load_before": load},
            "seconds": dict(clock.wall),
            "processor_seconds": dict(clock.processor),
            "outside_training": shares,
            "bar": BAR,
        },
    )


if __name__ == "__main__":
    main()
