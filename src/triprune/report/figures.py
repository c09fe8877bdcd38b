"""Owns the figures for papers and slides: the page's charts by matplotlib, as PNG and PDF."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from triprune.core.scale import AXES, Scale
from triprune.report.bitmap import heat, shown
from triprune.report.budget_curves import COLOURS, label_of
from triprune.report.contents import Report
from triprune.report.payload import Drawn

_STYLE: dict[Any, Any] = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.alpha": 0.3,
    "font.size": 9.0,
    "legend.frameon": False,
    "pdf.fonttype": 42,  # fonts that a publisher can embed
}
_OTHER = "#3b444e"


def figures(report: Report, drawn: Drawn | None = None) -> dict[str, Figure]:
    """Return every figure that the report has something for, by name."""
    drawn = Drawn.of(report) if drawn is None else drawn
    makers: dict[str, Callable[[Report, Drawn], Figure | None]] = {
        "comparison": _comparison,
        "budget": budget_figure,
        "axes": _axes,
        "surface": _surface,
        "learning": _learning,
        "layers": _layers,
        "feature-maps": _feature_maps,
    }
    with rc_context(_STYLE):
        made = {name: make(report, drawn) for name, make in makers.items()}
        return {name: figure for name, figure in made.items() if figure is not None}


def as_bytes(figure: Figure, kind: str) -> bytes:
    """Return a figure as a "png" or "pdf" file."""
    stream = io.BytesIO()
    with rc_context(_STYLE):
        figure.savefig(stream, format=kind, dpi=200)
    return stream.getvalue()


def budget_figure(report: Report, drawn: Drawn) -> Figure | None:
    """Return accuracy against budget, for all axes together and each alone."""
    if drawn.picture is None:
        return None
    with rc_context(_STYLE):
        figure = Figure(figsize=(6.0, 4.0), layout="constrained")
        axes = figure.add_subplot()
        beyond = False
        for curve in drawn.picture.curves[::-1]:
            wide = 2.6 if curve.name == "joint" else 1.4
            look = {"color": COLOURS[curve.name], "lw": wide}
            axes.plot([], [], label=label_of(curve.name), **look)
            for inside, quotes in curve.stretches():
                beyond |= not inside
                values = [quote.choice.predicted_accuracy for quote in quotes]
                style = "-" if inside else ":"
                axes.plot([quote.budget for quote in quotes], values, style, **look)
        if beyond:
            axes.plot([], [], ":", color=_OTHER, label="beyond the observations")
        joint = drawn.picture.curves[0].quotes
        ends = np.array([quote.choice.interval for quote in joint]).reshape(-1, 2)
        seen = [accuracy for _, accuracy, _ in drawn.picture.observed]
        low, high = axes.get_ylim()
        if np.isfinite(ends).all():
            budgets = [quote.budget for quote in joint]
            axes.fill_between(budgets, *ends.T, color=COLOURS["joint"], alpha=0.13, lw=0)
        # A single axis may fall without end, and an interval may be wide: neither sets the scale.
        least = min([*seen, *(quote.choice.predicted_accuracy for quote in joint)])
        axes.set_ylim(max(low, least - 0.1 * (high - least)), high + 0.1 * (high - least))
        for cost, accuracy, axis in drawn.picture.observed:
            axes.plot(cost, accuracy, "o", color=COLOURS.get(axis, _OTHER), ms=5)
        axes.set(xlabel=f"remaining {report.spending.noun}", ylabel="predicted accuracy")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{100 * x:.0f} %"))
        _scores(axes, report)
        axes.legend()
        return figure


def _comparison(report: Report, drawn: Drawn) -> Figure | None:
    del drawn
    found = report.comparison
    if found is None:
        return None
    figure = Figure(figsize=(6.0, 0.6 + 0.45 * len(found.models)), layout="constrained")
    axes = figure.add_subplot()
    for place, model in enumerate(found.models[::-1]):
        colour = COLOURS.get(model.name, _OTHER)
        axes.plot(model.accuracies, [place] * len(model.accuracies), "o", color=colour, ms=6)
        axes.plot([model.accuracy] * 2, [place - 0.25, place + 0.25], color=colour, lw=2)
    axes.set_yticks(range(len(found.models)), [label_of(m.name) for m in found.models[::-1]])
    axes.axvline(found.models[0].accuracy, color=_OTHER, ls="--", lw=0.8)
    axes.set(xlabel="test accuracy, every seed and the mean")
    axes.grid(axis="x", alpha=0.3)
    if report.in_percent:
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{100 * x:.1f} %"))
    return figure


def _axes(report: Report, drawn: Drawn) -> Figure | None:
    if not drawn.slices:
        return None
    figure = Figure(figsize=(3.0 * len(drawn.slices), 3.6), layout="constrained")
    grid = figure.subplots(
        2, len(drawn.slices), squeeze=False, sharex="col", gridspec_kw={"height_ratios": (3, 1)}
    )
    for (above, below), cut in zip(grid.T, drawn.slices, strict=True):
        colour = COLOURS[cut.axis]
        above.plot(cut.kept, cut.accuracy, color=colour, lw=2)
        limits = above.get_ylim()
        room = 1.5 * (limits[1] - limits[0])
        if np.isfinite([*cut.lower, *cut.upper]).all():
            above.fill_between(cut.kept, cut.lower, cut.upper, color=colour, alpha=0.13, lw=0)
        above.plot([s.kept for s in cut.seen], [s.accuracy for s in cut.seen], "o", color=colour)
        low, high = above.get_ylim()
        above.set_ylim(max(low, limits[0] - room), min(high, limits[1] + room))
        _scores(above, report)
        kept = [s.kept for s in cut.seen]
        residuals = [(100 if report.in_percent else 1) * s.residual for s in cut.seen]
        below.axhline(0.0, color=_OTHER, lw=0.8)
        below.vlines(kept, 0.0, residuals, color=colour)
        below.plot(kept, residuals, "o", color=colour, ms=4)
        below.set(xlabel=f"{cut.axis} kept")
    grid[0][0].set_ylabel("accuracy")
    grid[1][0].set_ylabel("residual, points" if report.in_percent else "residual")
    return figure


def _surface(report: Report, drawn: Drawn) -> Figure | None:
    """Return the surfaces over each pair of axes, the third where the first choice keeps it."""
    tables, stops = drawn.tables, drawn.stops(report)
    if tables is None or not stops:
        return None
    budget = report.comparison.budget if report.comparison else 0.5
    quote, _ = min(stops, key=lambda stop: abs(stop[0].budget - budget))
    pairs = [(0, 1), (0, 2), (1, 2)]
    pairs = [p for p in pairs if all(len(tables.axes[i].kept) > 1 for i in p)]
    if not pairs:
        return None
    figure = Figure(figsize=(3.4 * len(pairs), 3.1), layout="constrained")
    for axes, (i, j) in zip(figure.subplots(1, len(pairs), squeeze=False)[0], pairs, strict=True):
        third = 3 - i - j
        held = min(tables.axes[third].kept, key=lambda x: abs(x - list(quote.choice.scale)[third]))
        xs, ys = tables.axes[i].kept, tables.axes[j].kept
        scales = [[_at({i: x, j: y, third: held}) for x in xs] for y in ys]
        values = [[tables.accuracy(scale) for scale in row] for row in scales]
        shown = axes.contourf(xs, ys, values, levels=14, cmap="YlGnBu")
        spent = np.array([[report.cost(scale) for scale in row] for row in scales])
        level = report.cost(quote.choice.scale)
        if spent.min() < level < spent.max():
            axes.contour(xs, ys, spent, levels=[level], colors="#c2410c", linewidths=1.8)
        kept = list(quote.choice.scale)
        axes.plot(kept[i], kept[j], "o", color="#c2410c", mec="white", ms=8, clip_on=False)
        axes.set(xlabel=f"{AXES[i]} kept", ylabel=f"{AXES[j]} kept")
        axes.set_title(f"{AXES[third]} {held:.2f}", fontsize=9)
        axes.grid(visible=False)
        figure.colorbar(shown, ax=axes, format=FuncFormatter(_score_text(report)))
    return figure


def _at(kept: dict[int, float]) -> Scale:
    return Scale(kept[0], kept[1], kept[2])


def _learning(report: Report, drawn: Drawn) -> Figure | None:
    del drawn
    groups = [g for g in (*AXES, "final") if any(c.group == g for c in report.curves)]
    if not groups:
        return None
    figure = Figure(figsize=(2.6 * len(groups), 2.6), layout="constrained")
    for axes, group in zip(
        figure.subplots(1, len(groups), squeeze=False, sharey=True)[0], groups, strict=True
    ):
        curves = [curve for curve in report.curves if curve.group == group]
        for place, curve in enumerate(curves, start=1):
            name = curve.name.split(",")[0] if group == "final" else group
            shade = 1.0 if group == "final" else 0.35 + 0.65 * place / len(curves)
            known = [(n, a) for n, a in enumerate(curve.accuracies, start=1) if a is not None]
            axes.plot(*zip(*known, strict=True), color=(*to_rgb(COLOURS[name]), shade), marker=".")
        axes.set(xlabel="epoch", title="final" if group == "final" else f"{group} chain")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        _scores(axes, report)
    return figure


def _layers(report: Report, drawn: Drawn) -> Figure | None:
    del drawn
    layers = report.surgery.layers
    if not layers:
        return None
    figure = Figure(figsize=(7.0, 2.6), layout="constrained")
    axes = figure.add_subplot()
    places = np.arange(len(layers))
    gone = [layer.whole if not layer.kept else 0 for layer in layers]
    cut = [layer.whole if layer.kept else 0 for layer in layers]
    axes.bar(places, cut, color=COLOURS["width"], alpha=0.22, label="cut")
    axes.bar(places, [layer.kept for layer in layers], color=COLOURS["width"], label="kept")
    axes.bar(places, gone, color=COLOURS["depth"], alpha=0.45, label="gone with its block")
    axes.set(xlabel="convolutions, from input to output", ylabel="channels")
    axes.legend()
    return figure


def _feature_maps(report: Report, drawn: Drawn) -> Figure | None:
    """Return the last convolution's maps (Wang et al. 2021, Figure 6)."""
    del drawn
    found = report.gallery
    if found is None:
        return None
    rows = {"image": [shown(image) for image in found.images]}
    rows |= {label_of(name): [heat(one) for one in maps] for name, maps in found.maps.items()}
    figure = Figure(figsize=(1.3 + 0.9 * len(found.labels), 0.9 * len(rows)), layout="constrained")
    grid = figure.subplots(len(rows), len(found.labels), squeeze=False)
    for line, (name, pictures) in zip(grid, rows.items(), strict=True):
        for axes, picture in zip(line, pictures, strict=True):
            axes.imshow(picture, cmap="gray")
            axes.set(xticks=[], yticks=[])
            axes.grid(visible=False)
            axes.spines[:].set_visible(False)
        line[0].set_ylabel(name, rotation=0, ha="right", va="center")
    return figure


def _scores(axes: Axes, report: Report) -> None:
    axes.yaxis.set_major_formatter(FuncFormatter(_score_text(report)))


def _score_text(report: Report) -> Callable[[float, float | None], str]:
    if report.in_percent:
        return lambda value, _: f"{100 * value:.1f} %"
    return lambda value, _: f"{value:.4g}"
