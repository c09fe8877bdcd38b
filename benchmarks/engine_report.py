"""Write docs/results/engine.md from the measurements under results/engine/.

python benchmarks/engine_report.py            # write the page
python benchmarks/engine_report.py --check    # fail if the page is not what they say
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine_bars import bars_section
from pages import write_or_check

ALLOWED_LOSS = 0.002  # accuracy that a variant may lose on average and still be a default

INTRO = """# The training engine, measured

This page is written by `python benchmarks/engine_report.py` from the files under
`results/engine/`; edit neither by hand. Speed comes from `benchmarks/train_speed.py`, accuracy
from `benchmarks/engine_accuracy.py`. Accuracies are of the CIFAR-10 test set, measured once at
the end of each training on all 50,000 training images unless said otherwise; ± is the standard
deviation over seeds. A variant that loses more than 0.2 points on average against plain fp32 on
the same seeds is never a default. A variant is a precision and a layout; without a layout it ran in
NCHW if it is fp32 or tf32, and in NHWC if it is bf16 or fp16. Settings of the recipe follow a `+`.
Why the recipe warms up is told in docs/adr/0060-a-rough-start.md.
"""


def main() -> None:
    write_or_check("engine", page, (__doc__ or "").partition("\n")[0])


def page(folder: Path) -> str:
    """Return the page for the measurements in ``folder``."""
    measured = [
        (path.relative_to(folder).as_posix(), json.loads(path.read_text()))
        for path in sorted(folder.rglob("*.json"))
    ]
    speeds = [item for item in measured if item[1]["kind"] == "train speed"]
    accuracies = [item for item in measured if item[1]["kind"] == "engine accuracy"]
    parts = [INTRO, "## Bars\n", bars_section([content for _, content in measured])]
    parts += ["## Speed\n"]
    parts += [speed_section(*item) for item in speeds] or ["Not measured yet.\n"]
    parts += ["## Accuracy\n"]
    parts += [accuracy_section(*item) for item in accuracies] or ["Not measured yet.\n"]
    return "\n".join(parts)


def speed_section(name: str, measured: dict[str, Any]) -> str:
    settings = measured["settings"]
    rounds = max(row["rounds"] for row in measured["rows"])
    lines = [
        f"### {settings['model']}, batch {settings['batch_size']}: {machine(measured)}\n",
        "Images per second of all trainings together: median over the rounds "
        f"({rounds}), lowest to highest (`{name}`). The ordinary trainer has "
        f"{settings['workers']} loader workers. `xN` is N trainings side by side.\n",
        "| what | images/s | lowest–highest | × ordinary |",
        "|---|---|---|---|",
    ]
    for row in measured["rows"]:
        times = "–" if row["times_ordinary"] is None else f"{row['times_ordinary']:.2f}"
        lines.append(
            f"| {row['what']} | {row['images_per_second']:,.0f} "
            f"| {row['lowest']:,.0f}–{row['highest']:,.0f} | {times} |"
        )
    probes = measured.get("probes")
    if probes:
        lines.append(
            f"\nProbing {probes['blocks']} blocks on {probes['images']:,} images: "
            f"{probes['seconds']:.2f} s; two epochs of the engine alone: "
            f"{probes['two_epochs_seconds']:.2f} s."
        )
    return "\n".join(lines) + "\n"


def accuracy_section(name: str, measured: dict[str, Any]) -> str:
    settings = measured["settings"]
    recipe = settings["recipe"]
    lines = [
        f"### {recipe['epochs']} epochs on {settings['images']:,} images: {machine(measured)}\n",
        f"Batch {recipe['batch_size']}, rate {recipe['rate']:g}, {recipe['schedule']}, "
        f"{warm_up(recipe)}, weight decay {recipe['weight_decay']:g}, "
        f"{recipe.get('padding', 'reflect')} padding (`{name}`).\n",
        "| model | variant | seeds | accuracy | against the first | verdict |",
        "|---|---|---|---|---|---|",
        *accuracy_rows(measured["rows"]),
    ]
    failed = [row for row in measured["rows"] if row["error"]]
    lines += [
        f"\n{row['model']} {row['variant']} seed {row['seed']} failed: {row['error']}"
        for row in failed
    ]
    lines += loss_lines(measured.get("losses", {}))
    return "\n".join(lines) + "\n"


def loss_lines(losses: dict[str, list[float]]) -> list[str]:
    """Return the mean training loss of each variant at a few epochs that all of them reached."""
    variants: dict[str, list[list[float]]] = {}
    for name, values in losses.items():
        variants.setdefault(name.partition(" seed ")[0], []).append(values)
    if len(variants) < 2:
        return []
    reached = min(map(len, losses.values()))
    epochs = [epoch for epoch in (1, 2, 5, 10, 20, 30) if epoch <= reached]
    lines = [
        f"\nTraining loss, mean and range over the seeds; the first {reached} epochs are common:\n",
        f"| after epoch | {' | '.join(map(str, epochs))} |",
        "|---" * (len(epochs) + 1) + "|",
    ]
    for variant, runs in variants.items():
        cells = []
        for epoch in epochs:
            values = [run[epoch - 1] for run in runs]
            cells.append(f"{statistics.fmean(values):.2f} ({min(values):.2f}–{max(values):.2f})")
        lines.append(f"| {variant} | {' | '.join(cells)} |")
    return lines


def warm_up(recipe: dict[str, Any]) -> str:
    epochs = recipe.get("warmup_epochs", 0)
    return f"warm-up of {epochs:g} epochs" if epochs else "no warm-up"


def accuracy_rows(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a row for each model and variant, compared with the model's first on shared seeds."""
    scores: dict[tuple[str, str], dict[int, float]] = {}
    for row in rows:
        if row["accuracy"] is not None:
            scores.setdefault((row["model"], row["variant"]), {})[row["seed"]] = row["accuracy"]
    for (model, variant), by_seed in scores.items():
        values = list(by_seed.values())
        spread = f" ± {100 * statistics.stdev(values):.2f}" if len(values) > 1 else ""
        mean = f"{100 * statistics.fmean(values):.2f}{spread} %"
        plain = next(other for (name, _), other in scores.items() if name == model)
        gains = [by_seed[seed] - plain[seed] for seed in by_seed if seed in plain]
        against, verdict = "–", "–"
        if gains and by_seed is not plain:
            gain = statistics.fmean(gains)
            against = f"{100 * gain:+.2f} points"
            verdict = "holds" if gain >= -ALLOWED_LOSS else "loses: off by default"
        yield f"| {model} | {variant} | {len(values)} | {mean} | {against} | {verdict} |"


def machine(measured: dict[str, Any]) -> str:
    facts = measured["circumstances"]
    hardware = facts.get("gpu") or f"{facts['cpu']}, {facts['threads']} threads"
    return f"{hardware}, torch {facts['torch']}, {facts['date'][:10]}"


if __name__ == "__main__":
    main()
