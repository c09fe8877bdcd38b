"""Owns the command line: parse, call, print; refuses to hold any logic of its own.

One module a command. Each imports what it needs inside the function that runs, so that
``triprune --help`` answers at once and torch is loaded only by the commands that use it.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from triprune import __version__
from triprune.cli.bench import bench
from triprune.cli.data import data
from triprune.cli.export import export
from triprune.cli.finish import choose, finish
from triprune.cli.predict import predict
from triprune.cli.profile import profile
from triprune.cli.quote import quote
from triprune.cli.report import report
from triprune.cli.run import run
from triprune.cli.status import status
from triprune.cli.train import train
from triprune.errors import TripruneError

app = typer.Typer(
    name="triprune",
    help="Make a trained CNN cheaper: keep the right depth, width and resolution, together.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


app.command("train")(train)
app.command("run")(run)
app.command("status")(status)
app.command("quote")(quote)
app.command("choose")(choose)
app.command("finish")(finish)
app.command("export")(export)
app.command("predict")(predict)
app.command("report")(report)
app.command("bench")(bench)
app.command("profile")(profile)
app.command("data")(data)


def main() -> None:
    """Run the command line; turn our own errors into one readable line and exit code 2."""
    try:
        app()
    except TripruneError as error:
        typer.echo(f"triprune: {error}", err=True)
        sys.exit(2)
