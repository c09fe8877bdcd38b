"""Owns what a page says of forecasts: each beside what its final models then reached."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean
from typing import Any

from paper_numbers import forecasts, kept_loss, mean_and_spread, scale


def forecast_table(at: dict[str, Any]) -> Iterator[str]:
    found = forecasts(at)
    if not found:
        for spends, chosen in at["choices"].items():
            told = chosen["choice"]
            yield f"- {spends}: {chosen['note'] if told is None else scale(told['scale'])}"
        return
    yield "| | forecast (%) | 90 % interval | measured on validation (%) | error | covered |"
    yield "|---|---|---|---|---|---|"
    for each in found:
        low, high = each.interval
        yield (
            f"| {each.spends} | {100 * each.predicted:.2f} | {100 * low:.2f}–{100 * high:.2f} "
            f"| {mean_and_spread(each.measured)} | {100 * each.error:.2f} "
            f"| {each.covered} of {len(each.measured)} |"
        )
    covered = sum(each.covered for each in found)
    error = 100 * fmean(each.error for each in found)
    yield (
        f"\nMean absolute error {error:.2f} points; the interval covered {covered} of "
        f"{sum(len(each.measured) for each in found)} measurements."
    )


def common_gain(run: dict[str, Any], at: dict[str, Any]) -> Iterator[str]:
    """Say how much of the forecasts' error all models share: a choice depends on the rest."""
    found = forecasts(at)
    if len(found) < 2 or run["round_epochs"] >= run["final_epochs"]:
        return
    shared = fmean(each.gain for each in found)
    rest = fmean(abs(each.gain - shared) for each in found)
    yield (
        f"\nA forecast is of what rounds of {run['round_epochs']} epochs reach; the final "
        f"fine-tuning has {run['final_epochs']}, and its models are {100 * shared:+.2f} points "
        "from their forecasts on average. Without that common part, on which no choice depends, "
        f"the mean absolute error is {100 * rest:.2f} points."
    )
    factor, left = kept_loss(found, run["original"]["accuracy"])
    if factor > 0:
        yield (
            f"Nor does any choice depend on a common factor: the final models lose {factor:.2f} of "
            "what was forecast that they lose against the original. With that factor instead, "
            f"fitted to them, the error is {100 * left:.2f} points."
        )
