"""Owns the picture of a run at several budgets, accuracy over macs; plain SVG, bytes by data."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean
from typing import Any

from paper_numbers import SPENDS, measured_budgets, row_of
from paper_svg import COLOURS, ticks

WIDTH, HEIGHT = 720, 380
LEFT, RIGHT, TOP, BOTTOM = 70, 110, 34, 52
SERIES = {
    "joint": COLOURS["joint"],
    "depth": "#b45309",
    "width": "#7c3aed",
    "resolution": "#2563eb",
}
Point = tuple[float, float]


def curves(run: dict[str, Any]) -> str:
    """Return the accuracy of each way to spend over the macs that are left."""
    series = {name: points_of(run, name) for name in SPENDS}
    original = row_of(measured_budgets(run)[0], "original")
    assert original is not None
    whole = 100 * fmean(original["accuracies"])
    seen = [point for points in series.values() for point in points]
    across = scale([x for x, _ in seen], LEFT, WIDTH - RIGHT)
    up = scale([*(y for _, y in seen), whole], HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="20" font-weight="bold">{run["name"]}: test accuracy (%)</text>',
        *axes(seen, whole, across, up),
        f'<line x1="{LEFT}" y1="{up(whole):.1f}" x2="{WIDTH - RIGHT}" y2="{up(whole):.1f}" '
        f'stroke="{COLOURS["original"]}" stroke-dasharray="5 4"/>',
        label("original", up(whole), COLOURS["original"]),
    ]
    named = sorted(((up(points[0][1]), name) for name, points in series.items() if points))
    for (_, name), y in zip(named, apart([y for y, _ in named], up(whole)), strict=True):
        drawn = [(across(x), up(y)) for x, y in series[name]]
        parts += [*line(drawn, SERIES[name]), label(name, y, SERIES[name])]
    return "\n".join([*parts, "</svg>"]) + "\n"


def points_of(run: dict[str, Any], name: str) -> list[Point]:
    """Return percent of the macs and of the test images, the most macs first."""
    found: list[Point] = []
    for at in measured_budgets(run):
        if (row := row_of(at, name)) is not None:
            share = 100 * row["macs"] / run["original"]["macs"]
            found.append((share, 100 * fmean(row["accuracies"])))
    return found


def scale(values: list[float], start: float, end: float) -> Callable[[float], float]:
    """Return where a value lies between two places, with some air on both sides."""
    low, high = min(values), max(values)
    air = max(0.1, 0.06 * (high - low))
    return lambda value: start + (end - start) * (value - low + air) / (high - low + 2 * air)


def axes(
    seen: list[Point], whole: float, across: Callable[[float], float], up: Callable[[float], float]
) -> list[str]:
    xs, ys = [x for x, _ in seen], [*(y for _, y in seen), whole]
    parts: list[str] = []
    for tick in ticks(min(ys), max(ys)):
        parts += [
            f'<line x1="{LEFT}" y1="{up(tick):.1f}" x2="{WIDTH - RIGHT}" y2="{up(tick):.1f}" '
            'stroke="#e5e7eb"/>',
            f'<text x="{LEFT - 8}" y="{up(tick) + 4:.1f}" text-anchor="end" fill="#6b7280">'
            f"{tick:g}</text>",
        ]
    for tick in ticks(min(xs), max(xs)):
        parts.append(
            f'<text x="{across(tick):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle" '
            f'fill="#6b7280">{tick:g}</text>'
        )
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(
        f'<text x="{middle:.1f}" y="{HEIGHT - 10}" text-anchor="middle">macs left (%)</text>'
    )
    return parts


def line(points: list[Point], colour: str) -> list[str]:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>' for x, y in points]
    return [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>', *dots]


def label(name: str, y: float, colour: str) -> str:
    return f'<text x="{WIDTH - RIGHT + 8}" y="{y + 4:.1f}" fill="{colour}">{name}</text>'


def apart(places: list[float], taken: float) -> list[float]:
    """Return the places of labels, from the top, moved down where two would lie upon each other."""
    found: list[float] = []
    for place in places:
        y = place
        for other in sorted([taken, *found]):
            if abs(y - other) < 15:
                y = other + 15
        found.append(y)
    return found
