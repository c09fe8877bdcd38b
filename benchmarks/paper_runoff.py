"""Owns what validation says of the test: how far it orders final models, what a run-off picks."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, median, stdev
from typing import Any

from paper_numbers import Borrowed, forecasts, is_own, measured_budgets, original_of, row_of
from triprune.core.scale import AXES

CLOSE = 0.3  # points; docs/adr/0102 says why


@dataclass(frozen=True, slots=True)
class Standing:
    """Where final models stand, in percent: what was forecast of them, and means over seeds."""

    spends: str
    scale: tuple[float, ...]
    forecast: float
    validation: float
    test: float


Held = tuple[dict[str, Any], dict[str, Any], dict[str, Standing]]


def runoff_section(runs: Sequence[dict[str, Any]], given: Mapping[str, Borrowed]) -> Iterator[str]:
    """Yield what the best on validation would have been worth, and who orders final models well.

    ``given`` are the final models that a run has of another: pairs of them are counted there.
    """
    budgets = [(run, at, standings(at)) for run in runs for at in run["budgets"]]
    held = [each for each in budgets if "joint" in each[2] and len(each[2]) > 1]
    if not held:
        return
    yield from winners(held)
    yield from beside_single_axes(runs)
    pairs = [
        pair
        for run, at, found in held
        for pair in pairs_of(found, given[run["name"]].finals if is_own(run, at) else ())
    ]
    yield from orders(pairs)
    yield ""


def winners(held: Sequence[Held]) -> Iterator[str]:
    """Yield a table of what would have won, and what it and the joint choice are worth."""
    yield (
        "What if the final models had run off against each other on validation, single axes "
        "among them, instead of the forecast choosing? Test accuracies (%) of what would have won, "
        "of the joint choice and of the best single axis:\n"
    )
    yield "| run | macs | best on validation | its test | joint | best single axis |"
    yield "|---|---|---|---|---|---|"
    for run, at, found in held:
        won = max(found.values(), key=lambda each: each.validation)
        names = " = ".join(each.spends for each in found.values() if each.scale == won.scale)
        best = max(each.test for each in found.values() if each.spends in AXES)
        tests = [f"{test:.2f}" for test in (won.test, found["joint"].test, best)]
        cells = run["name"], f"{at['budget']:.0%}", names, *tests
        yield f"| {' | '.join(cells)} |"
    yield ""


def beside_single_axes(runs: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield by how much the joint models lead each single axis on average, where they differ."""
    told: list[str] = []
    for axis in AXES:
        leads = leads_by_original(runs, axis)
        each = [lead for some in leads for lead in some]
        if len(leads) > 1:
            means = [fmean(some) for some in leads]
            error = stdev(means) / math.sqrt(len(means))
            told.append(
                f"{fmean(means):+.2f} ± {error:.2f} points beside {axis} ({len(each)} comparisons "
                f"of {len(leads)} originals, median {median(each):+.2f})"
            )
    if told:
        yield (
            "On average over the originals, and for each over the comparisons where it is another "
            f"model, the joint one, as the forecast chose it, stands {', '.join(told)} alone on "
            "the test; ± is the standard error over the originals. A comparison is a budget of a "
            "run; some share their single axes, and one original has more of them than others.\n"
        )


def leads_by_original(runs: Sequence[dict[str, Any]], axis: str) -> list[list[float]]:
    """Return the points by which joint models lead an axis; budgets of one original together."""
    leads: dict[tuple[str, float], list[float]] = {}
    for run in runs:
        for at in measured_budgets(run):
            joint, alone = row_of(at, "joint"), row_of(at, axis)
            if joint is not None and alone is not None and joint["scale"] != alone["scale"]:
                lead = 100 * (fmean(joint["accuracies"]) - fmean(alone["accuracies"]))
                leads.setdefault(original_of(run), []).append(lead)
    return [*leads.values()]


def orders(pairs: Sequence[tuple[Standing, Standing]]) -> Iterator[str]:
    """Yield how many pairs validation and forecast put in the order of the test."""
    apart = [(abs(one.validation - other.validation), one, other) for one, other in pairs]
    for name, some in {
        f"less than {CLOSE:g}": [pair for gap, *pair in apart if gap < CLOSE],
        f"{CLOSE:g} or more": [pair for gap, *pair in apart if gap >= CLOSE],
    }.items():
        counts = [
            sum(same_order(pair, judge) for pair in some) for judge in ("validation", "forecast")
        ]
        yield (
            f"Of {len(some)} pairs of joint, depth and width of one budget that are {name} points "
            f"apart on validation, validation has {counts[0]} in the order of the test and the "
            f"forecast {counts[1]}."
        )


def same_order(pair: Sequence[Standing], judge: str) -> bool:
    """Whether the judge puts two final models in the order of the test."""
    one, other = pair
    return (getattr(one, judge) - getattr(other, judge)) * (one.test - other.test) > 0


def standings(at: dict[str, Any]) -> dict[str, Standing]:
    """Return the joint choice and the single axes of a budget that have met the test images."""
    found: dict[str, Standing] = {}
    for each in forecasts(at):
        row = row_of(at, each.spends)
        if row is not None:
            means = each.predicted, fmean(each.measured), fmean(row["accuracies"])
            percent = (100 * mean for mean in means)
            found[each.spends] = Standing(each.spends, tuple(row["scale"]), *percent)
    return found


def pairs_of(
    found: Mapping[str, Standing], given: Collection[str]
) -> Iterator[tuple[Standing, Standing]]:
    """Yield the pairs of joint, depth and width that differ, but those that are another's."""
    named = [each for name, each in found.items() if name != "resolution"]
    for one, other in combinations(named, 2):
        if one.scale != other.scale and not {one.spends, other.spends} <= {*given}:
            yield one, other
