"""Owns what seeds tell of a training's noise, and what that makes of the recorded intervals."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean, variance
from typing import Any

from paper_numbers import Borrowed, Forecast, forecasts, is_own, kept_loss
from triprune.core.fitting import fit_predictor
from triprune.core.observation import Observation
from triprune.core.predictor import Predictor
from triprune.core.scale import Scale


def noise_section(runs: Sequence[dict[str, Any]], given: Mapping[str, Borrowed]) -> Iterator[str]:
    """Yield how much final models vary by their seed, and how often intervals that know it hold.

    ``given`` are the final models that a run has of another: they are counted there.
    """
    judged = [(run, judges) for run in runs if (judges := judges_of(run)) is not None]
    shares = [
        share
        for run, judges in judged
        for share in seed_shares(run, judges, given[run["name"]].finals)
    ]
    if not shares:
        return
    freedom = sum(count for _, count in shares)
    share = sum(each * count for each, count in shares) / freedom
    yield (
        "Final models that differ by their seed alone vary on validation with "
        f"{share:.2f} of the variance that as many independent images would have ({len(shares)} "
        f"models, {freedom + len(shares)} trainings). Intervals take a third of it for the least "
        "noise of a measurement (docs/adr/0105). Recorded ones and those by today's predictor, "
        "refitted to the same observations, against the final models; forecasts in the last "
        "column with the common factor that the final models have on their losses:\n"
    )
    yield "| run | macs | trainings | covered as recorded | refitted | refitted, with the factor |"
    yield "|---|---|---|---|---|---|"
    totals = [0, 0, 0, 0]
    for run, judges in judged:
        tried = [(at, found) for at in run["budgets"] if len(found := forecasts(at)) > 1]
        if not tried:
            continue
        predictor = refitted(run, judges)
        for at, found in tried:
            counts = [*coverage(run, predictor, at, found)]
            totals = [sum(pair) for pair in zip(totals, counts, strict=True)]
            yield f"| {run['name']} | {at['budget']:.0%} | {' | '.join(map(str, counts))} |"
    yield f"| all | | {' | '.join(map(str, totals))} |"
    yield ""


def seed_shares(
    run: dict[str, Any], judges: int, given: Collection[str]
) -> Iterator[tuple[float, int]]:
    """Yield the variance over the seeds by that of independent images, and its freedom.

    ``given`` are final models at the run's own budget that are another's.
    """
    for at in run["budgets"]:
        own = is_own(run, at)
        for spends, finals in at["finals"].items():
            scores = [each["accuracy"] for each in finals]
            if len(scores) > 1 and not (own and spends in given):
                typical = fmean(scores)
                by_chance = typical * (1 - typical) / judges
                yield variance(scores) / by_chance, len(scores) - 1


def coverage(
    run: dict[str, Any], predictor: Predictor, at: dict[str, Any], found: Sequence[Forecast]
) -> Iterator[int]:
    """Yield the trainings of a budget, and how many of them three kinds of intervals covered."""
    choices = at["choices"]
    anew = [
        replace(each, interval=predictor.interval(Scale(*choices[each.spends]["choice"]["scale"])))
        for each in found
    ]
    original = run["original"]["accuracy"]
    factor, _ = kept_loss(found, original)
    yield sum(len(each.measured) for each in found)
    yield sum(each.covered for each in found)
    yield sum(each.covered for each in anew)
    yield sum(shifted(each, original, factor).covered for each in anew)


def shifted(forecast: Forecast, original: float, factor: float) -> Forecast:
    """Return the forecast as if it had been of ``factor`` times the loss, equally uncertain."""
    gain = (1 - factor) * (original - forecast.predicted)
    low, high = forecast.interval
    return replace(
        forecast, predicted=forecast.predicted + gain, interval=(low + gain, high + gain)
    )


def refitted(run: dict[str, Any], judges: int) -> Predictor:
    """Return today's predictor for the observations of a run."""
    original = Observation(Scale(), run["original"]["accuracy"])
    rounds = [Observation(Scale(*each["scale"]), each["accuracy"]) for each in run["observations"]]
    return fit_predictor([original, *rounds], images=judges)


def judges_of(run: dict[str, Any]) -> int | None:
    """Return how many validation images a run had: its baseline's, or taken out of the test."""
    if run["baseline"] is not None:
        return run["baseline"]["validation_images"]
    _, taken, count = f"{run['validation']}".rpartition(":")
    return int(count) if taken else None
