"""``triprune choose`` and ``triprune finish``: another budget from a run's own observations."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from triprune.cli.resuming import SECONDS_HELP

_Folder = Annotated[Path, typer.Argument(help="The folder of a triprune run.")]
_Budget = Annotated[str, typer.Option(help="What may remain: 35% or 0.35.")]


def choose(
    run: _Folder,
    budget: _Budget,
    round_to: Annotated[
        int | None, typer.Option(help="Keep channels in multiples, as 8; else as the run does.")
    ] = None,
) -> None:
    """Tell which scale another budget buys, by costs measured on the model; trains nothing."""
    from triprune.core.budget import run_budget
    from triprune.core.doubting import doubts
    from triprune.run.collected import open_finished
    from triprune.run.rounding import choose as choose_step
    from triprune.run.rounding import rounded

    case, known, fitted = open_finished(run)
    if round_to is not None:
        case, known = rounded(case, known, round_to)
    remaining = run_budget(budget)
    found = choose_step(case, known, fitted, budget=remaining)
    assert found.choice is not None
    scale, (low, high) = found.choice.scale, found.choice.interval
    by = case.settings.cost
    paid = "" if by == "macs" else f"{found.choice.cost:.1%} of the cost by {by}; "
    typer.echo(
        f"budget {remaining:.1%}: depth {scale.depth:.3f}, width {scale.width:.3f}, "
        f"resolution {scale.resolution:.3f}; {found.macs:,} macs "
        f"({found.macs / known.macs:.1%}); {paid}accuracy {found.choice.predicted_accuracy:.2%} "
        f"({low:.2%} to {high:.2%})"
    )
    if found.note:
        typer.echo(f"note: {found.note}")
    for doubt in doubts(fitted.predictor, found.choice):
        typer.echo(f"warning: {doubt}")


def finish(
    run: _Folder,
    budget: _Budget,
    seconds: Annotated[float | None, typer.Option(help=SECONDS_HELP)] = None,
) -> None:
    """Prune and fine-tune for another budget; no chain is run again."""
    from triprune.cli.run import start
    from triprune.core.budget import run_budget
    from triprune.places import place
    from triprune.run.collected import require_collected

    start(require_collected(run), place(run), run_budget(budget), seconds=seconds)
