r"""Compare final models of a run image by image: how much of a lead is left to chance in images.

    python benchmarks/paired.py runs/cifar10-densenet40 joint width --out results/cifar10/NAME.json

Seeds tell how a training varies; they do not tell how another ten thousand images would judge. Two
models agree on most images, so their lead is uncertain by those on which they do not: the standard
error of the difference, image by image, of what the seeds get right on average. It needs the run's
final weights, its data and nothing else; what it opens has been opened by the run's last step.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from machine import circumstances, write_json
from triprune.errors import RunError, TripruneError
from triprune.learning.evaluation import Inputs, evaluating
from triprune.learning.images import ImageSet, ImageStream
from triprune.run.artifacts import TrainedModel
from triprune.run.keys import Home, finals
from triprune.run.opening import open_case
from triprune.run.spec import RunSpec
from triprune.run.steps import restore
from triprune.run.store import Store
from triprune.run.trainer import ImageTrainer

KIND = "paired comparison"


def main() -> None:
    settings = parse()
    try:
        found = compare(settings.run, settings.one, settings.other, data=settings.data)
    except TripruneError as error:
        raise SystemExit(f"{error}") from error
    for images, lead in found["leads"].items():
        print(
            f"{images}, {lead['images']:,} images: {settings.one} leads {settings.other} by "
            f"{lead['points']:+.2f} ± {lead['standard_error']:.2f} points; "
            f"they differ on {lead['differ']:.1%} of them"
        )
    write_json(settings.out, found)


def compare(folder: Path, one: str, other: str, *, data: str | None) -> dict[str, Any]:
    """Return by how much one model of a finished run leads the other, by which images."""
    store = Store(folder)
    spec = RunSpec.from_mapping(store.facts()["spec"] | ({} if data is None else {"data": data}))
    case = open_case(spec)
    assert isinstance(case.trainer, ImageTrainer)
    splits = case.trainer.splits
    home = Home.of(spec.settings.budget)
    compared = {name: finals_of(store, home, name) for name in (one, other)}
    parts: dict[str, dict[str, Tensor]] = {"test": {}, "validation": {}}
    for name, trained in compared.items():
        models = [restore(case.subject.model, each) for each in trained]
        pixels = trained[0].plan.resolution_px
        parts["test"][name] = splits.test.open_once_for(
            lambda images, models=models, pixels=pixels: right(models, images, pixels)
        )
        parts["validation"][name] = right(models, splits.validation, pixels)
    parts["both"] = {
        name: torch.cat([parts["test"][name], parts["validation"][name]]) for name in compared
    }
    return {
        "kind": KIND,
        "run": folder.name,
        "between": [one, other],
        "seeds": {name: len(trained) for name, trained in compared.items()},
        "leads": {part: lead_of(each[one], each[other]) for part, each in parts.items()},
        "circumstances": circumstances(torch.device(case.device)),
    }


def finals_of(store: Store, home: Home, name: str) -> list[TrainedModel]:
    """Return a budget's final models of one kind, a seed each."""
    keys = finals(store, home, name).values()
    if not keys:
        raise RunError(
            f"comparing {name} of {store.folder}",
            f"no such final model is in {home.name}",
            "name joint, depth, width or resolution of a finished run",
        )
    return [store.read(key, TrainedModel) for key in keys]


@torch.no_grad()
def right(models: list[nn.Module], images: ImageSet | ImageStream, pixels: int) -> Tensor:
    """Return, for every image, the part of the models that know what it shows."""
    sums = torch.zeros(len(images))
    for model in models:
        with evaluating(model):
            answers = [
                (model(batch).argmax(1) == labels).cpu()
                for batch, labels in Inputs(model, images, resolution_px=pixels)
            ]
        sums += torch.cat(answers)
    return sums / len(models)


def lead_of(one: Tensor, other: Tensor) -> dict[str, float]:
    """Return the lead in points, and the standard error that other images would leave it with."""
    gap = (one - other).double()
    return {
        "images": len(gap),
        "points": 100 * gap.mean().item(),
        "standard_error": 100 * gap.std().item() / math.sqrt(len(gap)),
        "differ": (gap != 0).double().mean().item(),
    }


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("run", type=Path, help="the folder of a finished run, with its weights")
    parser.add_argument("one", help="joint, depth, width or resolution")
    parser.add_argument("other", help="likewise")
    parser.add_argument("--data", help="instead of the run's")
    parser.add_argument("--out", type=Path, required=True, help="the JSON file to write")
    return parser.parse_args()


if __name__ == "__main__":
    main()
