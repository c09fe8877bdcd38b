"""Owns which channels live or die together; refuses to know any operator or layer.

Every channel of every tensor carries a label, a plain integer. While a forward pass is followed,
labels are tied (two channels that must share their fate), pinned (a channel that must stay) or put
in rows (a grouped operation: each row keeps as many channels as the next). Ties are solved once,
at the end, as the connected components of a graph.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Labels = NDArray[np.int64]

FREE = -1
"""The label of an element that takes whatever size its neighbours have, such as an expanded one."""


@dataclass(slots=True)
class Pin:
    """Labels that must stay, and why; an empty reason needs no telling (the image, the classes)."""

    labels: Labels
    reason: str


@dataclass(slots=True)
class Rows:
    """Groups of one operation: row ``q`` of every matrix belongs to its group ``q``."""

    matrices: tuple[Labels, ...]
    where: str


@dataclass(slots=True)
class Grid:
    """Channels cut up over several dimensions of a tensor, in the order of ``dims``."""

    dims: tuple[int, ...]
    labels: Labels


@dataclass(slots=True)
class Ledger:
    """Labels handed out so far, and everything that was learnt about them."""

    count: int = 0
    ties: list[tuple[Labels, Labels]] = field(default_factory=list)
    pins: list[Pin] = field(default_factory=list)
    rows: list[Rows] = field(default_factory=list)
    chunks: list[tuple[Labels, ...]] = field(default_factory=list)
    shuffled: list[Labels] = field(default_factory=list)
    """Channels that a reshape reorders by their number: cut, they are reordered otherwise."""
    counted_in: list[str] = field(default_factory=list)
    """Modules with an operator whose result depends on how many channels there are."""

    def fresh(self, size: int) -> Labels:
        """Return ``size`` labels that nothing else carries."""
        labels = np.arange(self.count, self.count + size, dtype=np.int64)
        self.count += size
        return labels

    def tie(self, first: Labels, second: Labels) -> None:
        """Note that the two share their fate, element by element."""
        if first is not second:
            bound = (first != FREE) & (second != FREE) & (first != second)
            if bound.any():
                self.ties.append((first[bound], second[bound]))

    def pin(self, labels: Labels, reason: str = "") -> None:
        """Note that these channels must stay."""
        bound = labels[labels != FREE]
        if bound.size:
            self.pins.append(Pin(np.unique(bound), reason))

    def solve(self) -> Labels:
        """Return the class of every label: tied labels have the same class."""
        root = np.arange(self.count, dtype=np.int64)
        if self.ties:
            first = np.concatenate([a for a, _ in self.ties])
            second = np.concatenate([b for _, b in self.ties])
            settled = False
            while not settled:
                lower = root.copy()
                least = np.minimum(root[first], root[second])
                np.minimum.at(lower, root[first], least)
                np.minimum.at(lower, root[second], least)
                while (lower[lower] != lower).any():
                    lower = lower[lower]
                settled = bool((lower == root).all())
                root = lower
        return np.unique(root, return_inverse=True)[1].reshape(-1)
