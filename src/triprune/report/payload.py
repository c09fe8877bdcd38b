"""Owns the numbers that a page's script draws, as plain values for JSON; formats nothing."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from triprune.core.choice import Quote
from triprune.core.scale import AXES, Scale
from triprune.report.axis_tables import AxisTables, axis_tables
from triprune.report.budget_curves import (
    BudgetCurve,
    BudgetPicture,
    Quoter,
    budget_picture,
    label_of,
)
from triprune.report.contents import Report
from triprune.report.slices import Slice, slices

_SAME = 5e-3
"""A stop of the slider this near to a budget that the run itself chose for shows that choice."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """What is computed once for page, text and figures; empty without a predictor."""

    picture: BudgetPicture | None
    slices: tuple[Slice, ...]
    tables: AxisTables | None

    @classmethod
    def of(cls, report: Report) -> Drawn:
        """Quote every budget, cut the slices, tabulate the axes."""
        if report.predictor is None:
            return cls(None, (), None)
        quoter = Quoter(report.predictor, report.cost, report.lattice)
        picture = budget_picture(quoter, report.observations, report.spending)
        reached = [quote.choice.scale for quote in picture.curves[0].quotes]
        reached += [quote.choice.scale for quote in report.chosen]
        reached.append(Scale(*report.predictor.observed))
        depth, width, resolution = (min(getattr(s, axis) for s in reached) for axis in AXES)
        tables = axis_tables(report.predictor, report.lattice, (depth, width, resolution))
        return cls(picture, slices(report.predictor, report.observations), tables)

    def stops(self, report: Report) -> tuple[tuple[Quote, bool], ...]:
        """Return the joint quotes, and whether each is the run's own choice, as measured."""
        stops: list[tuple[Quote, bool]] = []
        for quote in self.picture.curves[0].quotes if self.picture else ():
            own = [c for c in report.chosen if abs(c.budget - quote.budget) < _SAME]
            stops.append((own[0], True) if own else (quote, False))
        return tuple(stops)


def payload(report: Report, drawn: Drawn) -> str:
    """Return the JSON of a page; it cannot end the element that holds it."""
    stops = drawn.stops(report)
    curves = drawn.picture.curves if drawn.picture else ()
    values = {
        "percent": report.in_percent,
        "spending": {
            "noun": report.spending.noun,
            "made": report.spending.made,
            "whole": report.spending.whole,
            "timed": report.spending.by == "latency",
        },
        "units": _units(report),
        "quotes": [_quote(quote) | {"own": own} for quote, own in stops],
        "curves": [(curve.name, _stretches(curve)) for curve in curves[::-1]],
        "band": _band(curves[0]) if curves else [],
        "start": start_of(report, [quote for quote, _ in stops]),
        "observed": _observed(report, drawn),
        "finals": _finals(report),
        "comparison": _comparison(report),
        "tables": None if drawn.tables is None else asdict(drawn.tables),
        "cost": asdict(report.cost),
        "slices": [asdict(each) for each in drawn.slices],
        "learning": [
            {"name": c.name, "group": c.group, "loss": c.losses, "accuracy": c.accuracies}
            for c in report.curves
        ],
        "layers": [[layer.name, layer.whole, layer.kept] for layer in report.surgery.layers],
    }
    return json.dumps(_plain(values), separators=(",", ":")).replace("<", "\\u003c")


def start_of(report: Report, quotes: Sequence[Quote]) -> int:
    """Return the stop at which the slider begins: the run's budget, else half."""
    wanted = report.comparison.budget if report.comparison else 0.5
    if report.chosen and not report.comparison:
        wanted = report.chosen[0].budget
    return min(range(len(quotes)), key=lambda k: abs(quotes[k].budget - wanted), default=0)


def _units(report: Report) -> dict[str, int]:
    lattice = report.lattice
    return {} if lattice is None else {"depth": lattice.blocks, "resolution": lattice.resolution_px}


def _stretches(curve: BudgetCurve) -> list[dict[str, object]]:
    return [
        {"inside": inside, "points": [(q.budget, q.choice.predicted_accuracy) for q in quotes]}
        for inside, quotes in curve.stretches()
    ]


def _band(curve: BudgetCurve) -> list[tuple[float, float, float]]:
    """Return (budget, lower, upper) wherever there is an interval."""
    ends = [(quote.budget, *quote.choice.interval) for quote in curve.quotes]
    return [each for each in ends if all(map(math.isfinite, each))]


def _quote(quote: Quote) -> dict[str, Any]:
    choice = quote.choice
    return {
        "b": round(quote.budget, 6),
        "s": list(choice.scale),
        "a": choice.predicted_accuracy,
        "lo": choice.interval[0],
        "hi": choice.interval[1],
        "c": choice.cost,
        "x": choice.extrapolated,
    }


def _observed(report: Report, drawn: Drawn) -> list[dict[str, Any]]:
    if drawn.picture is None:
        return []
    kept = [
        ", ".join(f"{getattr(o.scale, axis):.3f}" for axis in o.scale.cut_axes()) or "whole"
        for o in report.observations
    ]
    return [
        {"c": cost, "a": accuracy, "axis": axis, "kept": text}
        for (cost, accuracy, axis), text in zip(drawn.picture.observed, kept, strict=True)
    ]


def _finals(report: Report) -> list[dict[str, Any]]:
    return [
        {"name": m.name, "c": report.share(m, found.models[0]), "accuracies": m.accuracies}
        for found in report.finished
        for m in found.models
        if m.name != "original" or found is report.comparison
    ]


def _comparison(report: Report) -> list[dict[str, Any]]:
    return [
        {
            "name": m.name,
            "label": label_of(m.name),
            "short": m.name,
            "accuracies": m.accuracies,
            "mean": m.accuracy,
            "spread": m.spread,
        }
        for m in (report.comparison.models if report.comparison else ())
    ]


def _plain(value: Any) -> Any:
    """Return the value with every number that JSON does not know as null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, (list, tuple)) else value
