"""Write docs/results/whole_runs.md from what benchmarks/whole_runs.py found.

python benchmarks/whole_runs_report.py            # write the page
python benchmarks/whole_runs_report.py --check    # fail if the page is not what they say
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from pages import write_or_check
from paper_numbers import SPENDS, scale
from predictor import table
from triprune import Observation, Predictor, Scale, fit_predictor
from triprune.core.scale import AXES

Found = dict[str, Any]
USUAL, DEEPER = "budget", "half of it"  # where the chains of a seed's two runs end
DEEPER_JOINT = "joint, deeper chains"
MODELS = {**{spends: (USUAL, spends) for spends in SPENDS}, DEEPER_JOINT: (DEEPER, "joint")}
HEAD = ["seed", "original", *MODELS]
LEAD_HEAD = ["joint beside", "leads by", "ahead in", "said to lead"]
CHAINS_HEAD = ["chains end at", "regret", "joint on the test", "joint above its forecast by"]


def main() -> None:
    write_or_check("whole_runs", page, (__doc__ or "").partition("\n")[0])


def page(folder: Path) -> str:
    """Return the page for the runs in ``folder``."""
    seeds = read(folder)
    if len(seeds) < 3:
        return "# The whole job, drawn anew\n\nFewer than three seeds have been measured yet.\n"
    return f"""# The whole job, drawn anew

Written by `python benchmarks/whole_runs_report.py` from `results/whole_runs/`, which
`benchmarks/whole_runs.py` measures; edit neither by hand. What was asked, and written down before
it was measured: [ADR 0109](../adr/0109-the-whole-job-drawn-anew.md). {circumstances(seeds)} ± is
the standard error of a mean over {len(seeds)} seeds.

## Jointly and on each axis alone

Accuracies on the test images (%).

{table(HEAD, accuracy_rows(seeds))}
{table(LEAD_HEAD, lead_rows(seeds))}
Joint is said to lead where the mean is above two standard errors. The best axis *of each seed* is
picked by these same test images, with their luck, and so stands higher than any that one could have
picked beforehand; the axis of the best forecast is what the seed's own predictor puts first.

## What was chosen

Kept depth / width / resolution. The last line judges these scales: each seed's by a predictor that
is fitted to what all *other* seeds observed, in both kinds of chains. It tells how many points they
lose against the one of this table that it puts first.

{table(["seed", *MODELS], scale_rows(seeds))}
## Chains that go on below the budget

Chains end at the budget, as in the paper, or at half of it, with as many rounds. The regret is what
the joint choice loses by the same judges.

{table(CHAINS_HEAD, chains_rows(seeds))}
{told_of_chains(seeds)}
"""


def read(folder: Path) -> list[Found]:
    """Return what every seed found, in the order of the seeds."""
    found = [json.loads(path.read_text()) for path in folder.glob("seed-*.json")]
    return sorted(found, key=lambda each: each["seed"])


def circumstances(seeds: Sequence[Found]) -> str:
    """Say what was trained on what, where and when."""
    one = seeds[0]
    train, validation, test = one["images"]
    recipe, here = one["recipe"], one["circumstances"]
    dates = sorted({found["circumstances"]["date"][:10] for found in seeds})
    span = " to ".join(dict.fromkeys([dates[0], dates[-1]]))
    return (
        f"From every seed another {one['model']} is trained on {train:,} of CIFAR-10's training "
        f"images, pruned to {one['budget']:.0%} of its macs, judged by {validation:,} others and "
        f"tested on {test:,} others: originals of {recipe['epochs']} epochs, rounds of "
        f"{recipe['round_epochs']}, final models of {recipe['final_epochs']}, one of each. "
        f"{here['cpu']}, {here['threads']} thread{'s' * (here['threads'] > 1)} a seed, torch "
        f"{here['torch']}, triprune {here['triprune']}, {span}."
    )


def final(found: Found, model: str) -> Found:
    """Return what is known of a final model."""
    chains, spends = MODELS[model]
    return found["runs"][chains]["finals"][spends]


def on_test(found: Found, model: str) -> float:
    """Return the accuracy of the original or of a final model on the test images, in percent."""
    chains, name = MODELS.get(model, (USUAL, model))
    return 100 * found["runs"][chains]["test"][name]


def told(values: Sequence[float], form: str = ".2f") -> str:
    """Return mean and standard error."""
    return f"{fmean(values):{form}} ± {standard_error(values):.2f}"


def standard_error(values: Sequence[float]) -> float:
    """Return the standard error of the mean."""
    return stdev(values) / math.sqrt(len(values))


def accuracy_rows(seeds: Sequence[Found]) -> list[list[str]]:
    """Return the test accuracies of every seed, and their means."""
    columns = [[on_test(found, name) for found in seeds] for name in HEAD[1:]]
    rows = [
        [f"{found['seed']}", *(f"{value:.2f}" for value in row)]
        for found, row in zip(seeds, zip(*columns, strict=True), strict=True)
    ]
    return [*rows, ["mean", *map(told, columns)]]


def best_tested(found: Found) -> str:
    """Return the axis that is best on a seed's test images."""
    return max(AXES, key=lambda axis: on_test(found, axis))


def best_forecast(found: Found) -> str:
    """Return the axis that a seed's predictor puts first."""
    return max(AXES, key=lambda axis: final(found, axis)["forecast"])


def lead_rows(seeds: Sequence[Found]) -> list[list[str]]:
    """Return the leads of joint beside every axis, and beside the best by two measures."""
    others: dict[str, Callable[[Found], str]] = {
        **{f"{axis} alone": (lambda _, axis=axis: axis) for axis in AXES},
        "the axis of the best forecast": best_forecast,
        "the best axis of each seed": best_tested,
    }
    rows: list[list[str]] = []
    for name, other in others.items():
        points = [on_test(found, "joint") - on_test(found, other(found)) for found in seeds]
        ahead = f"{sum(each > 0 for each in points)} of {len(points)}"
        rows.append([name, told(points, "+.2f"), ahead, yes(clearly_above_zero(points))])
    return rows


def clearly_above_zero(values: Sequence[float]) -> bool:
    """Whether the mean is above two of its standard errors."""
    return fmean(values) > 2 * standard_error(values)


def yes(is_so: bool) -> str:
    """Return the word for it."""
    return "yes" if is_so else "no"


def scale_rows(seeds: Sequence[Found]) -> list[list[str]]:
    """Return the scales of every seed's final models, and what they lose on average."""
    rows = [
        [f"{found['seed']}", *(scale(final(found, model)["scale"]) for model in MODELS)]
        for found in seeds
    ]
    return [*rows, ["loses", *map(told, regrets(seeds).values())]]


def judge(seeds: Sequence[Found], left_out: Found) -> Predictor:
    """Return the predictor of what all seeds but one observed."""
    return fit_predictor(
        Observation(Scale(*kept), accuracy)
        for found in seeds
        if found is not left_out
        for run in found["runs"].values()
        for *kept, accuracy in run["observations"]
    )


def regrets(seeds: Sequence[Found]) -> dict[str, list[float]]:
    """Return the points that every model's scale loses, seed by seed."""
    scales = {model: [Scale(*final(each, model)["scale"]) for each in seeds] for model in MODELS}
    lost: dict[str, list[float]] = {model: [] for model in MODELS}
    for place, found in enumerate(seeds):
        predictor = judge(seeds, found)
        best = max(predictor(kept) for every in scales.values() for kept in every)
        for model, points in lost.items():
            points.append(100 * (best - predictor(scales[model][place])))
    return lost


def chains_rows(seeds: Sequence[Found]) -> list[list[str]]:
    """Return what choices and joint models are worth, by where the chains end."""
    lost = regrets(seeds)
    rows: list[list[str]] = []
    for model, end in (("joint", "the budget"), (DEEPER_JOINT, "half of it")):
        finals = [final(found, model) for found in seeds]
        above = [100 * (each["validation"] - each["forecast"]) for each in finals]
        joint = [on_test(found, model) for found in seeds]
        rows.append([end, told(lost[model]), told(joint), told(above, "+.2f")])
    return rows


def told_of_chains(seeds: Sequence[Found]) -> str:
    """Say what deeper chains gain, seed by seed, and what follows by the rule set beforehand."""
    lost = regrets(seeds)
    pairs = zip(lost["joint"], lost[DEEPER_JOINT], strict=True)
    less = [usual - deeper for usual, deeper in pairs]
    gained = [on_test(found, DEEPER_JOINT) - on_test(found, "joint") for found in seeds]
    word = "help" if clearly_above_zero(less) else "do not clearly help"
    return (
        f"Seed by seed the regret falls by {told(less, '+.2f')} points and the joint models gain "
        f"{told(gained, '+.2f')} on the test. By the rule that was set beforehand, more than two "
        f"standard errors of the regret's fall, deeper chains {word}."
    )


if __name__ == "__main__":
    main()
