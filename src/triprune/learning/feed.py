"""Owns what a step is fed: batches in a seeded order, rates and randomness, all on the device."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from triprune.errors import InputError
from triprune.learning.images import ImageSet, ImageStream, affine_of
from triprune.learning.ranks import Ranks
from triprune.learning.recipe import Recipe


def seed_for(seed: int, epoch: int, purpose: str) -> int:
    """Return the seed of one purpose in one epoch: a resumed training needs no generator state."""
    text = f"{seed}/{epoch}/{purpose}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


class Batch(NamedTuple):
    """What one step is fed; ``numbers`` say which images these are, where they live in one set."""

    pixels: Tensor
    labels: Tensor
    rate: Tensor
    numbers: Tensor | None = None


class Feed:
    """The batches of an image set that lives on the device.

    The host writes the order and the rates of a whole epoch at once; a step then finds its row by
    a counter on the device, so that replaying a captured step needs nothing from the host.
    """

    def __init__(
        self, images: ImageSet | ImageStream, recipe: Recipe, *, seed: int, ranks: Ranks
    ) -> None:
        if len(images) < recipe.batch_size:
            raise InputError(
                f"batch_size = {recipe.batch_size}",
                f"the training set has {len(images)} images",
                f"give a batch size of {len(images)} or less",
            )
        self.steps = len(images) // recipe.batch_size
        self.batch = ranks.share(recipe.batch_size)
        self._images, self._recipe = images, recipe
        self._seed, self._ranks = seed, ranks
        self._live_on(images.images.device if isinstance(images, ImageSet) else None)

    def _live_on(self, device: torch.device | None) -> None:
        self.device = device or torch.device("cpu")
        self._order = torch.zeros(self.steps, self.batch, dtype=torch.int64, device=self.device)
        self._rates = torch.zeros(self.steps, device=self.device)
        self.position = torch.zeros(1, dtype=torch.int64, device=self.device)
        self.generator = torch.Generator(self.device)

    def affine(self) -> tuple[Tensor, Tensor]:
        """Return the scale and shift that normalise the images."""
        return affine_of(self._images.mean, self._images.std, self.device)

    def start(self, epoch: int) -> None:
        """Lay out the order, the rates and the randomness of ``epoch``."""
        self._order.copy_(self._rows(epoch))
        self._rates.copy_(torch.tensor(self._recipe.rates(epoch, self.steps)))
        self.position.zero_()
        self.generator.manual_seed(seed_for(self._seed, epoch, f"augment/{self._ranks.rank}"))

    def _rows(self, epoch: int) -> Tensor:
        """Return the images of every step of ``epoch``, of this process's part of the batches."""
        generator = torch.Generator().manual_seed(seed_for(self._seed, epoch, "order"))
        order = torch.randperm(len(self._images), generator=generator)
        whole = order[: self.steps * self.batch * self._ranks.world]
        return whole.view(self.steps, self._ranks.world, self.batch)[:, self._ranks.rank]

    def load(self) -> None:
        """Bring the next batch to the device, where it is not there already."""

    def next(self) -> Batch:
        """Return the batch of the next step, without the host knowing which."""
        assert isinstance(self._images, ImageSet)
        row = self._order.index_select(0, self.position).view(-1)
        images = self._images.images.index_select(0, row)
        return Batch(images, self._images.labels.index_select(0, row), self._next_rate(), row)

    def _next_rate(self) -> Tensor:
        rate = self._rates.index_select(0, self.position).view(())
        self.position.add_(1)
        return rate


class StreamFeed(Feed):
    """The batches of a stream: each is copied to the same place on the device before its step."""

    def __init__(
        self,
        images: ImageStream,
        recipe: Recipe,
        *,
        seed: int,
        ranks: Ranks,
        place: tuple[torch.device, int | None],
    ) -> None:
        super().__init__(images, recipe, seed=seed, ranks=ranks)
        device, size = place
        self._resolution_px = size or images.resolution_px
        self._live_on(device)
        shape = self.batch, len(images.mean), self._resolution_px, self._resolution_px
        self._pixels = torch.zeros(shape, dtype=torch.uint8, device=device)
        self._labels = torch.zeros(self.batch, dtype=torch.int64, device=device)
        self._stream = images
        self._coming: Iterator[tuple[Tensor, Tensor]] = iter(())

    def start(self, epoch: int) -> None:
        """Lay out the epoch; its batches are read from the first ``load`` on."""
        super().start(epoch)
        rows = self._rows(epoch).tolist()
        self._coming = self._stream.batches(rows, resolution_px=self._resolution_px)

    def load(self) -> None:
        """Copy the next batch to the device; from pinned memory without waiting."""
        pixels, labels = next(self._coming)
        self._pixels.copy_(pixels, non_blocking=True)
        self._labels.copy_(labels, non_blocking=True)

    def next(self) -> Batch:
        """Return the batch that was loaded, and the rate of the step."""
        return Batch(self._pixels, self._labels, self._next_rate())


def feed_for(
    images: ImageSet | ImageStream,
    recipe: Recipe,
    *,
    seed: int,
    ranks: Ranks,
    place: tuple[torch.device, int | None],
) -> Feed:
    """Return the feed for training on ``place``: a device, and a resolution (None: as it is)."""
    if isinstance(images, ImageSet):
        held = images.to(place[0]).at(place[1])
        return Feed(held, recipe, seed=seed, ranks=ranks)
    return StreamFeed(images, recipe, seed=seed, ranks=ranks, place=place)
