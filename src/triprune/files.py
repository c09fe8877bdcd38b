"""Owns writing to disk: whole files or nothing; refuses to leave a half-written one behind."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TypeVar, overload

from triprune.errors import InputError
from triprune.places import UNFINISHED, Place, RemotePath

Where = TypeVar("Where", Path, RemotePath)


@overload
def write_atomically(path: str, content: bytes | str) -> Path: ...
@overload
def write_atomically(path: Where, content: bytes | str) -> Where: ...
@overload
def write_atomically(path: str | Place, content: bytes | str) -> Place: ...
def write_atomically(path: str | Place, content: bytes | str) -> Place:
    """Write ``content`` so that ``path`` holds either all of it or what it held before.

    Temporary file in the same folder, fsync, rename, fsync of the folder: a crash at any moment
    leaves the old file. Elsewhere, as ``RemotePath.write_whole`` can.
    """
    data = content.encode() if isinstance(content, str) else content
    if isinstance(path, RemotePath):
        path.write_whole(data)
        return path
    path = Path(path)
    try:
        descriptor, name = tempfile.mkstemp(UNFINISHED, f".{path.name}.", path.parent)
    except OSError as error:
        raise InputError(
            f"writing {path}", f"its folder does not take files ({error.strerror})", "name another"
        ) from error
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(0o666 & ~_umask())  # mkstemp files are private; ours need not be
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise InputError(
                f"writing {path}",
                f"the disk refused it ({error.strerror})",
                "free some space or name another path; nothing was changed",
            ) from error
        raise
    try:
        _fsync_folder(path.parent)
    except OSError as error:
        raise InputError(
            f"writing {path}",
            f"the disk did not confirm it ({error.strerror})",
            "free some space or name another path, then try again",
        ) from error
    return path


def copy_files(source: Path, target: Place) -> Place:
    """Copy the files of a folder, without folders in it, each whole or not at all."""
    for path in sorted(source.iterdir()):
        write_atomically(target / path.name, path.read_bytes())
    return target


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def _fsync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
