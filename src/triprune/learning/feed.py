"""Owns what a step is fed: batches in a seeded order, rates and randomness, all on the device."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

from triprune.errors import InputError
from triprune.learning.images import ImageSet
from triprune.learning.ranks import Ranks
from triprune.learning.recipe import Recipe


def seed_for(seed: int, epoch: int, purpose: str) -> int:
    """Return the seed of one purpose in one epoch: a resumed training needs no generator state."""
    text = f"{seed}/{epoch}/{purpose}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


class Feed:
    """The batches of an image set that lives on the device.

    The host writes the order and the rates of a whole epoch at once; a step then finds its row by
    a counter on the device, so that replaying a captured step needs nothing from the host.
    """

    def __init__(self, images: ImageSet, recipe: Recipe, *, seed: int, ranks: Ranks) -> None:
        if len(images) < recipe.batch_size:
            raise InputError(
                f"batch_size = {recipe.batch_size}",
                f"the training set has {len(images)} images",
                f"give a batch size of {len(images)} or less",
            )
        self.images = images
        self.steps = len(images) // recipe.batch_size
        self.batch = ranks.share(recipe.batch_size)
        self._recipe, self._seed, self._ranks = recipe, seed, ranks
        device = images.images.device
        self._order = torch.zeros(self.steps, self.batch, dtype=torch.int64, device=device)
        self._rates = torch.zeros(self.steps, device=device)
        self.position = torch.zeros(1, dtype=torch.int64, device=device)
        self.generator = torch.Generator(device)

    def start(self, epoch: int) -> None:
        """Lay out the order, the rates and the randomness of ``epoch``."""
        generator = torch.Generator().manual_seed(seed_for(self._seed, epoch, "order"))
        order = torch.randperm(len(self.images), generator=generator)
        whole = order[: self.steps * self.batch * self._ranks.world]
        mine = whole.view(self.steps, self._ranks.world, self.batch)[:, self._ranks.rank]
        self._order.copy_(mine)
        self._rates.copy_(torch.tensor(self._recipe.rates(epoch, self.steps)))
        self.position.zero_()
        self.generator.manual_seed(seed_for(self._seed, epoch, f"augment/{self._ranks.rank}"))

    def next(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the images, labels and rate of the next step, without the host knowing which."""
        row = self._order.index_select(0, self.position).view(-1)
        rate = self._rates.index_select(0, self.position).view(())
        self.position.add_(1)
        images = self.images.images.index_select(0, row)
        return images, self.images.labels.index_select(0, row), rate
