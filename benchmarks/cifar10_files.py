"""Owns reading CIFAR-10's official binary files for the benchmarks; refuses to download them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from triprune.errors import InputError
from triprune.learning.images import ImageSet, SealedTest

CLASSES = tuple(
    "airplane automobile bird cat deer dog frog horse ship truck".split()  # noqa: SIM905
)
MEAN = (0.4914, 0.4822, 0.4465)
STD = (0.2470, 0.2435, 0.2616)
_RECORD = 1 + 3 * 32 * 32


def read_train(folder: Path) -> ImageSet:
    """Return all training images found under ``folder`` (data_batch_*.bin)."""
    return _read(folder, sorted(folder.rglob("data_batch_*.bin")))


def read_test(folder: Path) -> SealedTest:
    """Return the sealed test images found under ``folder`` (test_batch.bin)."""
    return SealedTest(_read(folder, sorted(folder.rglob("test_batch.bin"))))


def _read(folder: Path, files: list[Path]) -> ImageSet:
    if not files:
        raise InputError(
            f"CIFAR-10 in {folder}",
            "no data_batch_*.bin or test_batch.bin is there",
            "give the folder of the official binary version",
        )
    records = np.concatenate([np.fromfile(file, np.uint8).reshape(-1, _RECORD) for file in files])
    labels = torch.from_numpy(records[:, 0].astype(np.int64))
    pixels = torch.from_numpy(records[:, 1:].reshape(-1, 3, 32, 32).copy())
    return ImageSet(pixels, labels, CLASSES, MEAN, STD)
