"""Owns how a run's result is printed: one table, original first; refuses to compute any of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from triprune.core.measured import Judged
    from triprune.run.artifacts import Outcome


_NOUN = {"macs": "macs", "params": "params", "latency": "latency", "paper": "cost d·w²·r²"}


def print_outcome(outcome: Outcome) -> None:
    """Print the table, the epochs and every note."""
    from rich.console import Console

    console = Console(markup=False)
    console.print(_table(outcome))
    if outcome.epochs:
        console.print(
            f"{outcome.epochs} epochs of fine-tuning; the recipe in full has "
            f"{outcome.paper_epochs}",
            highlight=False,
        )
    for note in outcome.notes:
        console.print(f"note: {note}", highlight=False)


def _table(outcome: Outcome) -> Table:
    from rich.table import Table

    seeds = len(outcome.row("joint").accuracies)
    spread = f", mean ± spread over {seeds} seeds" if seeds > 1 else ", one seed"
    table = Table(
        box=None,
        header_style="bold",
        pad_edge=False,
        title=f"budget {outcome.budget:.4g} of the {_NOUN[outcome.cost]}",
        title_justify="left",
        caption=f"test accuracy{spread}; latency on {outcome.latency_device}, batch of 1",
    )
    table.add_column("", no_wrap=True)
    for name in ("accuracy", "macs (M)", "params (k)", "ms", "px", "kept d/w/r"):
        table.add_column(name, justify="right", no_wrap=True)
    original = outcome.row("original")
    for row in outcome.rows:
        share = row.params / original.params, row.latency_ms / original.latency_ms
        params = f" ({share[0]:.1%})" if outcome.cost == "params" else ""
        latency = f" ({share[1]:.1%})" if outcome.cost == "latency" else ""
        table.add_row(
            row.name,
            _accuracy(row),
            f"{row.macs / 1e6:.2f} ({row.macs / original.macs:.1%})",
            f"{row.params / 1e3:.1f}{params}",
            f"{row.latency_ms:.2f}{latency}",
            str(row.resolution_px),
            "/".join(f"{x:.2f}" for x in row.scale),
        )
    return table


def _accuracy(row: Judged) -> str:
    write = (lambda x: f"{100 * x:.2f}") if 0.0 <= row.accuracy <= 1.0 else (lambda x: f"{x:.4g}")
    return write(row.accuracy) + ("" if row.spread is None else f" ± {write(row.spread)}")
