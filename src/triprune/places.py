# fsspec ships no types:
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
"""Owns where files live: a local path, or an fsspec URL that several machines reach.

A ``RemotePath`` knows the few operations of ``pathlib.Path`` that a run folder needs, so that the
rest of the code does not ask which of the two it has.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

from triprune.errors import InputError, MissingExtraError

# What is put there appears whole or not at all; elsewhere a file is written aside, then renamed.
_PUT_WHOLE = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "oci", "memory"}
# Ends the name of a file that is written aside: only those who were killed leave one behind.
UNFINISHED = ".triprune-part"
_URL = re.compile(r"([a-z][a-z0-9+.-]+)://?(.*)", re.DOTALL)


class RemotePath:
    """A file or folder under an fsspec URL, as ``s3://bucket/runs/r50``."""

    def __init__(self, root: str, way: str = "") -> None:
        self._root, self._way = root.rstrip("/"), way

    def __reduce__(self) -> tuple[type[RemotePath], tuple[str, str]]:
        return RemotePath, (self._root, self._way)

    def __str__(self) -> str:
        return f"{self._root}/{self._way}" if self._way else self._root

    def __repr__(self) -> str:
        return f"RemotePath({str(self)!r})"

    def __truediv__(self, name: str) -> RemotePath:
        return RemotePath(self._root, f"{self._way}/{name}" if self._way else name)

    @property
    def name(self) -> str:
        """The last part of the URL."""
        return str(self).rpartition("/")[2]

    @property
    def stem(self) -> str:
        """The name without its ending."""
        return PurePosixPath(self.name).stem

    @property
    def parent(self) -> RemotePath:
        """The folder; of the URL that was given, itself."""
        return RemotePath(self._root, self._way.rpartition("/")[0])

    @property
    def protocol(self) -> str:
        """Which kind of file system it is on."""
        return self._root.partition(":")[0]

    def with_suffix(self, suffix: str) -> RemotePath:
        """Return the neighbour with another ending."""
        return self.parent / PurePosixPath(self.name).with_suffix(suffix).name

    def absolute(self) -> RemotePath:
        """Return the URL itself."""
        return self

    def is_file(self) -> bool:
        """Whether there is such a file now."""
        return self._asked("isfile")

    exists = is_file

    def read_bytes(self) -> bytes:
        """Return the whole content."""
        with self._reaching("reading"):
            return self._fs.cat_file(self._path)

    def read_text(self) -> str:
        """Return the whole content as text."""
        return self.read_bytes().decode()

    def write_whole(self, data: bytes) -> None:
        """Write the file as atomically as its file system allows."""
        with self._reaching("writing"):
            if self.protocol in _PUT_WHOLE:
                self._fs.pipe_file(self._path, data)
                return
            aside = self.parent / f".{self.name}.{secrets.token_hex(4)}{UNFINISHED}"
            self._fs.makedirs(self.parent._path, exist_ok=True)
            self._fs.pipe_file(aside._path, data)
            self._fs.mv(aside._path, self._path)

    def unlink(self, *, missing_ok: bool = False) -> None:
        """Remove the file."""
        if missing_ok and not self.is_file():
            return
        with self._reaching("removing"):
            self._fs.rm_file(self._path)

    def remove_folder(self) -> None:
        """Remove all that is here, if anything is."""
        if self._asked("exists"):
            with self._reaching("removing"):
                self._fs.rm(self._path, recursive=True)

    def mkdir(self, *, parents: bool = True, exist_ok: bool = True) -> None:
        """Do nothing: a folder is there as soon as it holds a file."""
        del parents, exist_ok

    def files(self) -> list[str]:
        """Return the way from here to every file below."""
        if not self._asked("exists"):
            return []
        with self._reaching("listing"):
            found: list[str] = self._fs.find(self._path)
        return [path[len(self._path) :].lstrip("/") for path in found]

    def rglob(self, pattern: str) -> Iterator[RemotePath]:
        """Yield the files below whose name fits ``pattern``."""
        return (self / path for path in self.files() if fnmatchcase(path.split("/")[-1], pattern))

    def _asked(self, question: str) -> bool:
        with self._reaching("looking at"):
            self._fs.invalidate_cache()
            return bool(getattr(self._fs, question)(self._path))

    @cached_property
    def opened(self) -> tuple[Any, str]:
        """The fsspec file system, and the path there."""
        from fsspec.core import url_to_fs

        try:
            files, path = url_to_fs(self._root)
        except ImportError as error:
            raise MissingExtraError(
                f"the folder {self}",
                f"its file system is not installed ({str(error).rstrip('.')})",
                "install it on every machine, as with: pip install s3fs",
            ) from error
        except ValueError as error:
            raise InputError(
                f"the folder {self}", str(error), "name a path, or a URL that fsspec knows"
            ) from error
        return files, "/".join(part for part in (path.rstrip("/"), self._way) if part)

    @property
    def _fs(self) -> Any:
        return self.opened[0]

    @property
    def _path(self) -> str:
        return self.opened[1]

    @contextmanager
    def _reaching(self, doing: str) -> Generator[None, None, None]:
        try:
            yield
        except (FileNotFoundError, InputError, MissingExtraError):
            raise
        except Exception as error:  # every file system has errors of its own
            raise InputError(
                f"{doing} {self}",
                f"{type(error).__name__}: {error}",
                "check the address, the network and your credentials",
            ) from error


Place = Path | RemotePath


def files_in(folder: Place, pattern: str) -> list[str]:
    """Return, in order, the way from ``folder`` to each file that fits, part by part."""
    if isinstance(folder, Path):
        return sorted(path.relative_to(folder).as_posix() for path in folder.glob(pattern))
    parts = pattern.split("/")
    return sorted(
        path
        for path in folder.files()
        if path.count("/") == len(parts) - 1 and all(map(fnmatchcase, path.split("/"), parts))
    )


def place(where: str | Path | RemotePath) -> Place:
    """Return the place that a path or a URL names; ``file://`` is a local path.

    A URL that went through ``pathlib`` has lost a slash, and gets it back.
    """
    if isinstance(where, RemotePath):
        return where
    if not str(where).strip():
        raise InputError("a folder without a name", "it would be this one", "name one, as runs/r56")
    url = _URL.fullmatch(str(where))
    if url is None:
        return Path(where)
    protocol, rest = url.groups()
    if protocol in ("file", "local"):
        return Path("/" + unquote(rest).lstrip("/"))
    return RemotePath(f"{protocol}://{rest}")
