"""``triprune status``: how far a run is. Exit 0: finished, 2: not whole, 3: running, 4: stopped."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from triprune.run.progress import BudgetStatus, Status

_DAMAGED = 2  # as any error
_EXIT = {"finished": 0, "running": 3, "stopped": 4}


def status(run: Annotated[Path, typer.Argument(help="The folder of a triprune run.")]) -> None:
    """Tell how far a run is: running, stopped or finished (exit code 3, 4 or 0); not whole: 2."""
    from triprune.cli.outcome import print_outcome
    from triprune.run.progress import status as read_status

    found = read_status(run)
    by = f" ({found.worker})" if found.worker else ""
    faults = [f"damaged: {each}" for each in found.damaged]
    faults += [f"missing: {each}" for each in found.missing]
    typer.echo(f"{found.state}{', but not whole' if faults else ''}{by}: {run}")
    typer.echo("\n".join(_lines(found)))
    for outcome in found.outcomes:
        print_outcome(outcome)
        home = run / "small" / f"{100 * outcome.budget:g}"
        if home.is_dir():
            typer.echo(f"The smaller model: {home}")
    if faults:
        typer.echo("\n".join(faults))
        sys.exit(_DAMAGED)
    if found.state == "stopped":
        typer.echo("The command that began it goes on with it.")
    sys.exit(_EXIT[found.state])


def _lines(found: Status) -> list[str]:
    rounds = [
        f"{axis} {done}" + (f" of {found.planned[axis]}" if found.planned else "")
        for axis, done in found.rounds.items()
    ]
    under_way = [f"under way: {', '.join(found.under_way)}"] if found.under_way else []
    return [
        f"rounds: {', '.join(rounds)}; predictor {'fitted' if found.fitted else 'not fitted yet'}",
        *map(_budget_line, found.budgets),
        *under_way,
    ]


def _budget_line(budget: BudgetStatus) -> str:
    asked = budget.asked
    controls = " with controls" if len(asked.spends) > 1 else ""
    seeds = f", {asked.seeds} seeds" if asked.seeds > 1 else ""
    so_far = "" if budget.state == "finished" else f", {budget.finals} final models so far"
    return f"budget {asked.budget:.4g}{controls}{seeds}: {budget.state}{so_far}"
