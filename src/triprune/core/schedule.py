"""Owns Algorithm 1's targets: which scales the three chains visit, on the model's integers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from triprune.core.budget import read_budget
from triprune.core.lattice import Lattice
from triprune.core.scale import AXES, Axis, Scale, is_count
from triprune.errors import InputError


@dataclass(frozen=True, slots=True)
class Schedule:
    """The targets of each chain in the order of its rounds, and what had to be given up."""

    depth: tuple[Scale, ...]
    width: tuple[Scale, ...]
    resolution: tuple[Scale, ...]
    notes: tuple[str, ...] = ()

    def targets(self, axis: Axis) -> tuple[Scale, ...]:
        """Return the scales that the chain along ``axis`` visits."""
        return getattr(self, axis)


def schedule(budget: float | str, *, rounds: int = 4, lattice: Lattice | None = None) -> Schedule:
    """Return the chains' targets for ``budget`` (Wang et al. 2021, Algorithm 1).

    Depth goes to the budget T, width and resolution to sqrt(T), each in ``rounds`` equal steps:
    cut so far alone, any axis meets the budget. With a ``lattice``, each target is the nearest
    one the model can take; targets that fall together are dropped, and ``notes`` says so.
    """
    if not is_count(rounds, least=1):
        raise InputError(f"rounds = {rounds!r}", "it is not a positive integer", "use 4")
    if lattice is not None and not isinstance(lattice, Lattice):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"lattice={lattice!r}", "it is not a Lattice", "pass Lattice(27, 16, 32)")
    remaining = read_budget(budget)
    lowest = {"depth": remaining, "width": math.sqrt(remaining), "resolution": math.sqrt(remaining)}
    chains: dict[str, tuple[Scale, ...]] = {}
    notes: list[str] = []
    for axis in AXES:
        step = (1.0 - lowest[axis]) / rounds
        wanted = [Scale.along(axis, 1.0 - n * step) for n in range(1, rounds + 1)]
        real = [lattice.snap(scale) for scale in wanted] if lattice else wanted
        chains[axis] = tuple(dict.fromkeys(scale for scale in real if scale.cut_axes()))
        if len(chains[axis]) < rounds:
            notes.append(
                f"{axis}: {len(chains[axis])} distinct steps for {rounds} rounds down to "
                f"{lowest[axis]:.3g}"
            )
    return Schedule(**chains, notes=tuple(notes))
