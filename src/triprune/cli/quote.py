"""``triprune quote``: the accuracy to expect at every budget, from observations already made."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from triprune.errors import InputError
from triprune.places import place

if TYPE_CHECKING:
    from rich.table import Table

    from triprune.core.choice import Quote
    from triprune.core.predictor import Predictor
    from triprune.core.scale import Axis
    from triprune.report.budget_curves import Quoter
    from triprune.run.observations import ObservationFile

_AXES: tuple[Axis, ...] = ("depth", "width", "resolution")
_BUDGETS = ("90%", "80%", "70%", "60%", "50%", "40%", "30%", "25%", "20%")


@dataclass(frozen=True, slots=True, eq=False)
class _Source:
    """Observations, what quotes from them, and what a run has chosen by costs it measured.

    ``noun`` is what the budget is of; ``cost_error`` how far the fitted cost was off, at most,
    where it was measured.
    """

    found: ObservationFile
    quoter: Quoter
    noun: str = "macs"
    cost_error: float | None = None
    chosen: tuple[Quote, ...] = ()

    def quote(self, budget: float) -> Quote:
        """Return the run's own choice for a budget, or else the best by the fitted cost."""
        from triprune.core.choice import Quote

        own = (quote for quote in self.chosen if quote.budget == budget)
        return next(own, None) or Quote(budget, self.quoter.jointly(budget))


def quote(
    observations: Annotated[
        Path,
        typer.Argument(
            help="A run folder, or a CSV with the columns depth, width, resolution, accuracy."
        ),
    ],
    budget: Annotated[
        str | None, typer.Option(help="One budget instead of the table, as 50% or 0.5.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
    plot: Annotated[
        Path | None, typer.Option(help="Draw accuracy against budget to a .html or .png file.")
    ] = None,
) -> None:
    """Tell which scale each budget buys and the accuracy to expect of it, without training."""
    if plot is not None and plot.suffix.lower() not in (".html", ".png"):
        raise InputError(f"--plot {plot}", "its ending is not known", "use .html or .png")
    source = _read(observations)
    quotes, unmet = _quotes(source, budget)
    if plot is not None:
        _plot(observations, plot)
    if as_json:
        typer.echo(json.dumps(_as_values(source, quotes), indent=2))
        return
    _print(source, quotes)
    if unmet:
        typer.echo(f"this model cannot become as small as {', '.join(unmet)}")
    if plot is not None:
        typer.echo(f"Drawn to {plot}")


def _plot(source: Path, plot: Path) -> None:
    """Draw the report's own page, or its picture of the budgets."""
    from triprune.cli.report import read_source
    from triprune.files import write_atomically
    from triprune.report.payload import Drawn

    report = read_source(source)
    if plot.suffix.lower() == ".html":
        from triprune.report.page import to_page

        write_atomically(plot, to_page(report))
        return
    from triprune.report.figures import as_bytes, budget_figure

    figure = budget_figure(report, Drawn.of(report))
    assert figure is not None  # observations that can be quoted have a predictor
    write_atomically(plot, as_bytes(figure, "png"))


def _quotes(source: _Source, budget: str | None) -> tuple[tuple[Quote, ...], list[str]]:
    """Quote one budget, or those of the table; there, also name the ones that cannot be met."""
    from triprune.core.budget import run_budget
    from triprune.errors import BudgetError

    if budget is not None:
        return (source.quote(run_budget(budget)),), []
    quotes: list[Quote] = []
    unmet: list[str] = []
    for each in _BUDGETS:
        try:
            quotes.append(source.quote(run_budget(each)))
        except BudgetError:
            unmet.append(each)
    return tuple(quotes), unmet


def _read(path: Path) -> _Source:
    """Return observations, and what quotes from them: as the run chooses, or fitted to a CSV."""
    from triprune.cli.report import is_folder
    from triprune.core.fitting import fit_predictor
    from triprune.report.budget_curves import Quoter
    from triprune.run.observations import ObservationFile, read_observations

    if not is_folder(path):
        found = read_observations(path)
        return _Source(found, Quoter(fit_predictor(found.observations)))
    from triprune.run.reporting import forecasts_of_run

    report = forecasts_of_run(place(path))
    assert report.predictor is not None  # a run whose chains are not finished is refused
    return _Source(
        ObservationFile(report.observations, in_percent=False),
        Quoter(report.predictor, report.cost, report.lattice),
        report.spending.noun,
        report.cost_error,
        report.chosen,
    )


def _as_values(source: _Source, quotes: tuple[Quote, ...]) -> dict[str, Any]:
    from triprune.core.doubting import doubts

    predictor = source.quoter.predictor
    candidate = predictor.candidate
    return {
        "observations": len(source.found.observations),
        "read_as_percentages": source.found.in_percent,
        "cost_error": source.cost_error,
        "predictor": {
            "link": candidate.link,
            "rank": candidate.rank,
            "degree": candidate.degree,
            "ridge": candidate.ridge,
            "leave_one_out": predictor.leave_one_out,
        },
        "quotes": [
            {
                "budget": item.budget,
                "depth": item.choice.scale.depth,
                "width": item.choice.scale.width,
                "resolution": item.choice.scale.resolution,
                "predicted_accuracy": item.choice.predicted_accuracy,
                "interval": [x if math.isfinite(x) else None for x in item.choice.interval],
                "cost": item.choice.cost,
                "chosen_by_the_run": item in source.chosen,
                "binding": item.choice.binding,
                "extrapolated": item.choice.extrapolated,
                "doubts": doubts(predictor, item.choice),
            }
            for item in quotes
        ],
    }


def _print(source: _Source, quotes: tuple[Quote, ...]) -> None:
    from rich.console import Console

    from triprune.core.doubting import extrapolations, guess_note, is_guess, passed_over

    console, found, predictor = Console(markup=False), source.found, source.quoter.predictor
    write = _percentage if found.are_fractions else _score
    error = predictor.leave_one_out
    judged = "" if error is None else f", leave-one-out error {write(error)}"
    read_as = ", accuracies read as percentages" if found.in_percent else ""
    console.print(
        f"{len(found.observations)} observations{read_as}; {_form(predictor)}{judged}",
        highlight=False,
    )
    console.print(_table(quotes, write))
    choices = [item.choice for item in quotes]
    for told in extrapolations(predictor, *choices):
        console.print(f"* {told}", highlight=False)
    for told in passed_over(predictor, *choices):
        console.print(f"note: {told}", highlight=False)
    if source.cost_error is not None and any(item not in source.chosen for item in quotes):
        console.print(
            f"{source.noun} are estimated unless the run chose the scale: off by at most "
            f"{source.cost_error:.1%} where they were measured; triprune choose measures them",
            highlight=False,
        )
    guessed = [item for item in quotes if is_guess(predictor, item.choice)]
    if guessed:
        some = ", ".join(f"{100 * item.budget:.4g}%" for item in guessed)
        where = "every budget" if guessed == list(quotes) else some
        told = guess_note(predictor, guessed[-1].choice)
        console.print(f"warning: at {where}, {told}", highlight=False)


def _table(quotes: tuple[Quote, ...], write: Callable[[float], str]) -> Table:
    from rich.table import Table

    table = Table(caption="kept fractions; 90 % interval of one measurement")
    for name in ("budget", *_AXES, "accuracy", "interval"):
        table.add_column(name, justify="right", no_wrap=True)
    for item in quotes:
        choice = item.choice
        kept = [
            f"{getattr(choice.scale, axis):.2f}{'*' if axis in choice.extrapolated else ''}"
            for axis in _AXES
        ]
        low, high = (write(x) for x in choice.interval)
        accuracy = write(choice.predicted_accuracy)
        table.add_row(f"{100 * item.budget:.4g}%", *kept, accuracy, f"{low} – {high}")
    return table


def _percentage(value: float) -> str:
    return f"{100 * value:.2f} %"


def _score(value: float) -> str:
    return f"{value:.4g}"


def _form(predictor: Predictor) -> str:
    candidate = predictor.candidate
    degree = "/".join(str(k) for k in candidate.degree)
    names = {
        "root": "three curves on the root of the error",
        "logit": "a product of polynomials on the logit",
        "identity": "a product of polynomials",
    }
    return f"fitted {names[candidate.link]}, degree {degree}"
