r"""Fine-tune a config's original at one scale by several recipes, side by side, on validation.

    python benchmarks/fine_tuning.py configs/cifar10-resnet56.toml --scale 0.78,0.82,0.97 \
        --variant fp16 fp16+distillation=0.9+temperature=8 --seeds 0 1 --epochs 40 \
        --out results/fine_tuning/NAME.json

The cut is the run's own, and so are its judge of blocks and its trainer; each variant changes the
config's recipe for the final fine-tuning. Scale 1,1,1 tells what a recipe makes of the original
itself. ``--test`` opens the test split at the end, for references that nothing is chosen by. Stops
before ``--seconds`` are over; what was not finished is recorded as stopped. It needs torch, numpy
and safetensors.
"""

from __future__ import annotations

import argparse
import copy
import itertools
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from kept_answers import KeptMemory
from machine import circumstances
from scales import read_scale
from study_rows import Row, Study, every
from triprune.core.scale import Scale
from triprune.errors import InputError, RunStoppedError, TrainingError, TripruneError
from triprune.learning.deadline import Deadline
from triprune.learning.precision import resolved_precision
from triprune.learning.recipe import Recipe
from triprune.learning.turns import Work, drive
from triprune.network.plan import Plan
from triprune.run.block_worth import scores_of_blocks
from triprune.run.case import Case
from triprune.run.opening import open_case
from triprune.run.spec import RunSpec
from triprune.run.steps import original_task, task_of
from triprune.run.trainer import ImageTrainer, Task
from variants import recipe_of

KIND = "fine-tuning study"
OPENED = "opened once, at the end, for the original and every finished row; nothing is chosen by it"


def main() -> None:
    settings = parse()
    try:
        if settings.out.exists():
            raise InputError(f"writing {settings.out}", "it is there already", "give another --out")
        scale, spec = read_scale(settings.scale), read_spec(settings)
        rows = read_rows(spec, settings)
        deadline = Deadline(settings.seconds)
        run(open_case(spec, deadline=deadline), scale, rows, settings)
    except TripruneError as error:
        raise SystemExit(f"{error}") from error


def run(case: Case, scale: Scale, rows: Sequence[Row], settings: argparse.Namespace) -> None:
    """Cut the original for each row, fine-tune all of them, and write down what came of it."""
    accuracy = case.trainer.validate(original_task(case))
    print(f"original: {accuracy:.2%} on validation", flush=True)
    scores = scores_of_blocks(case, case.subject.blocks()) if scale.depth < 1.0 else {}
    model, plan = case.subject.cut(scale, scores)
    tasks = [final_task(row, case, copy.deepcopy(model), plan) for row in rows]
    about = {"kind": KIND, "config": settings.config.name, **about_cut(case, scale, tasks[0])}
    about |= {"original": {"accuracy": accuracy}, "epochs": settings.epochs}
    about |= {"recipes": {row.what: row.tuning.to_mapping() for row in rows}}
    fine_tune_all(case, about, list(zip(rows, tasks, strict=True)), settings)


def fine_tune_all(
    case: Case,
    about: dict[str, Any],
    pairs: Sequence[tuple[Row, Task]],
    settings: argparse.Namespace,
) -> None:
    """Fine-tune every row side by side, open the test split if so asked, and write it all down."""
    rows = [row for row, _ in pairs]
    study = Study(settings.out, about, rows)
    distilled = sum(row.tuning.epochs for row in rows if row.recipe.distillation)
    # Copies of one trainer share what the original answered.
    assert isinstance(case.trainer, ImageTrainer)
    trainer = replace(
        case.trainer,
        watchers=[study],
        planned_epochs=distilled,
        validate_every=settings.validate_every,
    )
    if settings.answers is not None:
        trainer = replace(trainer, memory=KeptMemory(settings.answers))
    drive([tuned(replace(trainer, recipe=row.recipe), row, task) for row, task in pairs])
    study.save()
    if settings.test:
        about["test"] = {"note": OPENED, "original": trainer.test(original_task(case))}
        for row, task in pairs:
            row.test_accuracy = trainer.test(task) if row.finished else None
        study.save()
    for row in rows:
        print(row.line(), flush=True)


def about_cut(case: Case, scale: Scale, task: Task) -> dict[str, Any]:
    """Return what was asked, what was built, and where."""
    return {
        "circumstances": circumstances(torch.device(case.device)),
        "scale": asdict(scale),
        "realised": asdict(task.scale),
        "resolution_px": task.resolution_px,
        "macs": case.subject.cost_of(task.model, task.resolution_px)[0],
    }


def final_task(row: Row, case: Case, model: nn.Module, plan: Plan) -> Task:
    """Return the final fine-tuning of ``model``, as a run would begin it."""
    task = task_of(row.name, model, plan)
    return replace(task, final=True, seed=row.seed, original=case.subject.model)


def tuned(trainer: ImageTrainer, row: Row, task: Task) -> Work[None]:
    """Fine-tune one row; that its time is up, or that it failed, ends no other."""
    try:
        yield from trainer.fine_tune(task)
        row.finished = True
    except RunStoppedError:
        return
    except TrainingError as error:
        row.error = f"{error}"


def read_spec(settings: argparse.Namespace) -> RunSpec:
    """Return the config's run with what the command line says instead."""
    spec = RunSpec.from_toml(settings.config)
    instead = {name: getattr(settings, name) for name in ("data", "weights")}
    spec = replace(spec, **{name: value for name, value in instead.items() if value is not None})
    if settings.device is None:
        return spec
    return replace(spec, settings=replace(spec.settings, device=settings.device))


def read_rows(spec: RunSpec, settings: argparse.Namespace) -> list[Row]:
    """Return every variant with every seed; refuse settings that do not exist, or a row twice."""
    device = device_of(spec)
    rows: dict[tuple[Recipe, int], Row] = {}
    for what, seed in itertools.product(settings.variant, settings.seeds):
        begun = replace(spec.settings.recipe, final_epochs=settings.epochs)
        row = Row(what, seed, recipe_of(what, begun))
        refuse_what_cannot_be(row, device)
        same = rows.setdefault((row.tuning, seed), row)
        if same is not row:
            raise InputError(
                f"{row.name} beside {same.name}",
                "the final fine-tuning would be the same",
                "give every variant and every seed once",
            )
    return list(rows.values())


def device_of(spec: RunSpec) -> torch.device:
    """Return where a study of this run will train."""
    return torch.device(spec.settings.device or ("cuda" if torch.cuda.is_available() else "cpu"))


def refuse_what_cannot_be(row: Row, device: torch.device) -> None:
    """Refuse a precision that the device lacks, and settings that would only seem tried.

    Those are settings that the final fine-tuning does not follow.
    """
    resolved_precision(row.recipe.precision, device)
    idle = {"epochs", "round_epochs", "final_epochs"}
    if row.recipe.final_rate is not None:
        idle |= {"rate", "round_rate"}
    elif row.recipe.round_rate is not None:
        idle |= {"rate"}
    named = sorted(idle & {setting.partition("=")[0] for setting in row.what.split("+")[1:]})
    if named:
        raise InputError(
            f"the fine-tuning {row.what}",
            f"the final fine-tuning does not follow {', '.join(named)}",
            "give final_rate, and --epochs",
        )


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("config", type=Path, help="a run's TOML file")
    parser.add_argument("--scale", required=True, help="kept depth,width,resolution")
    parser.add_argument("--variant", nargs="+", required=True, help="as fp16+temperature=8")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument(
        "--validate-every", type=every, default=1, help="epochs; the last one always"
    )
    parser.add_argument("--out", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--test", action="store_true", help="open the test split at the end")
    parser.add_argument("--seconds", type=float, default=540, help="stop after about so long")
    parser.add_argument("--data", help="instead of the config's")
    parser.add_argument("--weights", help="instead of the config's")
    parser.add_argument("--device", help="instead of the config's")
    parser.add_argument("--answers", type=Path, help="keep a teacher's answers in this folder")
    return parser.parse_args()


if __name__ == "__main__":
    main()
