"""Owns looking a folder of images through before it is used: counts, sizes, unreadable files."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from triprune.learning.datasets.image_files import FileSource
from triprune.learning.datasets.sources import Parts, Source
from triprune.learning.reading import undecodable


@dataclass(frozen=True, slots=True)
class PartSurvey:
    """What one part of a data set holds; ``faults`` are unreadable images with their reasons."""

    part: str
    images: int
    classes: int
    fewest: int
    most: int
    faults: tuple[str, ...]


def survey(parts: Parts) -> tuple[PartSurvey, ...]:
    """Decode every image of every part once and count."""
    named = {"train": parts.train, "validation": parts.validation, "test": parts.test}
    return tuple(_survey(part, source) for part, source in named.items() if source is not None)


def _survey(part: str, source: Source) -> PartSurvey:
    counts = torch.bincount(source.labels, minlength=len(source.classes))
    bad = undecodable(source) if isinstance(source, FileSource) else {}
    faults = tuple(f"{source.name(index)} ({reason})" for index, reason in bad.items())
    fewest, most = int(counts.min()), int(counts.max())
    return PartSurvey(part, len(source.labels), len(source.classes), fewest, most, faults)
