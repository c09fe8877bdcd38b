"""Owns the official files of CIFAR: their checksums, and fetching them; refuses other bytes.

The checksums are those published beside the archives, and those of the files inside.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from triprune.errors import DataError
from triprune.files import write_atomically
from triprune.learning.datasets.cifar import LAYOUTS, Layout

_BLOCK = 1 << 20
_TIMEOUT_S = 30
_HOST = "https://www.cs.toronto.edu/~kriz"


@dataclass(frozen=True, slots=True)
class Archive:
    """Where an official archive lies, and the MD5 that its authors publish."""

    url: str
    md5: str


ARCHIVES = {
    "cifar10": Archive(f"{_HOST}/cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"),
    "cifar100": Archive(f"{_HOST}/cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8"),
}
FILE_MD5 = {
    "cifar-10-batches-bin/data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
    "cifar-10-batches-bin/data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
    "cifar-10-batches-bin/data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
    "cifar-10-batches-bin/data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
    "cifar-10-batches-bin/data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
    "cifar-10-batches-bin/test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
    "cifar-10-batches-py/data_batch_1": "c99cafc152244af753f735de768cd75f",
    "cifar-10-batches-py/data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "cifar-10-batches-py/data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "cifar-10-batches-py/data_batch_4": "634d18415352ddfa80567beed471001a",
    "cifar-10-batches-py/data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "cifar-10-batches-py/test_batch": "40351d587109b95175f43aff81a1287e",
    "cifar-100-binary/train.bin": "6172c7755cfe09b2fe270c85cebc1b15",
    "cifar-100-binary/test.bin": "4499cfba6c016c1be1438163640a0898",
    "cifar-100-python/train": "16019d7e3df5f24257cddd939b257f8d",
    "cifar-100-python/test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
}

State = Literal["whole", "missing", "damaged"]


@dataclass(frozen=True, slots=True)
class Verification:
    """What was found of an official layout: the folder, and the state of every file."""

    home: Path
    layout: Layout
    states: tuple[tuple[str, State], ...]

    def files(self, state: State) -> list[str]:
        """Return the files in that state."""
        return [name for name, found in self.states if found == state]


def verify(name: str, folder: Path) -> Verification | None:
    """Compare every file of the first layout found under ``folder`` with its official checksum."""
    for layout in LAYOUTS[name]:
        home = layout.home(folder)
        if home is not None:
            states: list[tuple[str, State]] = [
                (file, _state(home, layout, file)) for file in _files(layout)
            ]
            return Verification(home, layout, tuple(states))
    return None


def fetch(name: str, folder: Path, progress: Callable[[int, int], None]) -> None:
    """Download the official binary archive, check it, and put its files under ``folder``.

    ``progress`` is told the bytes fetched so far and in all. Nothing is written before the archive
    has its published checksum, and only files that belong to the layout are.
    """
    archive, layout = ARCHIVES[name], LAYOUTS[name][0]
    content = _download(name, folder, progress)
    if hashlib.md5(content, usedforsecurity=False).hexdigest() != archive.md5:
        raise DataError(
            f"fetching {archive.url}",
            f"its MD5 is not {archive.md5}",
            "try again; if it stays so, something between you and the server changes it",
        )
    home = folder / layout.folder
    home.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(content)) as members:
        for file in (*_files(layout), layout.names):
            stream = members.extractfile(f"{layout.folder}/{file}")
            write_atomically(home / file, stream.read() if stream else b"")


def what_to_put_where(name: str, folder: Path) -> str:
    """Return a sentence for somebody who has to fetch the archive by other means."""
    archive, layout = ARCHIVES[name], LAYOUTS[name][0]
    return (
        f"download {archive.url} (MD5 {archive.md5}) elsewhere and unpack it with: "
        f"tar xzf {archive.url.rpartition('/')[2]} -C {folder}; then "
        f"{folder / layout.folder / layout.train[0]} is there"
    )


def _download(name: str, folder: Path, progress: Callable[[int, int], None]) -> bytes:
    content = bytearray()
    try:
        with urllib.request.urlopen(ARCHIVES[name].url, timeout=_TIMEOUT_S) as response:
            total = int(response.headers.get("Content-Length") or 0)
            while block := response.read(_BLOCK):
                content += block
                progress(len(content), total)
    except OSError as error:  # URLError, HTTPError and time-outs are kinds of it
        if isinstance(error, urllib.error.HTTPError):
            error.close()  # it holds the connection
        raise DataError(
            f"fetching {ARCHIVES[name].url}",
            f"the network gave no answer to use ({error})",
            what_to_put_where(name, folder),
        ) from error
    return bytes(content)


def _files(layout: Layout) -> tuple[str, ...]:
    return (*layout.train, layout.test)


def _state(home: Path, layout: Layout, file: str) -> State:
    if not (home / file).is_file():
        return "missing"
    digest = hashlib.md5(usedforsecurity=False)
    with (home / file).open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return "whole" if digest.hexdigest() == FILE_MD5[f"{layout.folder}/{file}"] else "damaged"
