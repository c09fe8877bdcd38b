r"""Train the originals of whole_runs.py on as their cuts are trained, and divide the recipe.

    OMP_NUM_THREADS=1 python benchmarks/whole_runs_further.py --data cifar10 --seed 1 \
        --beside results/whole_runs/seed-1.json --out results/whole_runs/further-1.json

A final model has trained on from its original, from a large rate and beside a teacher; the original
has not. Here it does, too. And the cut in width alone is trained without the teacher, from a tenth
of the rate, and by both (docs/adr/0111). The original is made again from its seed, and must have
the accuracy that is recorded. A call that was stopped goes on in ``--work``.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from cifar10_files import read_train
from machine import circumstances, write_json
from triprune.core.reach import spent_alone
from triprune.core.scale import Scale
from triprune.errors import InputError, TripruneError
from triprune.learning.images import Splits
from triprune.learning.recipe import Recipe
from triprune.learning.turns import drive
from triprune.run.case import Case
from triprune.run.compress import checked_subject
from triprune.run.costing import Meter
from triprune.run.spec import Settings
from triprune.run.steps import task_of
from triprune.run.trainer import ImageTrainer
from whole_runs import (
    BUDGET,
    FULL,
    REHEARSAL,
    Procedure,
    arguments,
    home_of,
    trained_original,
)

KIND = "the original trained on, and the recipe divided"
GENTLE_RATE = 0.01


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--beside", type=Path, help="the record that whole_runs.py wrote of it")
    asked = parser.parse_args()
    procedure = REHEARSAL if asked.rehearse else FULL
    try:
        home = home_of(asked)
        splits = procedure.draw(read_train(asked.data), asked.seed)
        beside = None if asked.beside is None else json.loads(asked.beside.read_text())
        write_json(asked.out, do(procedure, splits, asked.seed, beside, home))
    except TripruneError as error:
        raise SystemExit(f"{error}") from error


def do(
    procedure: Procedure, splits: Splits, seed: int, beside: dict[str, Any] | None, home: Path
) -> dict[str, Any]:
    """Return what each fine-tuning reaches; ``beside`` is the record of the seed's whole job."""
    original, accuracy = trained_original(procedure, splits, seed, home)
    if beside is not None and accuracy != beside["original"]:
        raise InputError(
            f"the original of seed {seed}",
            f"it has {accuracy:.2%} on validation, {beside['original']:.2%} on record",
            "train on the kind of processor that made the record",
        )
    found: dict[str, Any] = {}
    for name, (cut, recipe) in trainings(procedure.recipe).items():
        found[name] = fine_tuned(original, splits, seed, cut=cut, recipe=recipe, home=home)
        print(f"seed {seed}, {name}: {found[name]}", flush=True)
    return {
        "kind": KIND,
        "model": procedure.model,
        "seed": seed,
        "original": accuracy,
        "recipe": procedure.recipe.to_mapping(),
        "trainings": found,
        "circumstances": circumstances(torch.device("cpu")),
    }


def trainings(recipe: Recipe) -> dict[str, tuple[bool, Recipe]]:
    """Return, by name, whether the width is cut, and how the final fine-tuning goes."""
    return {
        "original trained on": (False, recipe),
        "width alone, no teacher": (True, replace(recipe, distillation=0.0)),
        "width alone, small rate": (True, replace(recipe, final_rate=GENTLE_RATE)),
        "width alone, small rate, no teacher": (
            True,
            replace(recipe, final_rate=GENTLE_RATE, distillation=0.0),
        ),
    }


def fine_tuned(
    original: nn.Module, splits: Splits, seed: int, *, cut: bool, recipe: Recipe, home: Path
) -> dict[str, Any]:
    """Fine-tune a copy of the original, or its cut in width alone, as a run does at its end."""
    settings = Settings(BUDGET, recipe=recipe, device="cpu", effort="paper", seed=seed)
    trainer = ImageTrainer(splits, settings.spent_recipe, "cpu")
    case = Case(checked_subject(original, trainer, settings), trainer, settings)
    subject, scale = case.subject, Scale()
    if cut:
        alone = spent_alone(subject.lattice(subject.blocks()), "width", Meter(subject, {}), BUDGET)
        assert alone is not None
        scale = alone
    model, plan = subject.cut(scale, {})
    name = f"{scale.width:.4f}-{recipe.final_rate:g}-{recipe.distillation:g}"
    task = task_of(name, model, plan, checkpoint=home / f"further-{name}.safetensors")
    task = replace(task, final=True, seed=seed, original=subject.model)
    (tuned,) = drive([trainer.fine_tune(task)])
    return {
        "scale": [*plan.realised],
        "macs": subject.cost_of(model, plan.resolution_px)[0],
        "validation": tuned.accuracy,
        "test": trainer.test(task),
    }


if __name__ == "__main__":
    main()
