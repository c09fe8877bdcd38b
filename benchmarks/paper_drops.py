"""Owns what joint models lose: by the test images, by those of validation, and by all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from paper_noise import judges_of
from paper_numbers import drop, measured_budgets

TEST_IMAGES = 10_000


def drops_section(runs: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield a line for each measured budget of the runs that say how many images judged."""
    rows = [
        (run["name"], at, *lost)
        for run in runs
        for at in measured_budgets(run)
        if (lost := drops(run, at)) is not None
    ]
    if not rows:
        return
    yield (
        "Points that the joint models lose against the original. Images of validation have chosen "
        "the scale; those of the test have judged nothing but what stands on this page. Each "
        "original is one training, and its own luck with either is in every line:\n"
    )
    yield "| run | macs | by the test | by validation | by all images |"
    yield "|---|---|---|---|---|"
    for name, at, *points in rows:
        yield f"| {name} | {at['budget']:.0%} | {' | '.join(f'{each:+.2f}' for each in points)} |"
    yield ""


def drops(run: dict[str, Any], at: dict[str, Any]) -> tuple[float, float, float] | None:
    """Return the points lost by the test, by validation, and by all of their images."""
    by_test, judges = drop(at), judges_of(run)
    if by_test is None or judges is None or not at["finals"].get("joint"):
        return None
    reached = fmean(each["accuracy"] for each in at["finals"]["joint"])
    by_validation = 100 * (run["original"]["accuracy"] - reached)
    tested = TEST_IMAGES if run["baseline"] is not None else TEST_IMAGES - judges
    every = (tested * by_test + judges * by_validation) / (tested + judges)
    return by_test, by_validation, every
