"""Owns ``triprune profile``: what a model costs, layer by layer, and where it can be cut."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from triprune.network.latency import Latency
    from triprune.network.profile import Profile
    from triprune.network.room import Room

_COUNTED = (
    "macs: multiply-adds of convolutions and matrix products, one input; "
    "biases, norms and elementwise work are not counted"
)


def profile(
    model: Annotated[
        str,
        typer.Argument(
            help="resnet56, torchvision:resnet50, timm:efficientnet_b0, or my/net.py:function"
            " (runs that file)."
        ),
    ],
    input_size: Annotated[
        str | None,
        typer.Option(help="Pixels: 32, 24x32 or 3x24x32. Default: 32 for our models, else 224."),
    ] = None,
    num_classes: Annotated[int | None, typer.Option(help="Outputs of the classifier.")] = None,
    weights: Annotated[Path | None, typer.Option(help="A .safetensors file to load.")] = None,
    latency: Annotated[bool, typer.Option("--latency", help="Time it on this machine.")] = False,
    batch_size: Annotated[int, typer.Option(help="Images at once, for --latency.")] = 1,
    device: Annotated[str, typer.Option(help="cpu or cuda, for --latency.")] = "cpu",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Print what MODEL costs, layer by layer, which blocks can go, and what each axis can give."""
    from triprune.learning.models import build_model
    from triprune.learning.weights import load_weights
    from triprune.network.latency import measure_latency
    from triprune.network.profile import profile as profile_of
    from triprune.network.room import room

    network = build_model(model, num_classes=num_classes)
    if weights is not None:
        load_weights(network, weights)
    size = _parse_size(input_size, model)
    measured = profile_of(network, size)
    timing = None
    if latency:
        timing = measure_latency({model: network}, size, batch_size=batch_size, device=device)[
            model
        ]
    space = room(network, measured)
    if as_json:
        _print_json(model, measured, space, timing)
    else:
        _print_tables(model, measured, space, timing)


def _parse_size(text: str | None, model: str) -> tuple[int, ...]:
    from triprune.errors import InputError
    from triprune.learning.models import list_models

    if text is None:
        side = 32 if model in list_models() else 224
        return (side, side)
    parts = text.lower().split("x")
    if len(parts) > 3 or not all(p.isdecimal() and int(p) > 0 for p in parts):
        raise InputError(f"--input-size {text}", "it is no size", "write 32, 24x32 or 3x24x32")
    sizes = tuple(int(p) for p in parts)
    return sizes * 2 if len(sizes) == 1 else sizes


def _print_json(model: str, measured: Profile, space: Room, timing: Latency | None) -> None:
    import json
    from dataclasses import asdict

    content = {
        "model": model,
        **asdict(measured),
        **asdict(space),
        "latency": None if timing is None else asdict(timing),
    }
    typer.echo(json.dumps(content, indent=1))


def _print_tables(model: str, measured: Profile, space: Room, timing: Latency | None) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(markup=False)
    console.print(_layer_table(measured), "")
    if len(space.blocks):
        console.print(_block_table(space, measured), "")
    for name, reason in space.blocks.refused:
        console.print(f"stays: {name} ({reason})", style="dim")
    console.print(_axis_table(space), "")
    size = "×".join(str(n) for n in measured.input_shape)
    console.print(
        Text.assemble(
            (model, "bold"),
            f" at {size}: ",
            (_count(measured.macs), "bold"),
            " macs, ",
            (_count(measured.params), "bold"),
            " params",
        )
    )
    if timing is not None:
        console.print(
            f"latency {timing.median_ms:.3g} ms (half of {timing.samples} samples within "
            f"{timing.lower_ms:.3g} to {timing.upper_ms:.3g}) on {timing.device}, "
            f"batch of {timing.batch_size}"
        )
    console.print(_COUNTED, style="dim")
    for operator in measured.uncounted:
        console.print(Text.assemble(("not counted:", "yellow"), f" {operator}"))


def _layer_table(measured: Profile) -> Table:
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("layer", overflow="fold")
    table.add_column("kind", overflow="fold")
    for title in ("output", "macs (M)", "share", "params (k)"):
        table.add_column(title, justify="right", no_wrap=True)
    for layer in measured.layers:
        if layer.macs:
            table.add_row(
                layer.name or "(the model itself)",
                layer.kind,
                "×".join(str(n) for n in layer.output_shape),
                f"{layer.macs / 1e6:,.3f}",
                f"{layer.macs / measured.macs:.1%}",
                f"{layer.params / 1e3:,.2f}",
            )
    rest = [layer.params for layer in measured.layers if not layer.macs]
    if rest:
        table.add_row(f"{len(rest)} without macs", "", "", "0", "0.0%", f"{sum(rest) / 1e3:,.2f}")
    return table


def _block_table(space: Room, measured: Profile) -> Table:
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("block that can go", overflow="fold")
    table.add_column("kind", overflow="fold")
    for title in ("macs (M)", "share", "params (k)"):
        table.add_column(title, justify="right", no_wrap=True)
    for block in space.blocks:
        table.add_row(
            block.name,
            block.kind,
            f"{block.macs / 1e6:,.3f}",
            f"{block.macs / max(1, measured.macs):.1%}",
            f"{block.params / 1e3:,.2f}",
        )
    return table


def _axis_table(space: Room) -> Table:
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("axis")
    for title in ("keep", "macs left"):
        table.add_column(title, justify="right")
    table.add_column("")
    for axis in space.axes:
        table.add_row(axis.axis, f"{axis.keep:.2f}", f"{axis.macs_kept:.1%}", axis.note)
    return table


def _count(number: int) -> str:
    for limit, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if number >= limit:
            return f"{number / limit:.4g}{unit}"
    return str(number)
