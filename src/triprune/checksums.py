"""Owns the list of checksums beside saved files, as ``sha256sum`` writes it; refuses damage."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from triprune.errors import DamagedFileError

SUMS_FILE = "SHA256SUMS"

_LONGEST = 1 << 16


def listed_sums(files: Mapping[str, bytes]) -> str:
    """Return the list for ``files``, by name; ``sha256sum --check`` reads it too."""
    return "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in files.items())


def check_sum(path: Path, data: bytes) -> None:
    """Refuse ``data``, read from ``path``, if the list beside it says otherwise.

    A folder without a list, of an earlier version, is taken as it is.
    """
    beside = path.parent / SUMS_FILE
    if not beside.is_file():
        return
    with beside.open("rb") as stream:
        text = stream.read(_LONGEST).decode(errors="replace")
    told = {name: digest for digest, _, name in (row.partition("  ") for row in text.splitlines())}
    if told.get(path.name) != hashlib.sha256(data).hexdigest():
        raise DamagedFileError(
            f"reading {path}",
            f"its checksum is not the one in {SUMS_FILE}: one of the two was damaged or changed",
            "restore the folder from a copy, or save the model again; if it was changed on "
            f"purpose, delete {SUMS_FILE}",
        )
