r"""Do the whole job anew from every seed: other images, another original, chains, choice, finals.

    python benchmarks/whole_runs.py --data data/cifar10 --seed 1 --out results/whole_runs/seed-1.json

One collection of observations does not tell how another would have chosen. Here the seed decides
everything: which of CIFAR-10's training images a ResNet-20 learns from, judges by and is tested on,
its training, the chains and the final models. The budget is spent jointly and on each axis alone,
and jointly once more after chains that go on below it (docs/adr/0108). Few images and few epochs:
made for CPU cores. A call that was stopped goes on in ``--work``. The official test images stay
closed.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

import triprune
from cifar10_files import read_train
from machine import circumstances, write_json
from triprune import Job, Recipe, Settings
from triprune.errors import InputError, TripruneError
from triprune.learning.images import ImageSet, SealedTest, Splits
from triprune.run.artifacts import Chosen, TrainedModel
from triprune.run.collected import read_collected
from triprune.run.store import Store

KIND = "the whole job, drawn anew"
MODEL, BUDGET = "resnet20", 0.5
CHAINS_TO = {"budget": None, "half of it": BUDGET / 2}
RECIPE = Recipe(
    epochs=20,
    warmup_epochs=1.0,
    round_epochs=2,
    final_epochs=8,
    final_rate=0.1,
    distillation=0.5,
)


@dataclass(frozen=True, slots=True)
class Counts:
    """How many images a run learns from, judges by and is tested on; no image twice."""

    train: int = 10_000
    validation: int = 5_000
    test: int = 10_000

    def draw(self, images: ImageSet, seed: int) -> Splits:
        """Return other images for every seed."""
        wanted = self.train + self.validation + self.test
        if wanted > len(images):
            raise InputError(f"{wanted:,} images", f"{len(images):,} are there", "ask for fewer")
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
        train, validation, test, _ = (
            images.take(part)
            for part in order.split(
                [self.train, self.validation, self.test, len(images) - wanted]
            )
        )
        return Splits(train, validation, SealedTest(test))


def main() -> None:
    asked = parse()
    try:
        if asked.out.exists():
            raise InputError(f"writing {asked.out}", "it is there already", "give another --out")
        images = read_train(asked.data)
        recipe, counts = RECIPE, Counts()
        if asked.rehearse:
            recipe = replace(RECIPE, epochs=2, round_epochs=1, final_epochs=1)
            counts = Counts(400, 200, 400)
        write_json(asked.out, repeat(images, counts, recipe, asked.seed, asked.work))
    except TripruneError as error:
        raise SystemExit(f"{error}") from error


def repeat(
    images: ImageSet, counts: Counts, recipe: Recipe, seed: int, work: Path
) -> dict[str, Any]:
    """Return what came of the whole job with this seed."""
    home = work / f"seed-{seed}"
    original, accuracy = trained_original(counts.draw(images, seed), recipe, seed, home)
    print(f"seed {seed}: the original has {accuracy:.2%} on validation", flush=True)
    runs: dict[str, Any] = {}
    for name, end in CHAINS_TO.items():
        settings = Settings(
            BUDGET, recipe=recipe, effort="paper", seed=seed, controls=end is None, chains_to=end
        )
        folder = home / f"chains-to-{settings.chains_end:g}"
        # Drawn anew, so that every run opens its test images once.
        data = counts.draw(images, seed)
        result = triprune.compress(original, data, budget=BUDGET, settings=settings, out=folder)
        runs[name] = about_run(Store(folder), folder) | {
            "test": {row.name: row.accuracy for row in result.outcome.rows},
            "macs": {row.name: row.macs for row in result.outcome.rows},
        }
        print(f"seed {seed}, chains to the {name}: {runs[name]['test']}", flush=True)
    return {
        "kind": KIND,
        "model": MODEL,
        "seed": seed,
        "budget": BUDGET,
        "images": [counts.train, counts.validation, counts.test],
        "recipe": recipe.to_mapping(),
        "original": accuracy,
        "runs": runs,
        "circumstances": circumstances(torch.device("cpu")),
    }


def trained_original(
    splits: Splits, recipe: Recipe, seed: int, home: Path
) -> tuple[nn.Module, float]:
    """Return the original and its validation accuracy; a training that was begun goes on."""
    home.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(seed)
    model = triprune.build_model(MODEL)
    job = Job(
        model,
        splits.train,
        recipe.from_scratch(),
        validation=splits.validation,
        seed=seed,
        checkpoint=home / "original.safetensors",
        validate_every=recipe.epochs,
    )
    trained = triprune.train(job)
    assert trained.accuracy is not None
    return trained.model, trained.accuracy


def about_run(store: Store, folder: Path) -> dict[str, Any]:
    """Return what a finished run observed, chose and found on validation."""
    known, _, observations = read_collected(folder)
    home = f"budget-{100 * BUDGET:g}"
    finals: dict[str, Any] = {}
    for spends in ("joint", "depth", "width", "resolution"):
        if not store.has(f"{home}/{spends}"):
            continue
        choice = store.read(f"{home}/{spends}", Chosen).choice
        (key,) = store.keys(f"{home}/{spends}-seed-*")
        final = store.read(key, TrainedModel, with_tensors=False)
        assert choice is not None
        finals[spends] = {
            "scale": [*final.plan.realised],
            "forecast": choice.predicted_accuracy,
            "validation": final.accuracy,
        }
    return {
        "original": known.accuracy,
        "observations": [[*each.scale, each.accuracy] for each in observations],
        "finals": finals,
    }


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="the official binary files")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--work", type=Path, default=Path("runs/whole"), help="for what is under way")
    parser.add_argument("--out", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--rehearse", action="store_true", help="on a handful of images")
    return parser.parse_args()


if __name__ == "__main__":
    main()
