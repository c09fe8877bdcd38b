"""Owns writing to disk: whole files or nothing; refuses to leave a half-written one behind."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
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
    data = _bytes(content)
    if isinstance(path, RemotePath):
        path.write_whole(data)
        return path
    path = Path(path)
    with _aside(path, data) as temporary:
        temporary.replace(path)
    with _confirming(path, "then try again"):
        _fsync_folder(path.parent)
    return path


def write_together(folder: Place, files: Mapping[str, bytes | str]) -> None:
    """Write files of which the last vouches for the others: while it is there, all of them fit.

    All are written aside first, so that a full disk changes nothing. Then the old last one goes
    before the first new one comes: a crash leaves the old files, or a folder without the last one.
    Elsewhere nothing is written aside, but the order is the same.
    """
    *others, last = files
    if isinstance(folder, RemotePath):
        (folder / last).unlink(missing_ok=True)
        for name, content in files.items():
            write_atomically(folder / name, content)
        return
    with ExitStack() as stack:
        aside = {
            name: stack.enter_context(_aside(folder / name, _bytes(content)))
            for name, content in files.items()
        }
        with _confirming(folder, "then write all of it again; what was there is gone"):
            (folder / last).unlink(missing_ok=True)
            _fsync_folder(folder)
            for name in others:
                aside[name].replace(folder / name)
            _fsync_folder(folder)
            aside[last].replace(folder / last)
            _fsync_folder(folder)


def copy_files(source: Path, target: Place, *, last: str) -> Place:
    """Copy the files of a folder, without folders in it; ``last`` vouches for the others."""
    paths = sorted(source.iterdir(), key=lambda path: (path.name == last, path.name))
    write_together(target, {path.name: path.read_bytes() for path in paths})
    return target


@contextmanager
def _aside(path: Path, data: bytes) -> Generator[Path, None, None]:
    """Write a temporary file beside ``path``; where it was not moved away, it is removed."""
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
        yield temporary
    except OSError as error:
        raise InputError(
            f"writing {path}",
            f"the disk refused it ({error.strerror})",
            "free some space or name another path; nothing was changed",
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _confirming(path: Path, then: str) -> Generator[None, None, None]:
    try:
        yield
    except OSError as error:
        raise InputError(
            f"writing {path}",
            f"the disk did not confirm it ({error.strerror})",
            f"free some space or name another path, {then}",
        ) from error


def _bytes(content: bytes | str) -> bytes:
    return content.encode() if isinstance(content, str) else content


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
