"""``triprune predict``: classes and probabilities of image files, by a finished model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from triprune.cli.export import Budget, Folder, Model, NumClasses


def predict(
    folder: Folder,
    images: Annotated[list[Path], typer.Argument(help="Image files.")],
    top: Annotated[int, typer.Option(help="How many classes to tell.")] = 3,
    budget: Budget = None,
    model: Model = None,
    num_classes: NumClasses = None,
) -> None:
    """Tell what a finished model sees on image files (exit code 2 if one cannot be read)."""
    from triprune.run.predicting import predict as ask
    from triprune.run.shipping import Wanted, open_shipment

    answers = ask(open_shipment(folder, Wanted(budget, model, num_classes)), images, top=top)
    for answer in answers:
        if not answer.fault:
            told = ", ".join(f"{name} {chance:.1%}" for name, chance in answer.likely)
            typer.echo(f"{answer.file}: {told}")
    faults = [answer for answer in answers if answer.fault]
    for answer in faults:
        then = "name images that Pillow can open"
        typer.echo(f"triprune: {answer.file} cannot be read: {answer.fault}. {then}.", err=True)
    if faults:
        sys.exit(2)
