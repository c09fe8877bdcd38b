"""Owns docs/results/cifar10.md: the recorded runs in tables, beside the paper's figures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from paper_cost import cost
from paper_drops import drops_section
from paper_forecasts import common_gain, forecast_table
from paper_noise import noise_section
from paper_numbers import (
    ALLOWED_DROP,
    SPENDS,
    Borrowed,
    Lead,
    borrowed,
    chains_of,
    drop,
    lead,
    mean_and_spread,
    measured_budgets,
    published,
    row_of,
    scale,
)
from paper_runoff import runoff_section
from paper_study import studies
from paper_summary import measured, panels_of, table_of
from triprune.learning.recipe import Recipe

INTRO = """# CIFAR-10: depth, width and resolution together

This page is written by `python benchmarks/paper_report.py page` from the files under
`results/cifar10/`; edit neither by hand. Each run is a file of `configs/`, whose head says how it
differs from others. Accuracies are of test images that no scale was chosen by; ± is the standard
deviation over the seeds of the final fine-tuning. *Joint* spends the budget on all three axes, the
others on one alone. *Drop* is what a model loses against the original, in points: below zero it
gains. The paper is Wang et al. 2021, Table 1, whose single axes are other authors' methods; it
names no validation images.

The original is one training. The pruned models are trained on from it, with it as their teacher
where a run does not say otherwise, and the original is not: where they lose nothing, that further
training has its part in it. Joint and single axes are trained alike. The runs with
`deeper`, `per-cost`, `gentle` and `finals160` in their names, and the studies of cuts under
`results/fine_tuning/`, were begun because the test had shown what they ask about, and open the same
images again: second looks.

Times compare within a table, not between them: `ms` is the latency at a batch of 1, of one call on
one machine, and where runs trained side by side each is charged its share, by epochs and macs.
"""
NOTHING = "Not measured yet.\n"


def page(runs: list[dict[str, Any]]) -> str:
    """Return the page for the recorded runs."""
    parts, given = [INTRO], borrowed(runs)
    found = list(measured(runs))
    if found:
        parts += ["## All runs\n", table_of(found, given), *picture(runs)]
    parts += [run_section(run, given[run["name"]]) for run in runs] or [NOTHING]
    studied = list(studies([run for run in runs if not given[run["name"]].chains]))
    if studied:
        parts += ["## Epochs a round\n", *studied]
    noise = list(noise_section(runs, given))
    if noise:
        parts += ["## The noise of a training\n", *noise]
    against = [*drops_section(runs), *runoff_section(runs, given)]
    if against:
        parts += ["## Validation against the test\n", *against]
    return "\n".join(parts)


def picture(runs: list[dict[str, Any]]) -> list[str]:
    """Return the picture of all runs, if it has anything to show."""
    shown = panels_of(runs)
    return ["![Test accuracy, jointly and on each axis alone](cifar10.svg)\n"] if shown else []


def run_section(run: dict[str, Any], given: Borrowed) -> str:
    """Return what a run found; ``given`` is what it has of others."""
    parts = [f"## {run['name']}\n", about(run)]
    if given.choice is not None and not given.chains:
        parts.append(f"By observations of its own it chose the joint model of {given.choice}.\n")
    for at in run["budgets"]:
        parts += [f"### Budget {at['budget']:.0%}\n", budget_section(run, at)]
    if not any(at["test"] for at in run["budgets"]):
        parts.append("No final model has been measured yet.\n")
    if len(measured_budgets(run)) > 1:
        parts += ["### All budgets\n", all_budgets(run)]
    if len(given.chains) < max(1, len(chains_of(run))):
        parts += ["### Observations\n", observations(run)]
    parts += ["### Cost\n", cost(run, given)]
    return "\n".join(parts)


def all_budgets(run: dict[str, Any]) -> str:
    """Return the test accuracies of every budget from one collection, and their picture."""
    lines = [f"| macs | {' | '.join(SPENDS)} | joint leads by |", "|---" * (len(SPENDS) + 2) + "|"]
    for at in measured_budgets(run):
        rows = [row_of(at, name) for name in SPENDS]
        cells = ["–" if row is None else mean_and_spread(row["accuracies"]) for row in rows]
        ahead = lead(at)
        points = "–" if ahead is None else f"{ahead.points:+.2f}"
        lines.append(f"| {at['budget']:.0%} | {' | '.join(cells)} | {points} |")
    return "\n".join([*lines, "", f"![{run['name']} at every budget]({run['name']}.svg)", ""])


def about(run: dict[str, Any]) -> str:
    trained = run["baseline"]
    if trained is None:
        origin = "weights of other origin"
    else:
        origin = (
            f"trained on {trained['images']:,} images for {trained['recipe']['epochs']} epochs, "
            f"{100 * trained['validation_accuracy']:.2f} % on the other "
            f"{trained['validation_images']:,}"
        )
    original, final = run["original"], Recipe.from_mapping(run["settings"]["recipe"])
    teacher = "beside a teacher" if final.distillation else "without a teacher"
    return (
        f"{run['model']}: {origin}; {original['macs'] / 1e6:.1f} M macs, "
        f"{original['params'] / 1e3:.0f} k params. Fine-tuning: {run['round_epochs']} epochs a "
        f"round, {run['final_epochs']} at the end, from a rate of "
        f"{final.fine_tuning(final=True).rate:g} {teacher}.{judge_of_blocks(run)}\n"
    )


def judge_of_blocks(run: dict[str, Any]) -> str:
    """Say who judged the blocks, where it is not the paper's probes."""
    judge = run["settings"].get("block_importance", "probe")
    return "" if judge == "probe" else f" Blocks are judged by {judge}."


def budget_section(run: dict[str, Any], at: dict[str, Any]) -> str:
    lines: list[str] = []
    if at["test"] is not None:
        lines += [*test_table(run, at), "", *verdicts(run, at)]
        lines += [f"\nNote: {note}." for note in at["test"]["notes"]]
        if "study" in at:
            lines.append(
                f"\nThe single axes are those of `results/fine_tuning/{at['study']}.json`."
            )
    lines += ["", *forecast_table(at), *common_gain(run, at)]
    return "\n".join(lines).strip() + "\n"


def test_table(run: dict[str, Any], at: dict[str, Any]) -> Iterator[str]:
    beside = published(run, at["budget"])
    yield "| | test accuracy (%) | drop | macs | kept d / w / r | px | ms | paper |"
    yield "|---|---|---|---|---|---|---|---|"
    whole = run["original"]["macs"]
    for name in ("original", *SPENDS):
        row = row_of(at, name)
        if row is None:
            continue
        lost = "" if name == "original" else f"{drop(at, name):+.2f}"
        paper = "–" if beside is None else beside.cell(name)
        latency = "–" if row["latency_ms"] is None else f"{row['latency_ms']:.2f}"
        yield (
            f"| {name} | {mean_and_spread(row['accuracies'])} | {lost} "
            f"| {row['macs'] / whole:.1%} | {scale(row['scale'])} | {row['resolution_px']} "
            f"| {latency} | {paper} |"
        )


def verdicts(run: dict[str, Any], at: dict[str, Any]) -> Iterator[str]:
    seeds = len((row_of(at, "joint") or {"accuracies": ()})["accuracies"])
    device = at["test"]["latency_device"]
    yield f"Mean of {seeds} seed{'s' * (seeds != 1)}; latency on {device}, batch of 1."
    ahead = lead(at)
    if ahead is not None:
        word = "is at least as good as" if ahead.points >= 0 else "is NOT as good as"
        yield f"The joint model {word} every single axis: {leads(ahead)}."
    lost, beside = drop(at), published(run, at["budget"])
    allowed = ALLOWED_DROP.get(run["model"])
    if lost is not None and beside is not None and allowed is not None:
        met = "met" if lost <= allowed else "NOT met"
        yield (
            f"Aim: a drop of at most {allowed:g} points: {met} ({lost:+.2f}); the paper has "
            f"{beside.original - beside.joint:+.2f}."
        )
    if beside is not None and beside.scale is not None:
        yield f"The paper's scale is {scale(beside.scale)}."


def leads(ahead: Lead) -> str:
    text = f"{ahead.points:+.2f} points against {ahead.control}, the best of them"
    if ahead.standard_error is None:
        return f"{text}, by one seed"
    sure = "clear by the seeds" if ahead.clear else "not clear: other seeds may turn it round"
    return f"{text}, with a standard error of {ahead.standard_error:.2f} over the seeds ({sure})"


def observations(run: dict[str, Any]) -> str:
    lines = [
        "| axis | kept d / w / r | validation accuracy (%) | macs |",
        "|---|---|---|---|",
        f"| – | {scale((1, 1, 1))} | {100 * run['original']['accuracy']:.2f} | 100.0% |",
    ]
    lines += [
        f"| {each['axis']} | {scale(each['scale'])} | {100 * each['accuracy']:.2f} "
        f"| {each['macs'] / run['original']['macs']:.1%} |"
        for each in run["observations"]
    ]
    if run["predictor"] is not None:
        form = run["predictor"]["candidate"]
        error = form["leave_one_out"]
        told = "" if error is None else f", leave-one-out error {100 * error:.2f} points"
        degrees = "/".join(map(str, form["degree"]))
        lines.append(f"\nPredictor: link {form['link']}, degrees {degrees}{told}.")
    return "\n".join(lines) + "\n"
