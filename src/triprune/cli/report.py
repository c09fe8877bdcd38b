"""``triprune report``: one HTML page on a run or on observations; text and figures too."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from triprune.errors import InputError
from triprune.places import Place, RemotePath, place

if TYPE_CHECKING:
    from triprune.report.contents import Report
    from triprune.report.payload import Drawn

_PIPED, _NARROWEST = 120, 60
"""Characters a line where no terminal says, and at least."""


def report(
    source: Annotated[Path, typer.Argument(help="A run folder, or a CSV of observations.")],
    out: Annotated[
        Path | None, typer.Option(help="Where the page goes: by default report.html in the folder.")
    ] = None,
    text: Annotated[
        bool, typer.Option("--text", help="Print it in the terminal instead of writing a page.")
    ] = False,
    figures: Annotated[
        Path | None, typer.Option(help="Also draw PNG and PDF figures into this folder.")
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="A finished budget other than the run's own, as 35%.")
    ] = None,
) -> None:
    """Show a run: how much smaller, faster and how accurate, and why to believe it."""
    from triprune.core.budget import run_budget
    from triprune.report.payload import Drawn

    found = read_source(source, None if budget is None else run_budget(budget))
    drawn = Drawn.of(found)
    if figures is not None:
        _draw(found, drawn, figures)
    if text:
        from rich.console import Console

        from triprune.report.text import to_text

        console = Console()
        width = console.width if console.is_terminal else _PIPED
        typer.echo(to_text(found, drawn, width=max(_NARROWEST, width)), nl=False)
        return
    from triprune.files import write_atomically
    from triprune.report.page import to_page

    typer.echo(write_atomically(out or _home(source), to_page(found, drawn)))


def _draw(found: Report, drawn: Drawn, folder: Path) -> None:
    """Write every figure as PNG and PDF."""
    from triprune.files import write_atomically
    from triprune.report.figures import as_bytes, figures

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"figures in {folder}", f"it cannot be a folder ({error.strerror})", "name another"
        ) from error
    for name, figure in figures(found, drawn).items():
        for kind in ("png", "pdf"):
            typer.echo(write_atomically(folder / f"{name}.{kind}", as_bytes(figure, kind)))


def read_source(source: Path, budget: float | None = None) -> Report:
    """Return the report on a run folder, or on a CSV, which needs no torch."""
    if is_folder(source):
        from triprune.run.reporting import report_on_run

        return report_on_run(place(source), budget)
    if budget is not None:
        raise InputError("a budget of a CSV", "nothing was finished for it", "leave --budget out")
    from triprune.run.file_report import report_on_file

    return report_on_file(source)


def is_folder(source: Path) -> bool:
    """Whether ``source`` is a folder, or a URL, which can be nothing else."""
    where = place(source)
    return isinstance(where, RemotePath) or where.is_dir()


def _home(source: Path) -> Place:
    """Return where a page goes unless it is told: into the run, or beside the CSV."""
    folder = is_folder(source)
    return place(source) / "report.html" if folder else source.with_suffix(".report.html")
