"""Owns the README's picture of the recorded runs: plain SVG, the same bytes from the same data."""

from __future__ import annotations

from statistics import fmean, stdev
from typing import Any

from paper_numbers import SPENDS, row_of

WIDTH, LEFT, RIGHT = 720, 120, 60
LINE, GAP, TITLE = 24, 30, 26
COLOURS = {"original": "#6b7280", "joint": "#0f766e"}
OTHER = "#b45309"


def svg(panels: list[tuple[str, dict[str, Any]]]) -> str:
    """Return one panel for each (title, budget) with its test: a dot a model, ± the spread."""
    height = sum(panel_height(at) for _, at in panels) + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    top = 0
    for title, at in panels:
        parts += panel(title, at, top)
        top += panel_height(at)
    return "\n".join([*parts, "</svg>"]) + "\n"


def panel_height(at: dict[str, Any]) -> int:
    return TITLE + LINE * len(rows_of(at)) + GAP + 14


def rows_of(at: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for name in ("original", *SPENDS) if (row := row_of(at, name)) is not None]


def panel(title: str, at: dict[str, Any], top: int) -> list[str]:
    rows = rows_of(at)
    ends = [100 * end for row in rows for end in whiskers(row)]
    low, high = min(ends), max(ends)
    margin = max(0.1, 0.06 * (high - low))
    low, high = low - margin, high + margin

    def place(percent: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (percent - low) / (high - low)

    bottom = top + TITLE + LINE * len(rows) + 10
    parts = [f'<text x="{LEFT}" y="{top + 20}" font-weight="bold">{title}</text>']
    for tick in ticks(low, high):
        x = place(tick)
        parts += [
            f'<line x1="{x:.1f}" y1="{top + TITLE}" x2="{x:.1f}" y2="{bottom}" stroke="#e5e7eb"/>',
            f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle" fill="#6b7280">'
            f"{tick:g} %</text>",
        ]
    for number, row in enumerate(rows):
        parts += dot(row, top + TITLE + LINE * number + LINE // 2 + 4, place)
    return parts


def dot(row: dict[str, Any], y: int, place: Any) -> list[str]:
    colour = COLOURS.get(row["name"], OTHER)
    mean = 100 * fmean(row["accuracies"])
    start, end = (place(100 * each) for each in whiskers(row))
    label = row["name"] if row["name"] in COLOURS else f"{row['name']} only"
    return [
        f'<text x="{LEFT - 10}" y="{y + 4}" text-anchor="end">{label}</text>',
        f'<line x1="{start:.1f}" y1="{y}" x2="{end:.1f}" y2="{y}" stroke="{colour}" '
        'stroke-width="2"/>',
        f'<circle cx="{place(mean):.1f}" cy="{y}" r="5" fill="{colour}"/>',
        f'<text x="{max(place(mean), end) + 9:.1f}" y="{y + 4}" fill="{colour}">{mean:.2f}</text>',
    ]


def whiskers(row: dict[str, Any]) -> tuple[float, float]:
    scores = row["accuracies"]
    spread = stdev(scores) if len(scores) > 1 else 0.0
    return fmean(scores) - spread, fmean(scores) + spread


def ticks(low: float, high: float) -> list[float]:
    """Return four to nine round numbers between ``low`` and ``high``."""
    for step in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0):
        first = int(low / step) + 1
        found = [round(number * step, 1) for number in range(first, int(high / step) + 1)]
        if len(found) <= 9:
            return found
    return []
