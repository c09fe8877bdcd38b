"""``triprune bench``: how much faster a run's models really are, measured here."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from triprune.cli.export import Folder, Model, NumClasses
from triprune.errors import InputError

if TYPE_CHECKING:
    from triprune.run.artifacts import Bench


def bench(
    folder: Folder,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    runtime: Annotated[str, typer.Option(help="torch or onnxruntime.")] = "torch",
    batch: Annotated[str, typer.Option(help="Batch sizes, as 1,32.")] = "1,32",
    rounds: Annotated[int, typer.Option(help="How often each model is timed.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
    budget: Annotated[str | None, typer.Option(help="Only this of its budgets, as 50%.")] = None,
    model: Model = None,
    num_classes: NumClasses = None,
) -> None:
    """Time original, joint and controls in turns; a run folder keeps the result for its report."""
    from triprune.run.benching import BenchOrder, bench_folder
    from triprune.run.keys import bench_key
    from triprune.run.shipping import Wanted

    order: Any = (device, runtime, _batches(batch), rounds)
    found = bench_folder(folder, Wanted(budget, model, num_classes), BenchOrder(*order))
    if as_json:
        typer.echo(json.dumps({**found.to_parts()[0], "key": bench_key(found)}, indent=2))
    else:
        _print(found)


def _batches(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(each) for each in text.split(","))
    except ValueError:
        raise InputError(
            f"--batch {text}", "these are no batch sizes", "give integers, as 1,32"
        ) from None


def _print(found: Bench) -> None:
    from rich.console import Console
    from rich.table import Table

    from triprune.core.measured import times_faster

    threads = "" if found.device != "cpu" else f", threads: {found.threads}"
    versions = ", ".join(f"{name} {number}" for name, number in found.versions.items())
    table = Table(
        box=None,
        header_style="bold",
        pad_edge=False,
        caption=f"{found.runtime} on {found.hardware} ({found.device}{threads}); {versions}; "
        f"median of {found.rows[0].samples} rounds and quartiles",
    )
    table.add_column("", no_wrap=True)
    for name in ("budget", "batch", "ms", "half lie in", "times faster", "images/s", "peak MB"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in found.rows:
        table.add_row(
            row.name,
            f"{100 * row.budget:.4g}%",
            str(row.batch_size),
            f"{row.median_ms:.2f}",
            f"{row.lower_ms:.2f}–{row.upper_ms:.2f}",
            f"{times_faster(row, found.rows):.2f}",
            f"{row.images_per_second:,.0f}",
            "–" if row.peak_bytes is None else f"{row.peak_bytes / 1e6:.1f}",
        )
    Console(markup=False).print(table)
