"""Owns what a run's artifacts are called: keys are made and read here alone; opens none of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count, takewhile

from triprune.core.budget import run_budget
from triprune.core.scale import Axis
from triprune.run.artifacts import Bench, Spends
from triprune.run.store import Store

SURVEY = "survey"
PREDICTOR = "predictor"
SAMPLE = "sample"
# What fits these patterns is of every axis, or of every budget.
ROUNDS = "chains/*"
ASKED = "budget-*/asked-*"
OF_BUDGETS = "budget-*/*"
OUTCOMES = "budget-*/outcome-*"
BENCHES = "bench/*"


@dataclass(frozen=True, slots=True)
class Home:
    """The part of a run folder that belongs to one budget."""

    name: str

    @classmethod
    def of(cls, budget: float) -> Home:
        """Return the budget's home."""
        return cls(f"budget-{100 * budget:g}")

    @property
    def budget(self) -> float:
        """The budget that the name tells."""
        return run_budget(f"{self.name.removeprefix('budget-')}%")

    @property
    def origin(self) -> str:
        """What first asked for the budget, and where."""
        return f"{self.name}/origin"

    def asked(self, extent: str) -> str:
        """Return where it is noted that so much was asked for."""
        return f"{self.name}/asked-{extent}"

    def outcome(self, extent: str) -> str:
        """Return where the answer to that is."""
        return f"{self.name}/outcome-{extent}"

    def feature_maps(self, models: int | str) -> str:
        """Return where the feature maps of so many final models are."""
        return f"{self.name}/feature-maps-{models}"

    def choice(self, spends: Spends) -> str:
        """Return where the choice is that spends the budget jointly, or on one axis."""
        return f"{self.name}/{spends}"

    def final(self, spends: str, seed: int | str) -> str:
        """Return where the final model of that choice from a seed is."""
        return f"{self.name}/{spends}-seed-{seed}"


def homes(store: Store, holding: str = "*") -> list[Home]:
    """Return the budgets that hold an artifact of such a name, the largest first."""
    names = {key.partition("/")[0] for key in store.keys(f"budget-*/{holding}")}
    return sorted(map(Home, names), key=lambda home: -home.budget)


def finals(store: Store, home: Home, spends: str) -> dict[int, str]:
    """Return the final models of a choice that are there, by seed and in its order."""
    found = store.keys(home.final(spends, "*"))
    return dict(sorted((int(key.rpartition("-seed-")[2]), key) for key in found))


def round_key(axis: Axis, number: int) -> str:
    """Return where a round of a chain is; the first is number 1."""
    return f"chains/{axis}-{number}"


def rounds(store: Store, axis: Axis) -> list[str]:
    """Return the rounds of a chain that are there, in order."""
    return list(takewhile(store.has, (round_key(axis, number) for number in count(1))))


def bench_key(found: Bench) -> str:
    """Return where a measurement of time is; measured again, it is replaced."""
    return f"bench/{found.device}-{found.runtime}"
