"""Owns the short of all runs: a line each for the README and the page, and which pictures show."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from paper_numbers import (
    SPENDS,
    Borrowed,
    borrowed,
    drop,
    is_own,
    lead,
    mean_and_spread,
    measured_budgets,
    published,
    row_of,
)
from triprune.core.scale import AXES

SEEDS_TO_COMPARE = 3
LENT = "†"
Measured = tuple[dict[str, Any], dict[str, Any]]  # a run, and one of its budgets
HEAD = """\
| run | macs | original | joint | depth | width | resolution | drop | paper's drop |
|---|---|---|---|---|---|---|---|---|
"""


def summary(runs: list[dict[str, Any]]) -> str:
    """Return the README's table, of what several seeds compare, and the pictures of budgets."""
    compared = [(run, at) for run, at in measured(runs) if is_compared(at)]
    none = "No run has been measured with three seeds yet; [configs/](configs) holds them.\n"
    pictures = [
        f"\n![Test accuracy, jointly and on each axis alone](docs/results/{run['name']}.svg)\n"
        for run in at_several_budgets(runs)
    ]
    return (table_of(compared, borrowed(runs)) if compared else none) + "".join(pictures)


def table_of(found: list[Measured], given: dict[str, Borrowed]) -> str:
    """Return a line for each of these runs and budgets; ``given`` is what they have of others."""
    lines = [line(run, at, lent(run, at, given)) for run, at in found]
    note = f"\n{LENT} Trained in a run above or in a study.\n"
    return HEAD + "".join(lines) + (note if any(LENT in each for each in lines) else "")


def lent(run: dict[str, Any], at: dict[str, Any], given: dict[str, Borrowed]) -> Collection[str]:
    """Return the names of the final models at a budget that are another run's."""
    if "study" in at:
        return AXES
    return given[run["name"]].finals if is_own(run, at) else ()


def measured(runs: list[dict[str, Any]]) -> Iterator[Measured]:
    """Yield every run with every budget whose models have met the test images."""
    for run in runs:
        for at in measured_budgets(run):
            yield run, at


def is_compared(at: dict[str, Any]) -> bool:
    """Whether joint model and single axes, those that there are, were trained by enough seeds."""
    rows = [row for name in SPENDS if (row := row_of(at, name)) is not None]
    enough = all(len(row["accuracies"]) >= SEEDS_TO_COMPARE for row in rows)
    return enough and lead(at) is not None


def line(run: dict[str, Any], at: dict[str, Any], lent: Collection[str]) -> str:
    """Return a run's line at a budget; models that are ``lent`` are marked."""
    cells = [run["name"], f"{at['budget']:.0%}"]
    for name in ("original", *SPENDS):
        row = row_of(at, name)
        mark = f" {LENT}" if name in lent else ""
        cells.append("–" if row is None else f"{mean_and_spread(row['accuracies'])}{mark}")
    beside = published(run, at["budget"])
    paper = "–" if beside is None else f"{beside.original - beside.joint:+.2f}"
    return f"| {' | '.join([*cells, f'{drop(at):+.2f}', paper])} |\n"


def at_several_budgets(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the runs with more than one measured budget: each has a picture of its own."""
    return [run for run in runs if len(measured_budgets(run)) > 1]


def panels_of(runs: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """Return the panels of the picture of all runs at one budget with single axes, with titles."""
    single = [run for run in runs if run not in at_several_budgets(runs)]
    return [
        (f"{run['name']}, {at['budget']:.0%} of the macs: test accuracy", at)
        for run, at in measured(single)
        if lead(at)
    ]
