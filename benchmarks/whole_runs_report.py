"""Write docs/results/whole_runs.md from what benchmarks/whole_runs.py found.

python benchmarks/whole_runs_report.py            # write the page
python benchmarks/whole_runs_report.py --check    # fail if the page is not what they say
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from pages import write_or_check
from paper_numbers import SPENDS, scale
from predictor import table
from triprune import Observation, Predictor, Scale, fit_predictor
from triprune.core.scale import AXES
from whole_runs import CHAINS

Found = dict[str, Any]
USUAL, DEEPER, LIKE_FINALS = CHAINS
LATER = {DEEPER: "joint, deeper chains", LIKE_FINALS: "joint, rounds like finals"}
MODELS = {spends: (USUAL, spends) for spends in SPENDS} | {
    name: (chains, "joint") for chains, name in LATER.items()
}
HEAD = ["seed", "original", *MODELS]
LEAD_HEAD = ["joint beside", "leads by", "ahead in", "said to lead"]
DEEPER_HEAD = ["chains end at", "regret", "joint on the test"]
ROUNDS_HEAD = ["rounds begin at", *AXES, "apart"]


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
{table(LEAD_HEAD, lead_rows(seeds, "joint"))}
Joint is said to lead where the mean is above two standard errors. The best axis *of each seed* is
picked by these same test images, with their luck, and so stands higher than any that one could have
picked beforehand; the axis of the best forecast is what the seed's own predictor puts first. The
seeds draw from the same 50,000 images.

## What was chosen

Kept depth / width / resolution.

{table(["seed", *MODELS], scale_rows(seeds))}
## Chains that go on below the budget

Chains end at the budget, as in the paper, or at half of it, with as many rounds. The regret is what
the joint choice loses by a predictor that is fitted to what all *other* seeds observed, in both
kinds of chains, against the scale of the table above that it puts first.

{table(DEEPER_HEAD, deeper_rows(seeds))}
{told_of_deeper(seeds)}

## Rounds that begin as the finals do

Rounds begin at a tenth of the rate from scratch, as if the paper's, or at the rate of the final
fine-tunings. By how many points the final models of single axes lie above their forecast on
validation; a choice depends on how far apart these are, not on what they share. The last column is
the standard deviation between the axes.

{table(ROUNDS_HEAD, rounds_rows(seeds))}
{table(LEAD_HEAD, lead_rows(seeds, LATER[LIKE_FINALS]))}
{told_of_rounds(seeds)}
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


def best_forecast(found: Found, joint: str) -> str:
    """Return the axis that the predictor behind a joint choice puts first."""
    chains, _ = MODELS[joint]
    return max(AXES, key=lambda axis: forecast(found, chains, axis))


def forecast(found: Found, chains: str, axis: str) -> float:
    """Return what a run foretold of the model that spends the budget on one axis."""
    observed = found["runs"][chains]["observations"]
    return predictor_of(observed)(Scale(*final(found, axis)["scale"]))


def predictor_of(observed: Iterable[Sequence[float]]) -> Predictor:
    """Return the predictor of observations as they are recorded."""
    return fit_predictor(Observation(Scale(*kept), accuracy) for *kept, accuracy in observed)


def lead_rows(seeds: Sequence[Found], joint: str) -> list[list[str]]:
    """Return the leads of a joint model beside every axis, and the best by two measures."""
    others: dict[str, Callable[[Found], str]] = {
        **{f"{axis} alone": (lambda _, axis=axis: axis) for axis in AXES},
        "the axis of the best forecast": partial(best_forecast, joint=joint),
        "the best axis of each seed": best_tested,
    }
    rows: list[list[str]] = []
    for name, other in others.items():
        points = [on_test(found, joint) - on_test(found, other(found)) for found in seeds]
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
    """Return the scales of every seed's final models."""
    return [
        [f"{found['seed']}", *(scale(final(found, model)["scale"]) for model in MODELS)]
        for found in seeds
    ]


def judge(seeds: Sequence[Found], left_out: Found) -> Predictor:
    """Return the predictor of what all seeds but one observed by gentle rounds."""
    others = [found["runs"] for found in seeds if found is not left_out]
    return predictor_of(
        seen for runs in others for kind in (USUAL, DEEPER) for seen in runs[kind]["observations"]
    )


def regrets(seeds: Sequence[Found]) -> tuple[list[float], list[float]]:
    """Return the points that each seed's joint choice loses, by the usual and deeper chains."""
    scales = {model: [Scale(*final(each, model)["scale"]) for each in seeds] for model in MODELS}
    lost: tuple[list[float], list[float]] = [], []
    for place, found in enumerate(seeds):
        predictor = judge(seeds, found)
        best = max(predictor(kept) for every in scales.values() for kept in every)
        for model, points in zip(("joint", LATER[DEEPER]), lost, strict=True):
            points.append(100 * (best - predictor(scales[model][place])))
    return lost


def deeper_rows(seeds: Sequence[Found]) -> list[list[str]]:
    """Return what choices and joint models are worth, by where the chains end."""
    kinds = zip(("the budget", "half of it"), ("joint", LATER[DEEPER]), regrets(seeds), strict=True)
    return [
        [end, told(lost), told([on_test(found, model) for found in seeds])]
        for end, model, lost in kinds
    ]


def gains(seeds: Sequence[Found], model: str) -> list[float]:
    """Return by how many test points a later joint model is before the first one."""
    return [on_test(found, model) - on_test(found, "joint") for found in seeds]


def told_of_deeper(seeds: Sequence[Found]) -> str:
    """Say what deeper chains gain, seed by seed, and what follows by the rule set beforehand."""
    less = [usual - deeper for usual, deeper in zip(*regrets(seeds), strict=True)]
    word = "help" if clearly_above_zero(less) else "do not clearly help"
    return (
        f"Seed by seed the regret falls by {told(less, '+.2f')} points, and the joint models gain\n"
        f"{told(gains(seeds, LATER[DEEPER]), '+.2f')} on the test. By the rule that was set "
        f"beforehand, more than two standard\nerrors of the regret's fall, deeper chains {word}."
    )


def above_forecast(found: Found, chains: str) -> list[float]:
    """Return by how many points the single axes' final models lie above a run's forecasts."""
    return [
        100 * (final(found, axis)["validation"] - forecast(found, chains, axis)) for axis in AXES
    ]


def rounds_rows(seeds: Sequence[Found]) -> list[list[str]]:
    """Return what the rounds of either kind undervalue."""
    rows: list[list[str]] = []
    for begin, chains in (("a tenth", USUAL), ("the finals' rate", LIKE_FINALS)):
        above = [above_forecast(found, chains) for found in seeds]
        axes = (told(column, "+.2f") for column in zip(*above, strict=True))
        rows.append([begin, *axes, told([stdev(each) for each in above])])
    return rows


def told_of_rounds(seeds: Sequence[Found]) -> str:
    """Say what rounds like finals gain, and what follows by the rule set beforehand."""
    gained = gains(seeds, LATER[LIKE_FINALS])
    word = "choose better" if clearly_above_zero(gained) else "do not clearly choose better"
    return (
        f"Seed by seed the joint models gain {told(gained, '+.2f')} points on the test: by the "
        f"rule of two standard\nerrors such rounds {word}."
    )


if __name__ == "__main__":
    main()
