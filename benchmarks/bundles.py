"""Owns carrying files between machines: bundles small enough to copy; refuses to lose a file."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable
from pathlib import Path

from triprune.files import write_atomically

BUNDLE_BYTES = 15 * 2**20
_HEADER = 2048


def pack(folder: Path, root: Path, files: Iterable[Path], stem: str = "bundle") -> list[Path]:
    """Write ``files``, by their paths below ``root``, to ``folder/stem-N.tar``; drop older ones."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(f"{stem}-*.tar"):
        old.unlink()
    bundles: list[list[Path]] = []
    size = BUNDLE_BYTES
    for file in files:
        size += file.stat().st_size + _HEADER
        if size > BUNDLE_BYTES or not bundles:
            bundles.append([])
            size = file.stat().st_size + _HEADER
        bundles[-1].append(file)
    written: list[Path] = []
    for number, members in enumerate(bundles):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for file in members:
                archive.add(file, arcname=file.relative_to(root).as_posix())
        written.append(write_atomically(folder / f"{stem}-{number}.tar", buffer.getvalue()))
    return written


def unpack(folder: Path, root: Path, stem: str = "bundle") -> None:
    """Put the files of all bundles in ``folder`` below ``root``."""
    root.mkdir(parents=True, exist_ok=True)
    for path in sorted(folder.glob(f"{stem}-*.tar")):
        with tarfile.open(path) as archive:
            archive.extractall(root, filter="data")
