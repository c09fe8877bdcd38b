"""Owns reading a source through worker processes; never loses an image without a word."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from triprune.learning.datasets.sources import Size, Source

_BATCH = 256
_THUMBNAIL: Size = (8, 8)  # where decoding is the test and the pixels are not kept
_AHEAD = 4  # batches that every worker prepares in advance


class Faults:
    """The images that could not be read so far, and why; the result of a run names them."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def note(self, name: str, reason: str) -> None:
        """Remember an image that could not be read."""
        self._reasons[name] = reason

    def __len__(self) -> int:
        return len(self._reasons)

    def __iter__(self) -> Iterator[str]:
        return (f"{name} ({reason})" for name, reason in self._reasons.items())

    def __str__(self) -> str:
        shown = list(self)[:3]
        more = len(self) - len(shown)
        listed = ", ".join(shown) + (f" and {more} more" if more > 0 else "")
        return f"{len(self)} unreadable image{'s' if len(self) != 1 else ''}: {listed}"


def read_batches(
    source: Source,
    batches: Sequence[Sequence[int]],
    *,
    size: Size,
    channels: int,
    workers: int = -1,
) -> Iterator[tuple[Tensor, Tensor, dict[int, str]]]:
    """Yield for every batch its images, their indices, and why some places hold only zeros.

    ``workers=-1`` takes as many processes as this one may use cores, 0 reads here.
    """
    count = sum(map(len, batches))
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if workers < 0:
        workers = min(available or 1, 16, count // 512)
    loader: DataLoader[Any] = DataLoader(
        _Reader(source, size, channels),
        batch_sampler=[list(batch) for batch in batches],
        collate_fn=_collate,
        num_workers=workers,
        prefetch_factor=_AHEAD if workers else None,
        pin_memory=torch.cuda.is_available(),
        generator=torch.Generator(),  # else the loader draws from, and moves, the global one
    )
    yield from loader


def undecodable(source: Source, channels: int = 3) -> dict[int, str]:
    """Decode every image once; return the indices of those that fail, with the reason."""
    batches = [part.tolist() for part in torch.arange(len(source.labels)).split(_BATCH)]
    found: dict[int, str] = {}
    for _, indices, reasons in read_batches(source, batches, size=_THUMBNAIL, channels=channels):
        found.update({int(indices[place]): reason for place, reason in reasons.items()})
    return found


class _Reader(Dataset[tuple[Tensor, int, str]]):
    """Runs in the workers: an image that cannot be read becomes zeros and a reason."""

    def __init__(self, source: Source, size: Size, channels: int) -> None:
        self._source = source
        self._size = size
        self._channels = channels

    def __getitem__(self, index: int) -> tuple[Tensor, int, str]:
        try:
            return self._source.read(index, self._size, self._channels), index, ""
        except Exception as error:
            blank = torch.zeros(self._channels, *self._size, dtype=torch.uint8)
            return blank, index, " ".join(str(error).split()) or type(error).__name__


def _collate(items: list[tuple[Tensor, int, str]]) -> tuple[Tensor, Tensor, dict[int, str]]:
    images = torch.stack([image for image, _, _ in items])
    indices = torch.tensor([index for _, index, _ in items])
    return images, indices, {place: why for place, (_, _, why) in enumerate(items) if why}
