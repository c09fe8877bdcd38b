"""Owns the table of how few epochs a round suffice: chains of one original, of several lengths."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean
from typing import Any

from paper_numbers import joint_choice, regret, scale, search_epochs, seconds_of


def studies(runs: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a table for every network whose chains were run at several lengths."""
    alike: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for run in runs:
        settings = run["settings"]
        key = run["model"], run["validation"], settings["budget"], settings["rounds"]
        key = *key, settings.get("chains_to"), run["original"]["accuracy"]
        alike.setdefault(key, []).append(run)
    for group in alike.values():
        if len({run["round_epochs"] for run in group}) > 1:
            yield study(sorted(group, key=lambda run: -run["round_epochs"]))


def study(group: list[dict[str, Any]]) -> str:
    longest = group[0]
    lines = [
        f"{longest['model']}, one original, chains of different length. The distance is the mean "
        "absolute difference of the observations from those of the longest; the regret is what the "
        "choice loses against the longest's own choice, by the longest's predictor. Both in "
        "points. Minutes of different calls, alone or beside others, do not compare.\n",
        "| epochs a round | search epochs | minutes | distance | choice d / w / r | regret |",
        "|---|---|---|---|---|---|",
    ]
    for run in group:
        pairs = zip(run["observations"], longest["observations"], strict=False)
        gaps = [abs(one["accuracy"] - other["accuracy"]) for one, other in pairs]
        distance = f"{100 * fmean(gaps):.2f}" if gaps else "–"
        choice, lost = joint_choice(run), regret(run, longest)
        lines.append(
            f"| {run['round_epochs']} | {search_epochs(run)} "
            f"| {seconds_of(run, 'collect') / 60:.1f} | {distance} "
            f"| {'–' if choice is None else scale(choice)} "
            f"| {'–' if lost is None else f'{lost:.2f}'} |"
        )
    return "\n".join(lines) + "\n"
