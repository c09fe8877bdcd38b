"""Owns images that stay on disk and are read by workers as a run asks for them.

An image that turns out unreadable in the middle of a run is replaced by another of its batch and
named in ``notes``: the run goes on, and its result says so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from triprune.errors import DataError
from triprune.learning.datasets.sources import Source
from triprune.learning.images import described
from triprune.learning.reading import Faults, read_batches

_READ_WHOLE = 256  # at least so many of the files that are hashed, spread over all
_LOST = 8  # a whole batch of at least so many unreadable images is a disk that is gone


@dataclass(frozen=True, slots=True, eq=False)
class StreamedSet:
    """Labelled images that do not fit in memory: decoded, cropped and resized on demand.

    ``mean`` and ``std`` are as in ``ImageSet``; images are square. ``workers=-1`` takes a process
    for every core.
    """

    source: Source
    resolution_px: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    workers: int = -1
    faults: Faults = field(default_factory=Faults)

    def __len__(self) -> int:
        return len(self.source.labels)

    @property
    def classes(self) -> tuple[str, ...]:
        """The name of every class."""
        return self.source.classes

    @property
    def labels(self) -> Tensor:
        """The class of every image: int64, N."""
        return self.source.labels

    @property
    def notes(self) -> tuple[str, ...]:
        """What a result must say about these images."""
        return (f"replaced {self.faults}",) if len(self.faults) else ()

    def digest(self) -> str:
        """Return a hash of all labels and files: names and sizes, and the contents of some hundred.

        So it costs a look at every file, not the reading of all; a single file rewritten at its
        size may go unseen. Items of a user's own data set count by label and place alone.
        """
        found = hashlib.sha256(described(self).encode())
        found.update(self.labels.numpy().tobytes())
        step = max(1, len(self) // _READ_WHOLE)
        for index in range(len(self)):
            found.update(self.source.mark(index, whole=index % step == 0))
        return found.hexdigest()

    def take(self, indices: Tensor) -> StreamedSet:
        """Return the images at ``indices``, in that order; faults are noted in one place."""
        return replace(self, source=self.source.take(indices))

    def batches(
        self, rows: Sequence[Sequence[int]], *, resolution_px: int | None = None
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield for every row of indices its uint8 images and labels, the next ones under way."""
        side = resolution_px or self.resolution_px
        on_gpu = torch.cuda.is_available()
        for images, indices, reasons in read_batches(
            self.source, rows, size=(side, side), channels=len(self.mean), workers=self.workers
        ):
            for place, reason in reasons.items():
                self.faults.note(self.source.name(int(indices[place])), reason)
            if reasons:
                _replace(images, indices, list(reasons))
            labels = self.source.labels[indices]
            yield images, labels.pin_memory() if on_gpu else labels


def _replace(images: Tensor, indices: Tensor, bad: list[int]) -> None:
    good = [place for place in range(len(images)) if place not in bad]
    if not good and len(images) >= _LOST:
        raise DataError(
            f"a batch of {len(images)} images",
            "not one of them can be read",
            "check that the disk is there; then start again, a checkpoint goes on where it was",
        )
    for number, place in enumerate(bad if good else []):
        other = good[number % len(good)]
        images[place], indices[place] = images[other], indices[other]
