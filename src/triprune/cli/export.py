"""``triprune export``: a finished model as ONNX, torch.export or safetensors, held to PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from triprune.errors import InputError

Folder = Annotated[Path, typer.Argument(help="A run folder, or a folder of a saved model.")]
Budget = Annotated[str | None, typer.Option(help="A budget other than the run's own, as 35%.")]
Model = Annotated[
    str | None, typer.Option(help="What builds the original, where the folder does not say.")
]
NumClasses = Annotated[int | None, typer.Option(help="Classes of --model, where unknown.")]


def export(
    folder: Folder,
    file_format: Annotated[
        str, typer.Option("--format", help="onnx, torch-export or safetensors.")
    ] = "onnx",
    out: Annotated[Path | None, typer.Option(help="The folder to write to.")] = None,
    budget: Budget = None,
    model: Model = None,
    num_classes: NumClasses = None,
    with_resize: Annotated[
        bool, typer.Option("--with-resize", help="Take any size: cut the centred square.")
    ] = False,
    with_normalisation: Annotated[
        bool, typer.Option("--with-normalisation", help="Take plain pixels.")
    ] = False,
    pixels: Annotated[
        str, typer.Option("--input", help="Plain pixels as uint8 (0..255) or float (0..1).")
    ] = "uint8",
) -> None:
    """Write a finished model for other programs, checked against PyTorch on the run's images."""
    from triprune.places import RemotePath, place
    from triprune.run.exporting import ExportOrder
    from triprune.run.exporting import export as write
    from triprune.run.shipping import Wanted, open_shipment

    order: Any = (file_format, with_resize, with_normalisation, pixels)
    asked = ExportOrder(*order)
    shipment = open_shipment(folder, Wanted(budget, model, num_classes))
    if out is None:
        if isinstance(place(folder), RemotePath):
            raise InputError(f"exporting {folder}", "it is not on this machine", "give --out")
        made = "" if shipment.about is None else f"{100 * shipment.about.making.budget:g}"
        out = folder / "export" / made / file_format
    found = write(shipment, out, asked)
    images = "of the run's validation split" if found.real_images else "random: no data is here"
    typer.echo(f"parity: {found.parity} ({images})")
    typer.echo(f"input:  {found.takes}")
    typer.echo(f"output: {found.file} ({found.file.stat().st_size:,} bytes)")
