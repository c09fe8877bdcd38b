"""Owns what a run was asked for at one budget, so that its end can be told from its middle."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor

from triprune.run.artifacts import Parts, Spends
from triprune.run.keys import Home


@dataclass(frozen=True, slots=True)
class Asked:
    """A budget, on what it is spent (jointly, on one axis), and from which seeds."""

    budget: float
    spends: tuple[Spends, ...]
    seeds: int
    seed: int

    @property
    def key(self) -> str:
        """Where it is noted itself."""
        return Home.of(self.budget).asked(self._extent)

    @property
    def outcome(self) -> str:
        """Where the answer will be."""
        return Home.of(self.budget).outcome(self._extent)

    @property
    def each_seed(self) -> range:
        """The seeds of the final fine-tunings."""
        return range(self.seed, self.seed + self.seeds)

    @property
    def finals(self) -> tuple[str, ...]:
        """Where the final models will be; an axis that cannot meet the budget has none."""
        home = Home.of(self.budget)
        return tuple(home.final(each, seed) for each in self.spends for seed in self.each_seed)

    @property
    def _extent(self) -> str:
        return f"{len(self.spends)}x{self.seeds}"

    def to_parts(self) -> Parts:
        """Return plain values."""
        return asdict(self), {}

    @classmethod
    def from_parts(cls, values: dict[str, Any], tensors: dict[str, Tensor]) -> Asked:
        """Rebuild it."""
        del tensors
        given: dict[str, Any] = {**values, "spends": tuple(values["spends"])}
        return cls(**given)
