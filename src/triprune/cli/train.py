"""``triprune train``: a model from scratch, on the images that a run of it will train on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from triprune.cli.resuming import (
    SECONDS_HELP,
    VALIDATION_HELP,
    read_validation,
    refuse_beside_config,
    resumable,
)
from triprune.errors import InputError


def train(
    context: typer.Context,
    out: Annotated[Path | None, typer.Option(help="The .safetensors file to write.")] = None,
    model: Annotated[str | None, typer.Option(help="As for triprune profile.")] = None,
    data: Annotated[str | None, typer.Option(help="A folder, or fashion-mnist-small.")] = None,
    config: Annotated[
        list[Path] | None,
        typer.Option(help="The TOML file of a run: writes its weights. Several train at once."),
    ] = None,
    recipe: Annotated[
        str | None, typer.Option(help="cifar10, tiny-imagenet, imagenet or demo.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Other than the recipe's.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Other than the recipe's.")] = None,
    seed: Annotated[int, typer.Option(help="Divides the images, begins the weights.")] = 0,
    resolution_px: Annotated[int | None, typer.Option(help="The size to read images at.")] = None,
    validation: Annotated[str, typer.Option(help=VALIDATION_HELP)] = "0.1",
    device: Annotated[str | None, typer.Option(help="cpu or cuda.")] = None,
    seconds: Annotated[float | None, typer.Option(help=SECONDS_HELP)] = None,
) -> None:
    """Train a model from scratch; given again, the command goes on where it was."""
    from triprune.learning.deadline import Deadline
    from triprune.learning.progress import terminal_watcher
    from triprune.learning.recipe import Recipe
    from triprune.run.baseline import train_baselines
    from triprune.run.spec import RunSpec, default_recipe

    if config is None and (model is None or out is None):
        raise InputError("triprune train", "it needs --model and --out, or --config", "give either")
    if config is not None:
        refuse_beside_config(context, {"config", "seconds"})
        specs = [RunSpec.from_toml(path) for path in config]
    else:
        source: dict[str, Any] = {} if data is None else {"data": data}
        settings = {"budget": 0.5, "seed": seed, "device": device}  # no budget is spent here
        told = {"model": model, "weights": str(out), "resolution_px": resolution_px, **source}
        told |= {"validation": read_validation(validation), "settings": settings}
        spec = RunSpec.from_mapping(told)
        chosen = Recipe.preset(recipe) if recipe is not None else default_recipe(spec.data)
        changes = {"epochs": epochs, "batch_size": batch_size}
        given = {name: value for name, value in changes.items() if value is not None}
        specs = [spec.with_recipe(Recipe.from_mapping({**chosen.to_mapping(), **given}))]
    deadline = None if seconds is None else Deadline(seconds)
    with resumable():
        results = train_baselines(specs, [terminal_watcher()], deadline)
    for spec in specs:
        result = results.get(Path(spec.weights or ""))
        told_of = "was there" if result is None else f"accuracy {result.accuracy:.2%} on validation"
        typer.echo(f"{spec.weights}: {told_of}")
