"""Measure training speed: an ordinary trainer, our engine alone, and several side by side.

    python benchmarks/train_speed.py --data cifar10/ --out results/engine/speed.json

All three run in one process on one machine, in turns, ``--rounds`` times. Each variant is a
precision with an optional layout: ``tf32``, ``bf16``, ``tf32-nhwc``, ``fp32-nchw``.
"""

from __future__ import annotations

import argparse
import gc
import os
import re
import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from cifar10_files import read_train
from machine import circumstances, write_json
from ordinary_trainer import WARM_UP_STEPS, ordinary_images_per_second
from triprune.learning.images import ImageSet
from triprune.learning.job import Job
from triprune.learning.models import build_model
from triprune.learning.probe import probe_blocks
from triprune.learning.recipe import Recipe
from triprune.learning.side_by_side import train_side_by_side
from variants import recipe_of


def main() -> None:
    settings = parse()
    device = torch.device(settings.device)
    images = read_train(settings.data)
    images = images.take(torch.arange(min(settings.images, len(images))))
    recipe = Recipe(epochs=settings.epochs, batch_size=settings.batch_size)
    deadline = time.monotonic() + settings.seconds
    samples: dict[str, list[float]] = {}
    if len(images) // recipe.batch_size * recipe.epochs <= WARM_UP_STEPS:
        raise SystemExit(f"need more than {WARM_UP_STEPS} steps: give more --images or --epochs")
    for turn in range(settings.rounds):
        if turn and time.monotonic() > deadline:
            print(f"time is up after {turn} rounds")
            break
        if "ordinary" not in settings.skip:
            speed, _ = ordinary_images_per_second(
                build_model(settings.model),
                images,
                replace(recipe, epochs=settings.ordinary_epochs),
                device=device,
                workers=settings.workers,
            )
            note(samples, "ordinary", speed)
        for variant in settings.variant:
            chosen = recipe_of(variant, recipe)
            for count in settings.side_by_side:
                jobs = make_jobs(settings.model, images.to(device), chosen, count)
                try:
                    speed, engine = engine_images_per_second(jobs)
                except Exception as error:  # the other variants are still worth measuring
                    print(f"{variant} x{count} FAILED: {type(error).__name__}: {error}", flush=True)
                    continue
                note(samples, f"{variant} x{count} ({engine})", speed)
                save(settings, device, samples)
    probes = None if "probes" in settings.skip else measure_probes(settings, images.to(device))
    for row in save(settings, device, samples, probes=probes):
        print("{what:32s} {images_per_second:10,.0f} images/s, {times_ordinary} x".format(**row))
    print(f"wrote {settings.out}")


def make_jobs(model: str, images: ImageSet, recipe: Recipe, count: int) -> list[Job]:
    device = images.images.device
    return [
        Job(build_model(model), images, recipe, name=f"{model} {seed}", seed=seed, device=device)
        for seed in range(count)
    ]


def engine_images_per_second(jobs: list[Job]) -> tuple[float, str]:
    """Return the images per second of all ``jobs`` together, after their first epoch."""
    total, engine = 0.0, ""
    for job, outcome in zip(jobs, train_side_by_side(jobs), strict=True):
        if isinstance(outcome, Exception):
            raise outcome
        engine = outcome.engine
        for reason in outcome.notes:
            print(reason, flush=True)
        later = outcome.history[1:]
        seen = len(job.images) // job.recipe.batch_size * job.recipe.batch_size
        total += len(later) * seen / sum(record.seconds for record in later)
    if jobs[0].images.images.is_cuda:
        gc.collect()
        torch.cuda.empty_cache()
        return total, engine
    return total / len(jobs), engine  # in turns: each epoch had the machine to itself


def measure_probes(settings: argparse.Namespace, images: ImageSet) -> dict[str, Any]:
    """Return the time of probing every residual block, and of two epochs of the engine alone."""
    model = build_model(settings.model).to(images.images.device)
    blocks = [name for name, _ in model.named_modules() if re.fullmatch(r"layer\d\.\d+", name)]
    held_out = len(images) // 10
    train = images.take(torch.arange(held_out, len(images)))
    validation = images.take(torch.arange(held_out))
    seconds: list[float] = []
    for _ in range(2):  # the first meets a cold machine
        started = time.perf_counter()
        probe_blocks(model, blocks, train=train, validation=validation)
        seconds.append(time.perf_counter() - started)
    recipe = Recipe(epochs=2, batch_size=settings.batch_size)
    speed, _ = engine_images_per_second(make_jobs(settings.model, train, recipe, 1))
    found = {
        "blocks": len(blocks),
        "images": len(images),
        "seconds": round(seconds[-1], 3),
        "two_epochs_seconds": round(2 * len(train) / speed, 3),
    }
    print(
        "probes: {seconds} s for {blocks} blocks; two epochs: {two_epochs_seconds} s".format(
            **found
        )
    )
    return found


def note(samples: dict[str, list[float]], what: str, speed: float) -> None:
    samples.setdefault(what, []).append(speed)
    print(f"{what:32s} {speed:10,.0f} images/s", flush=True)


def save(
    settings: argparse.Namespace,
    device: torch.device,
    samples: dict[str, list[float]],
    *,
    probes: dict[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Write the medians so far, with their ratio to the ordinary trainer; return these rows."""
    base = statistics.median(samples["ordinary"]) if "ordinary" in samples else None
    rows: list[dict[str, Any]] = []
    for what, speeds in samples.items():
        middle = statistics.median(speeds)
        rows.append(
            {
                "what": what,
                "images_per_second": round(middle, 1),
                "lowest": round(min(speeds), 1),
                "highest": round(max(speeds), 1),
                "rounds": len(speeds),
                "times_ordinary": None if base is None else round(middle / base, 2),
            }
        )
    names = ["model", "images", "batch_size", "epochs", "ordinary_epochs", "workers", "rounds"]
    write_json(
        settings.out,
        {
            "kind": "train speed",
            "settings": {name: getattr(settings, name) for name in names},
            "circumstances": circumstances(device),
            "rows": rows,
            "probes": probes,
        },
    )
    return rows


def parse() -> argparse.Namespace:
    cuda = torch.cuda.is_available()
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of data_batch_*.bin")
    parser.add_argument("--out", type=Path, default=Path("results/engine/speed.json"))
    parser.add_argument("--device", default="cuda" if cuda else "cpu")
    parser.add_argument("--model", default="resnet56" if cuda else "resnet20")
    parser.add_argument("--images", type=int, default=50_000 if cuda else 2560)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=4 if cuda else 2, help="2 or more")
    parser.add_argument("--ordinary-epochs", type=int, default=2 if cuda else 1)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=540, help="start no round after these")
    parser.add_argument("--workers", type=int, default=min(8, max(1, cores - 1)))
    parser.add_argument("--variant", nargs="+", default=["auto"])
    parser.add_argument("--side-by-side", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--skip", nargs="*", default=[], choices=["ordinary", "probes"])
    settings = parser.parse_args()
    if settings.epochs < 2:
        parser.error("--epochs: the first one warms up, so give 2 or more")
    return settings


if __name__ == "__main__":
    main()
