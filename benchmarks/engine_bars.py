"""Owns the bars that the training engine has to clear, and what the measurements say of each."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

Measured = Sequence[dict[str, Any]]

PARITY = {"resnet56": 0.932, "resnet20": 0.915}  # mean test accuracy, from scratch
PARITY_EPOCHS, PARITY_SEEDS = 160, 3
GPU_TIMES, CPU_TIMES = 5.0, 1.5  # the ordinary trainer's images per second
# What "auto" stands for on each device, under either name.
GPU_DEFAULT = ("auto x3", "tf32-nhwc x3")
CPU_DEFAULT = ("auto x1", "bf16conv x1")


def bars_section(measured: Measured) -> str:
    """Return the table of bars: what was asked, what was measured, and the verdict."""
    lines = ["| bar | measured | verdict |", "|---|---|---|"]
    for model, bar in PARITY.items():
        found = list(_parity_runs(measured, model))
        asked = f"{model}, {PARITY_EPOCHS} epochs: mean of {PARITY_SEEDS} seeds ≥ {100 * bar:.1f} %"
        told = "; ".join(text for text, _, _ in found)
        reached = any(mean >= bar and seeds >= PARITY_SEEDS for _, mean, seeds in found)
        lines.append(_row(asked, told, reached))
    for where, names, bar in (("GPU", GPU_DEFAULT, GPU_TIMES), ("CPU", CPU_DEFAULT, CPU_TIMES)):
        found = list(_speeds(measured, names, gpu=where == "GPU"))
        count = names[0].rpartition("x")[2]
        asked = f"{where}, default precision, {count} at once: ≥ {bar:g} × the ordinary trainer"
        told = "; ".join(text for text, _ in found)
        lines.append(_row(asked, told, any(times >= bar for _, times in found)))
    if not any(_speeds(measured, CPU_DEFAULT, gpu=False)):
        lines.append("\nThe CPU bar waits for two cores with nothing else to do.")
    return "\n".join(lines) + "\n"


def _row(asked: str, told: str, reached: bool) -> str:
    verdict = "met" if reached else "**not met yet**"
    return f"| {asked} | {told or 'nothing'} | {verdict if told else 'not measured yet'} |"


def _parity_runs(measured: Measured, model: str) -> Iterator[tuple[str, float, int]]:
    for content in measured:
        if content["kind"] != "engine accuracy":
            continue
        if content["settings"]["recipe"]["epochs"] != PARITY_EPOCHS:
            continue
        scores: dict[str, list[float]] = {}
        for row in content["rows"]:
            if row["model"] == model and row["accuracy"] is not None:
                scores.setdefault(row["variant"], []).append(row["accuracy"])
        for variant, values in scores.items():
            mean = statistics.fmean(values)
            each = ", ".join(f"{100 * value:.2f}" for value in values)
            yield f"{variant} {100 * mean:.2f} % ({each})", mean, len(values)


def _speeds(
    measured: Measured, names: tuple[str, ...], *, gpu: bool
) -> Iterator[tuple[str, float]]:
    for content in measured:
        if content["kind"] != "train speed" or ("gpu" in content["circumstances"]) is not gpu:
            continue
        for row in content["rows"]:
            name = row["what"].partition(" (")[0]
            if name in names and row["times_ordinary"] is not None:
                rounds = f"{row['rounds']} round" + "s" * (row["rounds"] != 1)
                yield f"{name} {row['times_ordinary']:.2f} × ({rounds})", row["times_ordinary"]
