"""Owns CIFAR-10 and CIFAR-100 in their official layouts, binary and python."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from triprune.errors import DataError
from triprune.learning.datasets.plain_pickle import read_plain_pickle
from triprune.learning.datasets.sources import Parts, TensorSource

_PIXELS = 3 * 32 * 32
_AGAIN = "unpack the official archive again"

CIFAR10_CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Layout:
    """One official layout: its folder, its files, and how a file tells images and labels."""

    folder: str
    train: tuple[str, ...]
    test: str
    names: str
    classes: int
    binary: bool

    def home(self, folder: Path) -> Path | None:
        """Return where this layout lies: in ``folder`` or in its official subfolder, if at all."""
        for home in (folder, folder / self.folder):
            if any((home / name).is_file() for name in (*self.train, self.test)):
                return home
        return None


_TEN = tuple(f"data_batch_{number}" for number in range(1, 6))
LAYOUTS = {
    "cifar10": (
        Layout(
            "cifar-10-batches-bin", tuple(f"{name}.bin" for name in _TEN), "test_batch.bin",
            "batches.meta.txt", classes=10, binary=True,
        ),
        Layout(
            "cifar-10-batches-py", _TEN, "test_batch", "batches.meta", classes=10, binary=False
        ),
    ),
    "cifar100": (
        Layout(
            "cifar-100-binary", ("train.bin",), "test.bin", "fine_label_names.txt", classes=100,
            binary=True,
        ),
        Layout("cifar-100-python", ("train",), "test", "meta", classes=100, binary=False),
    ),
}  # fmt: skip


def read_cifar(home: Path, layout: Layout) -> Parts:
    """Read the files of one layout from the folder that holds them."""
    absent = [name for name in (*layout.train, layout.test) if not (home / name).is_file()]
    if absent:
        raise DataError(f"CIFAR in {home}", f"missing {', '.join(absent)}", _AGAIN)
    read: Callable[[Path, int], _Records] = _read_binary if layout.binary else _read_python
    classes = _class_names(home, layout)
    parts: list[TensorSource] = []
    for names in (layout.train, (layout.test,)):
        records = [read(home / name, layout.classes) for name in names]
        images = np.concatenate([r.pixels for r in records]).reshape(-1, 3, 32, 32)
        labels = np.concatenate([r.labels for r in records]).astype(np.int64)
        parts.append(TensorSource(torch.from_numpy(images), torch.from_numpy(labels), classes))
    return Parts(*parts)


@dataclass(frozen=True, slots=True, eq=False)
class _Records:
    pixels: np.ndarray[Any, Any]
    labels: np.ndarray[Any, Any]


def _read_binary(file: Path, classes: int) -> _Records:
    label_bytes = 1 if classes == 10 else 2  # CIFAR-100 stores the coarse class before the fine
    length = label_bytes + _PIXELS
    size = file.stat().st_size
    if size == 0 or size % length:
        raise DataError(
            f"the CIFAR file {file}", f"{size:,} bytes are no multiple of {length:,}", _AGAIN
        )
    records = np.fromfile(file, np.uint8).reshape(-1, length)
    return _checked(file, records[:, label_bytes:], records[:, label_bytes - 1], classes)


def _read_python(file: Path, classes: int) -> _Records:
    content = read_plain_pickle(file)
    pixels = content.get(b"data")
    labels = content.get(b"labels" if classes == 10 else b"fine_labels")
    if not isinstance(pixels, np.ndarray) or pixels.ndim != 2 or pixels.shape[1] != _PIXELS:
        raise DataError(f"the CIFAR file {file}", f"its data is not N × {_PIXELS} bytes", _AGAIN)
    numbers = labels if isinstance(labels, list) else []
    if len(numbers) != len(pixels) or not all(type(number) is int for number in numbers):
        raise DataError(f"the CIFAR file {file}", "it has no whole number an image", _AGAIN)
    return _checked(file, pixels, np.array(numbers), classes)


def _checked(
    file: Path, pixels: np.ndarray[Any, Any], labels: np.ndarray[Any, Any], classes: int
) -> _Records:
    if labels.min() < 0 or labels.max() >= classes:
        raise DataError(
            f"the CIFAR file {file}", f"labels from {labels.min()} to {labels.max()}", _AGAIN
        )
    return _Records(pixels, labels)


def _class_names(home: Path, layout: Layout) -> tuple[str, ...]:
    file = home / layout.names
    names: list[str] = []
    if file.is_file() and layout.binary:
        names = file.read_text().split()
    elif file.is_file():
        key = b"label_names" if layout.classes == 10 else b"fine_label_names"
        names = [n.decode() for n in read_plain_pickle(file).get(key, []) if isinstance(n, bytes)]
    if len(names) == layout.classes:
        return tuple(names)
    return CIFAR10_CLASSES if layout.classes == 10 else tuple(str(n) for n in range(100))
