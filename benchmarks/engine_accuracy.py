r"""Train models x variants x seeds side by side, and measure each once on the test set at its end.

    python benchmarks/engine_accuracy.py --data cifar10/ --model resnet56 --seeds 0 1 2 \
        --variant fp32 --variant tf32 --variant bf16 --epochs 30 --out results/engine/ab

Stops before ``--seconds`` are over and goes on from the files in ``--out`` when started again:
``checkpoints-N.tar`` (each small enough to carry around) and ``accuracy.json``. Trains on all
50,000 training images, as published figures do; nothing is chosen by the test set.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bundles import pack, unpack
from cifar10_files import read_test, read_train
from machine import circumstances, write_json
from triprune.learning.deadline import Deadline
from triprune.learning.evaluation import evaluate_final
from triprune.learning.images import ImageSet
from triprune.learning.job import Job, TrainResult
from triprune.learning.models import build_model
from triprune.learning.progress import EpochRecord, clock
from triprune.learning.recipe import Recipe
from triprune.learning.side_by_side import train_side_by_side
from variants import recipe_of


@dataclass(frozen=True, slots=True)
class Case:
    """One training of the comparison."""

    model: str
    variant: str
    seed: int

    @property
    def name(self) -> str:
        """What the training is called in lines and rows."""
        return f"{self.model} {self.variant} seed {self.seed}"

    @property
    def file(self) -> str:
        """The name of its checkpoint."""
        return f"{self.model}_{self.variant}_{self.seed}.safetensors"

    def build(self) -> nn.Module:
        """Return the model with the seed's weights: the same for every variant."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self.seed)
            return build_model(self.model)


@dataclass(slots=True)
class Tally:
    """Prints an epoch now and then, and the time that the whole will take."""

    cases: int
    deadline: Deadline
    last: float = field(default_factory=time.monotonic)
    told: bool = False

    def on_epoch(self, training: str, record: EpochRecord) -> None:
        """Print the estimate once, and the epoch if the last one is a while ago."""
        left = record.seconds * (record.epochs - record.epoch)
        if not self.told and record.epoch > 1:
            self.told = True
            fits = "within" if left < self.deadline.seconds_left else "NOT within"
            print(
                f"about {record.seconds:.1f} s an epoch for all {self.cases} together: "
                f"{clock(left)} left, {fits} this call's time",
                flush=True,
            )
        if time.monotonic() - self.last > 10 or record.epoch == record.epochs:
            self.last = time.monotonic()
            print(f"{training}: {record.line()}", flush=True)

    def on_end(self, training: str, note: str) -> None:
        """Print the end."""
        print(f"{training}: {note}", flush=True)


def main() -> None:
    settings = parse()
    deadline = Deadline(settings.seconds)
    settings.out.mkdir(parents=True, exist_ok=True)
    rows, losses = earlier(settings.out / "accuracy.json", settings)
    cases = [case for case in all_cases(settings) if case.name not in rows]
    print(f"{len(cases)} trainings to do, {len(rows)} done before", flush=True)
    images = read_train(settings.data)
    images = images.take(torch.arange(min(settings.images, len(images)))).to(settings.device)
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        unpack(settings.out, scratch, "checkpoints")
        for start in range(0, len(cases), settings.at_once):
            if start and deadline.over:
                break
            group = cases[start : start + settings.at_once]
            jobs = [make_job(case, images, settings, scratch) for case in group]
            tally = Tally(len(jobs), deadline)
            outcomes = train_side_by_side(jobs, watchers=[tally], stop=deadline)
            for case, outcome in zip(group, outcomes, strict=True):
                rows |= row_of(case, outcome, settings)
                losses |= losses_of(case, outcome)
            save(settings, rows, losses)
        open_ones = [case.file for case in cases if rows.get(case.name, {}).get("error", "open")]
        files = [scratch / name for name in open_ones if (scratch / name).exists()]
        pack(settings.out, scratch, files, "checkpoints")
    for row in save(settings, rows, losses):
        spread = "" if row["spread"] is None else f" ± {row['spread']:.2%}"
        print(f"{row['model']} {row['variant']}: {row['mean']:.2%}{spread}, {row['seeds']} seeds")


def make_job(case: Case, images: ImageSet, settings: argparse.Namespace, scratch: Path) -> Job:
    return Job(
        case.build(),
        images,
        recipe_of(case.variant, recipe_for(settings)),
        name=case.name,
        seed=case.seed,
        checkpoint=scratch / case.file,
        checkpoint_every=settings.checkpoint_every,
        device=settings.device,
    )


def recipe_for(settings: argparse.Namespace) -> Recipe:
    return replace(Recipe.preset("cifar10"), epochs=settings.epochs)


def row_of(
    case: Case, outcome: TrainResult | Exception, settings: argparse.Namespace
) -> dict[str, dict[str, Any]]:
    """Return the row of a finished or failed training by its name; nothing for a stopped one."""
    row: dict[str, Any] = {
        "model": case.model,
        "variant": case.variant,
        "seed": case.seed,
        "epochs": settings.epochs,
        "accuracy": None,
        "error": None,
    }
    if isinstance(outcome, Exception):
        row["error"] = f"{type(outcome).__name__}: {outcome}"
        print(f"{case.name}: FAILED: {row['error']}", flush=True)
        return {case.name: row}
    if not outcome.finished:
        return {}
    row["accuracy"] = evaluate_final(outcome.model, read_test(settings.data)).accuracy
    row["engine"] = outcome.engine
    row["notes"] = list(outcome.notes)
    row["train_loss"] = outcome.history[-1].loss
    row["seconds"] = round(sum(record.seconds for record in outcome.history), 1)
    row["side_by_side"] = settings.at_once
    print(f"{case.name}: {row['accuracy']:.2%} on the test set", flush=True)
    return {case.name: row}


def all_cases(settings: argparse.Namespace) -> list[Case]:
    """Return every case, so ordered that a group holds all variants of a seed."""
    return [
        Case(model, variant, seed)
        for model, seed, variant in itertools.product(
            settings.model, settings.seeds, settings.variant
        )
    ]


def losses_of(case: Case, outcome: TrainResult | Exception) -> dict[str, list[float]]:
    """Return the training loss of every epoch so far, by the training's name."""
    if isinstance(outcome, Exception):
        return {}
    return {case.name: [round(record.loss, 4) for record in outcome.history]}


def earlier(
    path: Path, settings: argparse.Namespace
) -> tuple[dict[str, dict[str, Any]], dict[str, list[float]]]:
    """Return the rows that earlier calls finished and the losses of all, by name.

    Failed trainings are tried again.
    """
    if not path.exists():
        return {}, {}
    content = json.loads(path.read_text())
    rows = content["rows"]
    if any(row["epochs"] != settings.epochs for row in rows):
        raise SystemExit(f"{path} holds trainings of another length; give another --out")
    finished = {
        Case(row["model"], row["variant"], row["seed"]).name: row
        for row in rows
        if row["error"] is None
    }
    return finished, content.get("losses", {})


def save(
    settings: argparse.Namespace, rows: dict[str, dict[str, Any]], losses: dict[str, list[float]]
) -> list[dict[str, Any]]:
    """Write the rows, and return mean and spread over the seeds of each model and variant."""
    scores: dict[tuple[str, str], list[float]] = {}
    for row in rows.values():
        if row["accuracy"] is not None:
            scores.setdefault((row["model"], row["variant"]), []).append(row["accuracy"])
    summary = [
        {
            "model": model,
            "variant": variant,
            "seeds": len(values),
            "mean": statistics.fmean(values),
            "spread": statistics.stdev(values) if len(values) > 1 else None,
        }
        for (model, variant), values in scores.items()
    ]
    content = {
        "kind": "engine accuracy",
        "settings": {"images": settings.images, "recipe": recipe_for(settings).to_mapping()},
        "circumstances": circumstances(torch.device(settings.device)),
        "summary": summary,
        "rows": list(rows.values()),
        "losses": losses,
    }
    write_json(settings.out / "accuracy.json", content)
    return summary


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the binary files")
    parser.add_argument("--out", type=Path, required=True, help="folder to write and resume from")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--model", action="append", default=None)
    parser.add_argument("--variant", action="append", default=None)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--images", type=int, default=50_000)
    parser.add_argument("--seconds", type=float, default=540, help="stop after about so long")
    parser.add_argument("--at-once", type=int, default=12, help="trainings side by side")
    parser.add_argument("--checkpoint-every", type=int, default=10)
    settings = parser.parse_args()
    settings.model = settings.model or ["resnet56"]
    settings.variant = settings.variant or ["auto"]
    return settings


if __name__ == "__main__":
    main()
