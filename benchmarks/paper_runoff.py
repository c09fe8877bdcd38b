"""Owns what validation says of the test: how far it orders final models, what a run-off picks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Any

from paper_numbers import SPENDS, Borrowed, row_of

CLOSE = 0.3  # points; docs/adr/0102 says why


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a budget's final models of one kind stand, in percent: means over their seeds."""

    spends: str
    scale: tuple[float, ...]
    validation: float
    test: float


def runoff_section(runs: Sequence[dict[str, Any]], given: Mapping[str, Borrowed]) -> Iterator[str]:
    """Yield what the best on validation would have been worth, and how often it keeps its lead.

    ``given`` are the final models that a run has of another: pairs of them are counted there.
    """
    budgets = [(run, at, standings(at)) for run in runs for at in run["budgets"]]
    held = [(run, at, found) for run, at, found in budgets if alone(found)]
    if not held:
        return
    yield (
        "What if the final models had run off against each other on validation, single axes "
        "among them, instead of the forecast choosing? Test accuracies (%) of what would have won, "
        "of the joint choice and of the best single axis:\n"
    )
    yield "| run | macs | best on validation | its test | joint | best single axis |"
    yield "|---|---|---|---|---|---|"
    for run, at, found in held:
        won, joint = max(found, key=lambda each: each.validation), found[0]
        best = max(each.test for each in alone(found))
        row = run["name"], f"{at['budget']:.0%}", won.spends
        yield f"| {' | '.join([*row, *(f'{x:.2f}' for x in (won.test, joint.test, best))])} |"
    yield ""
    yield beside_single_axes([found for _, _, found in held])
    pairs = [
        pair
        for run, at, found in held
        for pair in leads(found, given[run["name"]].finals if own(run, at) else ())
    ]
    for name, some in {
        f"less than {CLOSE:g}": [each for each in pairs if abs(each[0]) < CLOSE],
        f"{CLOSE:g} or more": [each for each in pairs if abs(each[0]) >= CLOSE],
    }.items():
        kept = sum(validation * test > 0 for validation, test in some)
        yield (
            f"Of {len(some)} pairs of one run and budget that are {name} points apart on "
            f"validation, {kept} have the same order on the test."
        )
    yield ""


def beside_single_axes(held: Sequence[Sequence[Standing]]) -> str:
    """Say by how much the joint models lead the best single axis, and the others, on average."""
    gaps: dict[str, list[float]] = {}
    for found in held:
        ranked = sorted(alone(found), key=lambda each: each.test, reverse=True)
        for place, each in zip(("best", "second", "third"), ranked, strict=False):
            gaps.setdefault(place, []).append(found[0].test - each.test)
    told = [f"{fmean(points):+.2f} points beside the {place}" for place, points in gaps.items()]
    return (
        "On average over these the joint model, as the forecast chose it, stands "
        f"{', '.join(told)} of the single axes on the test."
    )


def standings(at: dict[str, Any]) -> list[Standing]:
    """Return the joint choice and the single axes of a budget that have met the test images."""
    found: list[Standing] = []
    for spends in SPENDS:
        row, finals = row_of(at, spends), at["finals"].get(spends)
        if row is not None and finals:
            validation = 100 * fmean(each["accuracy"] for each in finals)
            test = 100 * fmean(row["accuracies"])
            found.append(Standing(spends, tuple(row["scale"]), validation, test))
    return found


def alone(found: Sequence[Standing]) -> list[Standing]:
    """Return the single axes, where there is a joint choice to be held against."""
    return [each for each in found[1:] if found[0].spends == "joint"]


def leads(found: Sequence[Standing], given: Collection[str]) -> Iterator[tuple[float, float]]:
    """Yield the lead on validation and on the test of every pair, but those that are another's."""
    for one, other in combinations(found, 2):
        if one.scale != other.scale and not {one.spends, other.spends} <= {*given}:
            yield one.validation - other.validation, one.test - other.test


def own(run: dict[str, Any], at: dict[str, Any]) -> bool:
    """Whether this is the budget that the run is configured for."""
    return at["budget"] == run["settings"]["budget"]
