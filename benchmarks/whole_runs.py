r"""Do the whole job anew from a seed: other images, another original, chains, choice, final models.

    python benchmarks/whole_runs.py --data cifar10 --seed 1 --out results/whole_runs/seed-1.json

One collection of observations does not tell how another would have chosen. Here the seed decides
everything: which of CIFAR-10's training images a ResNet-20 learns from, judges by and is tested on,
its training, the chains and the final models. The budget is spent jointly and on each axis alone,
and jointly once more after chains of two other kinds (docs/adr/0109). Fewer images and epochs than
in the paper, so that many seeds can be afforded on CPU cores; what is left of the images is for the
test. A call that was stopped goes on in ``--work``. The official test images stay closed.
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
from triprune import Recipe, Settings
from triprune.errors import InputError, TripruneError
from triprune.learning.images import ImageSet, SealedTest, Splits
from triprune.run.artifacts import Chosen, TrainedModel
from triprune.run.collected import read_collected
from triprune.run.keys import Home, finals
from triprune.run.store import Store

KIND = "the whole job, drawn anew"
BUDGET = 0.5


@dataclass(frozen=True, slots=True)
class Chains:
    """A way to observe; what is under way goes to ``folder``. Controls need no second training."""

    folder: str
    controls: bool = False
    end: float | None = None
    rounds_like_finals: bool = False

    def settings(self, procedure: Procedure, seed: int) -> Settings:
        """Return what a run is asked for."""
        recipe = procedure.recipe
        if self.rounds_like_finals:
            recipe = replace(recipe, round_rate=recipe.final_rate)
        return Settings(
            BUDGET,
            rounds=procedure.rounds,
            recipe=recipe,
            device="cpu",
            effort="paper",
            seed=seed,
            controls=self.controls,
            chains_to=self.end,
        )


CHAINS = {
    "as in the paper": Chains("chains-to-0.5", controls=True),
    "to half of the budget": Chains("chains-to-0.25", end=BUDGET / 2),
    "from the rate of the finals": Chains("rounds-like-finals", rounds_like_finals=True),
}


@dataclass(frozen=True, slots=True)
class Procedure:
    """What every seed does: the network, how it is trained, and on how many images."""

    model: str
    recipe: Recipe
    rounds: int
    train: int
    validation: int
    test: int

    def draw(self, images: ImageSet, seed: int) -> Splits:
        """Return other images for every seed, none of them twice."""
        wanted = self.train + self.validation + self.test
        left = len(images) - wanted
        if left < 0:
            raise InputError(f"{wanted:,} images", f"{len(images):,} are there", "get all of them")
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
        parts = order.split([self.train, self.validation, self.test, left])
        train, validation, test = (images.take(part) for part in parts[:3])
        return Splits(train, validation, SealedTest(test))


FULL = Procedure(
    "resnet20",
    Recipe(
        epochs=20,
        warmup_epochs=1.0,
        round_epochs=2,
        final_epochs=8,
        final_rate=0.1,
        distillation=0.5,
    ),
    rounds=4,
    train=10_000,
    validation=5_000,
    test=35_000,
)
REHEARSAL = Procedure(
    "resnet14",
    Recipe(
        epochs=2, batch_size=32, round_epochs=1, final_epochs=1, final_rate=0.1, distillation=0.5
    ),
    rounds=2,
    train=128,
    validation=64,
    test=64,
)


def main() -> None:
    asked = arguments(__doc__).parse_args()
    procedure = REHEARSAL if asked.rehearse else FULL
    try:
        home = home_of(asked)
        write_json(asked.out, do(procedure, read_train(asked.data), asked.seed, home))
    except TripruneError as error:
        raise SystemExit(f"{error}") from error


def home_of(asked: argparse.Namespace) -> Path:
    """Return where a seed keeps what is under way; refuse to write over what it found before."""
    if asked.out.exists():
        raise InputError(f"writing {asked.out}", "it is there already", "give another --out")
    return asked.work / f"{'rehearsal' if asked.rehearse else 'seed'}-{asked.seed}"


def do(procedure: Procedure, images: ImageSet, seed: int, home: Path) -> dict[str, Any]:
    """Return what came of the whole job with this seed; what is under way is kept in ``home``."""
    original, accuracy = trained_original(procedure, procedure.draw(images, seed), seed, home)
    print(f"seed {seed}: the original has {accuracy:.2%} on validation", flush=True)
    runs: dict[str, Any] = {}
    for name, chains in CHAINS.items():
        folder, settings = home / chains.folder, chains.settings(procedure, seed)
        data = procedure.draw(images, seed)
        result = triprune.compress(original, data, budget=BUDGET, settings=settings, out=folder)
        runs[name] = about_run(folder) | {
            "test": {row.name: row.accuracy for row in result.outcome.rows},
            "macs": {row.name: row.macs for row in result.outcome.rows},
        }
        print(f"seed {seed}, chains {name}: {runs[name]['test']}", flush=True)
    return {
        "kind": KIND,
        "model": procedure.model,
        "seed": seed,
        "budget": BUDGET,
        "images": [procedure.train, procedure.validation, procedure.test],
        "recipe": procedure.recipe.to_mapping(),
        "original": accuracy,
        "runs": runs,
        "circumstances": circumstances(torch.device("cpu")),
    }


def trained_original(
    procedure: Procedure, splits: Splits, seed: int, home: Path
) -> tuple[nn.Module, float]:
    """Return the original and its validation accuracy; a training that was begun goes on."""
    home.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(seed)
    training = triprune.Job(
        triprune.build_model(procedure.model),
        splits.train,
        procedure.recipe.from_scratch(),
        validation=splits.validation,
        seed=seed,
        checkpoint=home / "original.safetensors",
        validate_every=procedure.recipe.epochs,
        device="cpu",
    )
    trained = triprune.train(training)
    assert trained.accuracy is not None
    return trained.model, trained.accuracy


def about_run(folder: Path) -> dict[str, Any]:
    """Return what a finished run observed, chose and found on validation."""
    store = Store(folder)
    known, _, observations = read_collected(folder)
    home = Home.of(BUDGET)
    found: dict[str, Any] = {}
    for spends in ("joint", "depth", "width", "resolution"):
        if not store.has(home.choice(spends)):
            continue
        choice = store.read(home.choice(spends), Chosen).choice
        (key,) = finals(store, home, spends).values()
        final = store.read(key, TrainedModel, with_tensors=False)
        assert choice is not None
        found[spends] = {
            "scale": [*final.plan.realised],
            "forecast": choice.predicted_accuracy,
            "validation": final.accuracy,
        }
    return {
        "original": known.accuracy,
        "observations": [[*each.scale, each.accuracy] for each in observations],
        "finals": found,
    }


def arguments(told: str | None) -> argparse.ArgumentParser:
    """Return what a script on whole jobs is given; ``told`` is its own docstring."""
    parser = argparse.ArgumentParser(description=(told or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="the official binary files")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument(
        "--work", type=Path, default=Path("runs/whole"), help="a folder for what is under way"
    )
    parser.add_argument("--out", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--rehearse", action="store_true", help="on a handful of images")
    return parser


if __name__ == "__main__":
    main()
