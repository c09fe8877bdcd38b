"""Owns what tells a run's images from others, as its folder and weights note it; opens no test.

What a hash of images in memory and of a stream's description was stays as it was, so that older
runs go on; what is new stands beside it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from triprune.learning.images import ImageSet, ImageStream, Splits, described

_FILES = "trained_on_files"


def facts_of(splits: Splits) -> dict[str, Any]:
    """Return the hashes of all parts; of streams also those of their files."""
    parts = {"train": splits.train, "validation": splits.validation}
    files = {name: each.digest() for name, each in parts.items() if not isinstance(each, ImageSet)}
    return {
        "data": [*map(digest, parts.values()), len(splits.test)],
        "test_images": splits.test.digest(),
        **({"image_files": files} if files else {}),
    }


def trained_on(images: ImageSet | ImageStream) -> dict[str, str]:
    """Return what weights note of the images that they were trained on."""
    told = {"trained_on": digest(images)}
    return told if isinstance(images, ImageSet) else {**told, _FILES: images.digest()}


def differing(card: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the names of what a card of weights tells otherwise; older cards know of no files."""
    known = [name for name in now if name != _FILES or name in card]
    return [name for name in known if card.get(name) != now[name]]


def digest(images: ImageSet | ImageStream) -> str:
    """Return the hash of images in memory; of a stream, of its description alone."""
    if isinstance(images, ImageSet):
        return images.digest()
    return hashlib.sha256(described(images).encode()).hexdigest()
