"""Owns the picture of a quote: accuracy against budget, for all axes together and each alone."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from triprune.core.choice import choose_scale
from triprune.core.cost import Cost, paper_cost
from triprune.core.observation import Observation
from triprune.core.predictor import Predictor
from triprune.core.scale import AXES, Axis
from triprune.errors import BudgetError

_COLOURS = {"joint": "#1f3a5f", "depth": "#c8553d", "width": "#2a9d8f", "resolution": "#b8860b"}


@dataclass(frozen=True, slots=True)
class BudgetCurve:
    """Predicted accuracy at each budget, with its 90 % interval."""

    name: str
    budgets: tuple[float, ...]
    accuracies: tuple[float, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    scales: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BudgetPicture:
    """All curves, and the observations as (cost, accuracy, axis that was cut)."""

    curves: tuple[BudgetCurve, ...]
    observed: tuple[tuple[float, float, str], ...]


def budget_picture(
    predictor: Predictor, observations: Sequence[Observation], *, cost: Cost = paper_cost
) -> BudgetPicture:
    """Compute the joint curve and the three single-axis curves over the observed budgets."""
    costs = [cost(item.scale) for item in observations]
    budgets = np.linspace(max(min(costs), 0.05), 1.0, 40)
    curves = [_curve("joint", predictor, budgets, cost, free=AXES)]
    for index, axis in enumerate(AXES):
        if predictor.observed[index] < 1.0:
            curves.append(_curve(axis, predictor, budgets, cost, free=(axis,)))
    observed = tuple(
        (paid, item.accuracy, "+".join(item.scale.cut_axes()) or "original")
        for paid, item in zip(costs, observations, strict=True)
    )
    return BudgetPicture(tuple(curves), observed)


def _curve(
    name: str, predictor: Predictor, budgets: np.ndarray, cost: Cost, *, free: Sequence[Axis]
) -> BudgetCurve:
    bounds: dict[Axis, tuple[float, float]] = {
        axis: (1.0, 1.0) for axis in AXES if axis not in free
    }
    points: list[tuple[float, float, float, float, str]] = []
    for budget in budgets:
        try:
            choice = choose_scale(predictor, budget=float(budget), cost=cost, bounds=bounds)
        except BudgetError:
            continue
        low, high = choice.interval
        kept = ", ".join(f"{axis} {x:.2f}" for axis, x in zip(AXES, choice.scale, strict=True))
        points.append((float(budget), choice.predicted_accuracy, low, high, kept))
    columns = list(zip(*points, strict=True))
    return BudgetCurve(name, *columns)


def to_html(picture: BudgetPicture, title: str) -> str:
    """Return one self-contained, interactive page."""
    import html

    import plotly.graph_objects as go  # pyright: ignore[reportMissingTypeStubs]

    figure = go.Figure()
    joint = picture.curves[0]
    figure.add_scatter(
        x=[*joint.budgets, *joint.budgets[::-1]],
        y=[*joint.upper, *joint.lower[::-1]],
        fill="toself",
        fillcolor="rgba(31, 58, 95, 0.12)",
        line={"width": 0},
        hoverinfo="skip",
        name="joint, 90 % interval",
    )
    for curve in picture.curves:
        figure.add_scatter(
            x=curve.budgets,
            y=curve.accuracies,
            text=curve.scales,
            mode="lines",
            name=_label(curve.name),
            line={"color": _COLOURS[curve.name], "width": 3 if curve is joint else 2},
            hovertemplate="%{y:.4f} at %{x:.0%}<br>%{text}<extra></extra>",
        )
    figure.add_scatter(
        x=[point[0] for point in picture.observed],
        y=[point[1] for point in picture.observed],
        text=[point[2] for point in picture.observed],
        mode="markers",
        name="observed",
        marker={"color": [_COLOURS.get(p[2], "#1f3a5f") for p in picture.observed], "size": 8},
        hovertemplate="%{text}: %{y:.4f} at cost %{x:.2f}<extra></extra>",
    )
    figure.update_layout(
        title=html.escape(title),
        xaxis={"title": "budget: compute that remains", "tickformat": ".0%", "range": [1.0, 0.0]},
        yaxis={"title": "predicted accuracy"},
        template="simple_white",
        legend={"orientation": "h", "y": -0.2},
    )
    return figure.to_html(include_plotlyjs=True, full_html=True)


def to_png(picture: BudgetPicture, title: str) -> bytes:
    """Return the same picture as a PNG for a page or a slide."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4.8), layout="constrained")
    axes = figure.add_subplot()
    joint = picture.curves[0]
    if np.isfinite([*joint.lower, *joint.upper]).all():
        axes.fill_between(
            joint.budgets, joint.lower, joint.upper, color=_COLOURS["joint"], alpha=0.12, lw=0
        )
    for curve in picture.curves:
        axes.plot(
            curve.budgets,
            curve.accuracies,
            color=_COLOURS[curve.name],
            linewidth=2.4 if curve is joint else 1.5,
            label=_label(curve.name),
        )
    for paid, accuracy, name in picture.observed:
        axes.plot(paid, accuracy, "o", color=_COLOURS.get(name, "#1f3a5f"), markersize=5)
    axes.set(xlabel="budget: compute that remains", ylabel="predicted accuracy", title=title)
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:.0%}")
    axes.invert_xaxis()
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=150)
    return stream.getvalue()


def _label(name: str) -> str:
    return "joint: all axes" if name == "joint" else f"{name} alone"
