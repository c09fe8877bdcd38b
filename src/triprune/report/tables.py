"""Owns every table of a report as plain text cells: the page, the terminal and tests read them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from triprune.core.choice import Quote
from triprune.core.measured import times_faster
from triprune.core.scale import AXES, Scale
from triprune.report.amounts import Spending, count, milliseconds
from triprune.report.axis_tables import AxisTables
from triprune.report.budget_curves import label_of
from triprune.report.contents import Comparison, Gallery, LearningCurve, Report, SpeedTest, Surgery
from triprune.report.wording import Words


@dataclass(frozen=True, slots=True)
class Table:
    """Cells under column names; the first column names the row."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def comparison_table(found: Comparison, words: Words, noun: str) -> Table:
    """Return original, joint and controls, with what each costs and keeps."""
    original = found.models[0]
    rows = tuple(
        (
            label_of(model.name),
            words.measured(model),
            words.change(model.accuracy - original.accuracy) if model is not original else "",
            f"{count(model.macs)} ({100 * model.macs / original.macs:.1f} %)",
            count(model.params),
            f"{milliseconds(model.latency_ms)} ({original.latency_ms / model.latency_ms:.2f} ×)",
            f"{_kept(model.scale)} ({model.resolution_px} px)",
        )
        for model in found.models
    )
    columns = ("model", "test accuracy", f"change{words.unit}", "macs", "params")
    seeds = max(len(model.accuracies) for model in found.models)
    note = f"{seeds} seeds" if seeds > 1 else "one seed"
    return Table(
        f"At {100 * found.budget:g} % of the {noun}",
        (*columns, "latency (speed-up)", "kept d / w / r (input)"),
        rows,
        f"{note}; latency on {found.device}, batch of 1",
    )


def speed_table(test: SpeedTest) -> Table:
    """Return a bench: every model at every batch size."""
    rows = tuple(
        (
            label_of(row.name) + ("" if row.budget == 1.0 else f", {100 * row.budget:g} %"),
            str(row.batch_size),
            milliseconds(row.median_ms),
            f"{row.lower_ms:.3g} – {row.upper_ms:.3g}",
            f"{times_faster(row, test.rows):.2f} ×",
            f"{row.images_per_second:,.0f}",
            "–" if row.peak_bytes is None else f"{row.peak_bytes / 2**20:,.1f} MiB",
        )
        for row in test.rows
    )
    columns = ("model", "batch", "median", "quartiles, ms", "speed-up", "images/s", "peak memory")
    title = f"Measured speed: {test.runtime} on {test.device}"
    return Table(title, columns, rows, f"{test.machine}; {test.date}")


def quotes_table(quotes: Sequence[Quote], words: Words, spending: Spending) -> Table:
    """Return which scale each budget buys, and the accuracy to expect of it."""
    rows = tuple(
        (
            f"{100 * item.budget:g} %",
            *(
                f"{kept:.3f}{'*' if axis in item.choice.extrapolated else ''}"
                for axis, kept in zip(AXES, item.choice.scale, strict=True)
            ),
            words.score(item.choice.predicted_accuracy),
            " – ".join(words.score(end) for end in item.choice.interval),
            f"{100 * item.choice.cost:.1f} %",
            spending.text(item.choice.cost),
        )
        for item in quotes
    )
    columns = ("budget", *AXES, "accuracy", "90 % interval", "cost", spending.noun)
    beyond = any(item.choice.extrapolated for item in quotes)
    note = "* beyond what was observed" if beyond else ""
    return Table("What every budget buys", columns, rows, note)


def observations_table(report: Report, words: Words) -> Table:
    """Return every observation beside the prediction, with its residual."""
    predictor = report.predictor
    rows: list[tuple[str, ...]] = []
    for item in report.observations:
        predicted = None if predictor is None else predictor(item.scale)
        rows.append(
            (
                " + ".join(item.scale.cut_axes()) or "original",
                *(f"{kept:.3f}" for kept in item.scale),
                words.score(item.accuracy),
                words.score(predicted),
                "–" if predicted is None else words.change(item.accuracy - predicted),
                "–" if item.macs is None else count(item.macs),
                f"{100 * report.cost(item.scale):.1f} %",
            )
        )
    columns = ("cut", *AXES, "observed", "predicted")
    columns = (*columns, f"residual{words.unit}", "macs", "by fitted cost")
    return Table("Observations and residuals", columns, tuple(rows))


def candidates_table(report: Report, words: Words) -> Table:
    """Return the ways to fit that were compared, by their error, and which was chosen."""
    predictor = report.predictor
    ranking = () if predictor is None else predictor.ranking
    ranking = sorted(
        ranking, key=lambda item: math.inf if item.leave_one_out is None else item.leave_one_out
    )
    chosen = [predictor is not None and item == predictor.candidate for item in ranking]
    rows = tuple(
        (
            ("chosen: " if mark else "")
            + {"root": "sum of curves, root of the error"}.get(
                item.link, f"product of polynomials, {item.link}"
            ),
            "/".join(map(str, item.degree)),
            f"{item.ridge:g}",
            "–" if item.leave_one_out is None else words.size(item.leave_one_out),
        )
        for item, mark in zip(ranking, chosen, strict=True)
    )
    columns = ("form", "degree", "ridge", "leave-one-out error")
    passed_over = chosen and not chosen[0]
    note = "fits with a lower error leave too little to judge their noise by" if passed_over else ""
    return Table("Ways to fit that were compared", columns, rows, note)


def learning_table(curves: Sequence[LearningCurve], words: Words) -> Table:
    """Return every fine-tuning: first, best and last validation accuracy, and the loss."""
    rows: list[tuple[str, ...]] = []
    for curve in curves:
        known = [value for value in curve.accuracies if value is not None]
        ends = (known[0], max(known), known[-1]) if known else (None,) * 3
        losses = f"{curve.losses[0]:.4f} → {curve.losses[-1]:.4f}"
        rows.append((curve.name, str(len(curve.losses)), *map(words.score, ends), losses))
    columns = ("training", "epochs", "first", "best", "last", "training loss")
    return Table("Validation accuracy of every fine-tuning", columns, tuple(rows))


def layers_table(surgery: Surgery) -> Table:
    """Return the channels of every convolution, before and after."""
    rows = tuple(
        (
            layer.name,
            str(layer.whole),
            str(layer.kept) if layer.kept else "gone",
            f"{100 * layer.kept / layer.whole:.0f} %",
        )
        for layer in surgery.layers
    )
    return Table("Channels of every convolution", ("layer", "original", "kept", "part"), rows)


def blocks_table(surgery: Surgery) -> Table:
    """Return every block that could go, with its score and its fate."""
    rows = tuple(
        (name, f"{score:.4g}", "removed" if name in surgery.removed else "kept")
        for name, score in surgery.blocks
    )
    note = "the score says what a block is worth; the lowest go first"
    return Table("Blocks that could go", ("block", "score", "fate"), rows, note)


def likeness_table(gallery: Gallery) -> Table:
    """Return how much each model's maps are like the original's."""
    rows = tuple((label_of(name), f"{value:.3f}") for name, value in gallery.likeness.items())
    note = f"mean over {gallery.compared} validation images"
    return Table("Correlation with the original's maps", ("model", "correlation"), rows, note)


def surface_table(axes: AxisTables, words: Words) -> Table:
    """Return the accuracy along each pair of axes, coarsely, the third whole."""
    rows: list[tuple[str, ...]] = []
    for i, j in ((0, 1), (0, 2), (1, 2)):
        for a in _few(axes.axes[i].kept):
            for b in _few(axes.axes[j].kept):
                if a < 1.0 and b < 1.0:
                    kept = [1.0, 1.0, 1.0]
                    kept[i], kept[j] = a, b
                    accuracy = words.score(axes.accuracy(Scale(*kept)))
                    rows.append((f"{AXES[i]} × {AXES[j]}", *(f"{x:.3f}" for x in kept), accuracy))
    return Table("Predicted accuracy over two axes", ("surface", *AXES, "accuracy"), tuple(rows))


def finished_table(report: Report, words: Words) -> Table:
    """Return the joint choice of every budget that was finished."""
    rows: list[tuple[str, ...]] = []
    for found in report.finished:
        joint, original = found.model("joint"), found.models[0]
        if joint is not None:
            share = f"{count(joint.macs)} ({100 * joint.macs / original.macs:.1f} %)"
            rows.append(
                (f"{100 * found.budget:g} %", words.measured(joint), share, _kept(joint.scale))
            )
    columns = ("budget", "test accuracy", "macs", "kept d / w / r")
    return Table("Finished budgets", columns, tuple(rows))


def facts_table(report: Report) -> Table:
    """Return where the result came from."""
    return Table("Where it came from", ("", ""), report.facts)


def _few(kept: Sequence[float], most: int = 6) -> list[float]:
    """Return some of the fractions, spread evenly, ends included."""
    last = len(kept) - 1
    steps = max(1, min(most - 1, last))
    return [kept[round(k * last / steps)] for k in range(steps + 1)] if last else list(kept)


def _kept(scale: Scale) -> str:
    return " / ".join(f"{kept:.2f}" for kept in scale)
