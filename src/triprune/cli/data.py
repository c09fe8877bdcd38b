"""Owns ``triprune data``: whether a data set is whole, and where one comes from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from triprune.learning.datasets.official import Verification

_NAMES = ("cifar10", "cifar100", "tiny-imagenet", "folder")
_TINY_COUNTS = [(100_000, 200), (10_000, 200)]
_TINY = (
    "download http://cs231n.stanford.edu/tiny-imagenet-200.zip"
    " (MD5 90528d7ca1a48142e341f4ef8d21d0de) and unpack it in {folder}"
)


def data(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(_NAMES)}.")],
    folder: Annotated[Path, typer.Argument(help="Where the data set is, or shall be.")],
    fetch: Annotated[
        bool, typer.Option(help="Fetch CIFAR from its authors where it is not there.")
    ] = True,
) -> None:
    """Check the data set in FOLDER file by file; fetch CIFAR where it is not there."""
    from triprune.errors import InputError

    if name in ("cifar10", "cifar100"):
        _cifar(name, folder, fetch=fetch)
    elif name in ("tiny-imagenet", "folder"):
        _images(name, folder)
    else:
        raise InputError(f"the data set {name!r}", "it is unknown", f"name {', '.join(_NAMES)}")


def _cifar(name: str, folder: Path, *, fetch: bool) -> None:
    from triprune.errors import DataError
    from triprune.learning.datasets.official import verify, what_to_put_where

    found = verify(name, folder)
    if found is None and fetch:
        _fetch(name, folder)
        found = verify(name, folder)
    if found is None:
        raise DataError(f"{name} in {folder}", "it is not there", what_to_put_where(name, folder))
    _print_files(found)
    faults = [f"{state} {file}" for file, state in found.states if state != "whole"]
    if faults:
        raise DataError(
            f"{name} in {found.home}",
            ", ".join(faults),
            f"delete {found.home} and run this again, or {what_to_put_where(name, folder)}",
        )
    typer.echo(f"{name} is whole. Use it: triprune.load_data({str(folder)!r})")


def _print_files(found: Verification) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("file", overflow="fold")
    table.add_column("official checksum")
    for file, state in found.states:
        table.add_row(file, Text("yes", "green") if state == "whole" else Text(state, "red"))
    Console(markup=False).print(table)


def _fetch(name: str, folder: Path) -> None:
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    from triprune.learning.datasets.official import fetch

    columns = (TextColumn(f"fetching {name}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns) as progress:
        task = progress.add_task("", total=None)

        def show(so_far: int, total: int) -> None:
            progress.update(task, completed=so_far, total=total or None)

        fetch(name, folder, show)


def _images(name: str, folder: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    from triprune.errors import DataError
    from triprune.learning.datasets.folders import image_folder, tiny_imagenet
    from triprune.learning.datasets.survey import survey

    home = folder / "tiny-imagenet-200" if (folder / "tiny-imagenet-200").is_dir() else folder
    if name == "tiny-imagenet" and not (home / "wnids.txt").is_file():
        raise DataError(f"{name} in {folder}", "it is not there", _TINY.format(folder=folder))
    found = survey(tiny_imagenet(home) if name == "tiny-imagenet" else image_folder(folder))
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("part")
    for title in ("images", "classes", "fewest in one", "most in one", "unreadable"):
        table.add_column(title, justify="right")
    for part in found:
        counts = (part.images, part.classes, part.fewest, part.most, len(part.faults))
        table.add_row(part.part, *(f"{count:,}" for count in counts))
    Console(markup=False).print(table)
    official = [(part.images, part.classes) for part in found] == _TINY_COUNTS
    if name == "tiny-imagenet" and not official:
        raise DataError(
            f"{name} in {home}",
            "it has not 100,000 training and 10,000 validation images of 200 classes",
            f"{_TINY.format(folder=folder)}; load_data reads a part of it all the same",
        )
    faults = [fault for part in found for fault in part.faults]
    for fault in faults:
        typer.echo(f"unreadable: {fault}")
    if faults:
        raise DataError(
            f"the images in {folder}",
            f"{len(faults)} cannot be read",
            'mend or delete them, or read with Reading(bad_images="drop")',
        )
    typer.echo(f"Every image can be read. Use it: triprune.load_data({str(folder)!r})")
