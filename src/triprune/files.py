"""Owns writing to disk: whole files or nothing; refuses to leave a half-written one behind."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from triprune.errors import InputError


def write_atomically(path: str | Path, content: bytes | str) -> Path:
    """Write ``content`` so that ``path`` holds either all of it or what it held before.

    Temporary file in the same folder, fsync, rename, fsync of the folder: a crash at any moment
    leaves the old file.
    """
    path = Path(path)
    data = content.encode() if isinstance(content, str) else content
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
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
    _fsync_folder(path.parent)
    return path


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
