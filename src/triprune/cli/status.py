"""``triprune status``: how far a run is. Exit code 0: finished, 3: running, 4: stopped."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

_EXIT = {"finished": 0, "running": 3, "stopped": 4}


def status(run: Annotated[Path, typer.Argument(help="The folder of a triprune run.")]) -> None:
    """Tell how far a run is, running, stopped or finished (exit code 3, 4 or 0)."""
    from triprune.cli.outcome import print_outcome
    from triprune.run.progress import status as read_status

    found = read_status(run)
    by = f" ({found.worker})" if found.worker else ""
    typer.echo(f"{found.state}{by}: {run}")
    typer.echo("rounds: " + ", ".join(f"{axis} {n}" for axis, n in found.rounds.items()))
    typer.echo(f"predictor: {'fitted' if found.fitted else 'not yet'}")
    if found.under_way:
        typer.echo(f"under way: {', '.join(found.under_way)}")
    for outcome in found.outcomes:
        print_outcome(outcome)
    if found.state == "stopped":
        typer.echo("The command that began it goes on with it.")
    sys.exit(_EXIT[found.state])
