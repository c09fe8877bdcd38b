"""``triprune run``: from a trained model to a smaller one; run again, it goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from triprune.cli.resuming import (
    SECONDS_HELP,
    VALIDATION_HELP,
    read_validation,
    refuse_beside_config,
    resumable,
)
from triprune.errors import InputError
from triprune.places import Place, place

if TYPE_CHECKING:
    from triprune.run.artifacts import Survey
    from triprune.run.case import Case
    from triprune.run.due import Left
    from triprune.run.spec import RunSpec


def run(
    context: typer.Context,
    out: Annotated[
        str, typer.Option(help="The run folder or fsspec URL; named again, the run goes on.")
    ],
    model: Annotated[str | None, typer.Option(help="As for triprune profile.")] = None,
    weights: Annotated[Path | None, typer.Option(help="The trained .safetensors.")] = None,
    data: Annotated[str | None, typer.Option(help="A folder, or fashion-mnist-small.")] = None,
    budget: Annotated[str | None, typer.Option(help="What may remain: 50% or 0.5.")] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file instead of flags.")] = None,
    chains_to: Annotated[
        str | None, typer.Option(help="Observe down to this part of the cost, below the budget.")
    ] = None,
    controls: Annotated[
        bool, typer.Option("--controls", help="Also spend the budget on each axis alone.")
    ] = False,
    seeds: Annotated[int, typer.Option(help="Final fine-tunings of each choice.")] = 1,
    rounds: Annotated[int, typer.Option(help="Rounds of each chain.")] = 4,
    recipe: Annotated[
        str | None, typer.Option(help="cifar10, tiny-imagenet, imagenet or demo.")
    ] = None,
    effort: Annotated[
        str,
        typer.Option(help="How much of the recipe's fine-tuning to spend: paper, standard, quick."),
    ] = "standard",
    cost: Annotated[
        str, typer.Option(help="macs, params, latency (all measured) or paper (d·w²·r²).")
    ] = "macs",
    executor: Annotated[str, typer.Option(help="inline, side-by-side or ray.")] = "side-by-side",
    ray_address: Annotated[
        str | None, typer.Option(help="Where a Ray cluster answers; else this machine's.")
    ] = None,
    gpus_per_chain: Annotated[int, typer.Option(help="GPUs that train one model (ray).")] = 1,
    seed: Annotated[int, typer.Option(help="The first seed.")] = 0,
    resolution_px: Annotated[int | None, typer.Option(help="The size to read images at.")] = None,
    validation: Annotated[str, typer.Option(help=VALIDATION_HELP)] = "0.1",
    device: Annotated[str | None, typer.Option(help="cpu or cuda.")] = None,
    round_to: Annotated[int, typer.Option(help="Keep channels in multiples, as 8.")] = 1,
    seconds: Annotated[float | None, typer.Option(help=SECONDS_HELP)] = None,
) -> None:
    """Make a model smaller: observe each axis, choose jointly, fine-tune, measure."""
    from triprune.learning.recipe import Recipe
    from triprune.run.spec import RunSpec, default_recipe

    if config is not None:
        refuse_beside_config(context, {"config", "out", "seconds"})
        spec = RunSpec.from_toml(config)
    else:
        if model is None or budget is None:
            raise InputError("triprune run", "no model or no budget", "give --model and --budget")
        source: dict[str, Any] = {} if data is None else {"data": data}
        spec = RunSpec.from_mapping(
            {
                "model": model,
                "weights": None if weights is None else str(weights),
                "resolution_px": resolution_px,
                "validation": read_validation(validation),
                **source,
                "settings": {
                    "budget": budget,
                    "chains_to": chains_to,
                    "rounds": rounds,
                    "effort": effort,
                    "cost": cost,
                    "controls": controls,
                    "seeds": seeds,
                    "seed": seed,
                    "executor": executor,
                    "ray_address": ray_address,
                    "gpus_per_chain": gpus_per_chain,
                    "device": device,
                    "round_to": round_to,
                },
            }
        )
        chosen = Recipe.preset(recipe) if recipe is not None else default_recipe(spec.data)
        spec = spec.with_recipe(chosen)
    start(spec, place(out), seconds=seconds)


def start(
    spec: RunSpec, out: Place, budget: float | None = None, *, seconds: float | None = None
) -> None:
    """Run ``spec`` in ``out``, for another ``budget`` if one is given; print the result."""
    from triprune.cli.outcome import print_outcome
    from triprune.files import write_atomically
    from triprune.learning.deadline import Deadline
    from triprune.learning.progress import terminal_watcher
    from triprune.report.page import to_page
    from triprune.run.opening import open_case
    from triprune.run.pipeline import Pipeline
    from triprune.run.reporting import report_on_run
    from triprune.run.store import Store

    with resumable():
        typer.echo("reading the data and the model, then measuring the original", err=True)
        deadline = None if seconds is None else Deadline(seconds)
        case = open_case(spec, [terminal_watcher()], deadline)
        pipeline = Pipeline(case, Store(out))
        finished = pipeline.finished(budget or case.settings.budget)
        result = replace(pipeline, announce=None if finished else _announce).run(budget)
        if finished:
            typer.echo(f"finished already: {out}; nothing was trained again")
        home = result.save_in(out / "small" / f"{100 * result.outcome.budget:g}")
    print_outcome(result.outcome)
    typer.echo(f"The smaller model: {home}\nEverything else:   {out}")
    page = to_page(report_on_run(out, result.outcome.budget))
    typer.echo(f"The report:        {write_atomically(out / 'report.html', page)}")


def _announce(case: Case, known: Survey, left: Left) -> None:
    from triprune.learning.progress import clock
    from triprune.run.estimate import estimate

    expected = estimate(case, known, left)
    counts = {"models in three chains": expected.rounds, "final fine-tunings": expected.finals}
    to_do = ", then ".join(f"{count} {what}" for what, count in counts.items() if count)
    lines = [
        f"original: accuracy {known.accuracy:.2%} on validation images, {known.macs:,} macs, "
        f"{known.params:,} params",
        f"to do: {to_do or 'nothing to train'}; {expected.epochs} epochs in all "
        f"({case.trainer.epochs(False)} a round, {case.trainer.epochs(True)} at the end; "
        f"effort {case.settings.effort})",
    ]
    if expected.seconds is not None:
        lines.append(f"about {clock(expected.seconds)}; what is there is not redone")
    elif case.settings.executor == "ray":
        lines.append("how long that takes is for the cluster's workers to show")
    typer.echo("\n".join([*lines, *(f"note: {note}" for note in known.notes)]))
