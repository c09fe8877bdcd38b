"""Owns the report for a terminal: the same answer and the same tables, as text."""

from __future__ import annotations

import io

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from triprune.report import tables
from triprune.report.contents import Report
from triprune.report.payload import Drawn
from triprune.report.tables import Table
from triprune.report.wording import Words, answer

_QUOTED = 10
"""Budgets are told in steps of so many per cent."""


def to_text(report: Report, drawn: Drawn | None = None, *, width: int = 100) -> str:
    """Return the report as plain text, ``width`` characters wide."""
    drawn = Drawn.of(report) if drawn is None else drawn
    stream = io.StringIO()
    console = Console(file=stream, width=width, highlight=False, markup=False)
    console.print(f"{report.subject}: {report.state}")
    told = answer(report)
    if told is not None:
        console.print(f"\n{told.sentence}")
        for name, value, line in told.figures:
            console.print(f"  {name}: {value} {line}")
        console.print(f"\n{told.verdict}")
    for content in _tables(report, drawn):
        if content.rows:
            console.print()
            console.print(_rich(content))
    for note in report.notes:
        console.print(f"note: {note}")
    return stream.getvalue()


def _tables(report: Report, drawn: Drawn) -> list[Table]:
    words, found = Words(report.in_percent), report.comparison
    listed = [] if found is None else [tables.comparison_table(found, words, report.spending.noun)]
    listed += [tables.speed_table(test) for test in report.speed]
    if len(report.finished) > 1:
        listed.append(tables.finished_table(report, words))
    stops = [quote for quote, _ in drawn.stops(report)][::-1]
    tens = [quote for quote in stops if round(100 * quote.budget) % _QUOTED == 0]
    listed.append(tables.quotes_table(tens or stops, words, report.spending))
    if report.observations:
        listed.append(tables.observations_table(report, words))
    listed.append(tables.candidates_table(report, words))
    listed += [tables.learning_table(report.curves, words), tables.blocks_table(report.surgery)]
    listed.append(tables.layers_table(report.surgery))
    if report.gallery is not None:
        listed.append(tables.likeness_table(report.gallery))
    return [*listed, tables.facts_table(report)]


def _rich(content: Table) -> RichTable:
    shown = RichTable(
        title=Text(content.title, style="bold"),
        caption=Text(content.note) if content.note else None,
        title_justify="left",
        caption_justify="left",
        show_header=any(content.columns),
        header_style="",
        box=None,
        pad_edge=False,
    )
    for place, name in enumerate(content.columns):
        # Text, not str: a name in brackets is no style.
        left = place == 0 or not any(content.columns)
        shown.add_column(Text(name), justify="left" if left else "right", no_wrap=place == 0)
    for row in content.rows:
        shown.add_row(*(Text(cell) for cell in row))
    return shown
