"""Write docs/results/whole_runs.md from what benchmarks/whole_runs.py found.

python benchmarks/whole_runs_report.py            # write the page
python benchmarks/whole_runs_report.py --check    # fail if the page is not what they say
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev

from pages import write_or_check
from paper_numbers import scale
from predictor import table
from triprune.core.scale import AXES
from whole_runs_divided import part
from whole_runs_found import (
    DEEPER,
    LATER,
    LEAST,
    LIKE_FINALS,
    MODELS,
    USUAL,
    Found,
    above_forecast,
    are_enough,
    best_tested,
    leads,
    on_test,
    read,
    regrets,
    scale_of,
    standard_error,
    told,
)

HEAD = ["seed", "original", *MODELS]
LEAD_HEAD = ["joint beside", "leads by", "ahead in", "by the rule"]
DEEPER_HEAD = ["chains end at", "regret", "regret by rounds like finals", "joint on the test"]
ROUNDS_HEAD = ["rounds begin at", *AXES, "apart"]
SEEN = 2
"""Seeds that had been seen when rounds like finals were asked about and choosing was mended."""


def main() -> None:
    write_or_check("whole_runs", page, (__doc__ or "").partition("\n")[0])


def page(folder: Path) -> str:
    """Return the page for the runs in ``folder``."""
    seeds = read(folder)
    if not are_enough(seeds):
        return (
            f"# The whole job, drawn anew\n\nNot measured yet: at least the seeds 1 to {LEAST}, "
            f"without a gap; {len(seeds)} are there.\n"
        )
    return f"""# The whole job, drawn anew

Written by `python benchmarks/whole_runs_report.py` from `results/whole_runs/`, which
`benchmarks/whole_runs.py` measures; edit neither by hand. What was asked, and when, is
[ADR 0109](../adr/0109-the-whole-job-drawn-anew.md).

{circumstances(seeds)}

± is the standard error of a mean over {len(seeds)} seeds. The rule is two of them: with so few
seeds that is less than the usual certainty of 95 %, and no row is corrected for there being others.
All seeds draw from the same 50,000 images.

## Jointly and on each axis alone

Accuracies on the test images (%).

{table(HEAD, accuracy_rows(seeds))}
{table(LEAD_HEAD, lead_rows(seeds, "joint"))}
{told_of_leads(seeds)}

The best axis *of each seed* is picked by these same test images, with their luck, and so stands
higher than any that one could have picked beforehand; the rule was not meant for it.

## What was chosen

Kept depth / width / resolution.

{table(["seed", *MODELS], scale_rows(seeds))}
## Chains that go on below the budget

Chains end at the budget, as in the paper, or at half of it, with as many rounds. The regret is what
the joint choice loses by a predictor that is fitted to what all *other* seeds observed, in both
kinds of chains, against the scale of the table above, its last column aside, that it puts first.
These rounds see other losses than the final models have (below), so the regret is also told by a
predictor of the other seeds' rounds like finals: that was added afterwards. Regrets share most of
their judging seeds.

{table(DEEPER_HEAD, deeper_rows(seeds))}
{told_of_deeper(seeds)}

## Rounds that begin as the finals do

Rounds begin at a tenth of the rate from scratch, as in run 1 of the paper's experiment, or at the
rate of the final fine-tunings. By how many points the final models of single axes lie above their
forecast on validation; a choice depends on how far apart these are, not on what they share. The
last column is the standard deviation between the axes.

{table(ROUNDS_HEAD, rounds_rows(seeds))}
{table(LEAD_HEAD, lead_rows(seeds, LATER[LIKE_FINALS]))}
{told_of_rounds(seeds)}
{part(folder, seeds)}"""


def circumstances(seeds: Sequence[Found]) -> str:
    """Say what was trained on what, where and when."""
    one = seeds[0]
    train, validation, test = one["images"]
    recipe = one["recipe"]
    dates = sorted({found["circumstances"]["date"][:10] for found in seeds})
    machines = {
        f"{here['cpu']}, {here['threads']} thread{'s' * (here['threads'] > 1)} a seed, torch "
        f"{here['torch']}, triprune {here['triprune']}"
        for here in (found["circumstances"] for found in seeds)
    }
    return textwrap.fill(
        f"From every seed another {one['model']} is trained on {train:,} of CIFAR-10's training "
        f"images, pruned to {one['budget']:.0%} of its macs, judged by {validation:,} others and "
        f"tested on {test:,} others: originals of {recipe['epochs']} epochs, rounds of "
        f"{recipe['round_epochs']}, final models of {recipe['final_epochs']}, one of each. "
        f"{'; '.join(sorted(machines))}; {' to '.join(dict.fromkeys([dates[0], dates[-1]]))}.",
        100,
        break_on_hyphens=False,
    )


def by_the_rule(values: Sequence[float], *, above: str, below: str) -> str:
    """Return the word for a mean that is more than two standard errors away from zero, or not."""
    if abs(fmean(values)) <= 2 * standard_error(values):
        return "not decided"
    return above if fmean(values) > 0 else below


def accuracy_rows(seeds: Sequence[Found]) -> list[list[str]]:
    """Return the test accuracies of every seed, and their means."""
    columns = [[on_test(found, name) for found in seeds] for name in HEAD[1:]]
    rows = [
        [f"{found['seed']}", *(f"{value:.2f}" for value in row)]
        for found, row in zip(seeds, zip(*columns, strict=True), strict=True)
    ]
    return [*rows, ["mean", *map(told, columns)]]


def lead_rows(seeds: Sequence[Found], joint: str) -> list[list[str]]:
    """Return the leads of a joint model beside every axis, and beside the best of each seed."""
    rows: list[list[str]] = []
    for axis in AXES:
        points = leads(seeds, joint, axis)
        rule = by_the_rule(points, above="leads", below="is behind")
        same = sum(scale_of(found, joint) == scale_of(found, axis) for found in seeds)
        rows.append([f"{axis} alone", told(points, "+.2f"), ahead(points, same), rule])
    points = [on_test(found, joint) - on_test(found, best_tested(found)) for found in seeds]
    same = sum(scale_of(found, joint) == scale_of(found, best_tested(found)) for found in seeds)
    return [*rows, ["the best axis of each seed", told(points, "+.2f"), ahead(points, same), "–"]]


def told_of_leads(seeds: Sequence[Found]) -> str:
    """Say what the leads are without the seeds that had been seen when choosing was mended."""
    later = (told(leads(seeds[SEEN:], "joint", axis), "+.2f") for axis in AXES)
    depth, width, resolution = later
    return textwrap.fill(
        "How a choice is made was mended (ADR 0110) when the chains of the first two seeds were "
        f"there, and these chose anew. Without them joint stands {depth} points beside depth, "
        f"{width} beside width and {resolution} beside resolution alone.",
        100,
        break_on_hyphens=False,
    )


def ahead(points: Sequence[float], same: int) -> str:
    """Say in how many seeds a model is ahead, and in how many it is the very same."""
    alike = f", the same model in {same}" if same else ""
    return f"{sum(each > 0 for each in points)} of {len(points)}{alike}"


def scale_rows(seeds: Sequence[Found]) -> list[list[str]]:
    """Return the scales of every seed's final models."""
    return [
        [f"{found['seed']}", *(scale([*scale_of(found, model)]) for model in MODELS)]
        for found in seeds
    ]


def deeper_rows(seeds: Sequence[Found]) -> list[list[str]]:
    """Return what choices and joint models are worth, by where the chains end."""
    gentle, like_finals = (regrets(seeds, kinds) for kinds in ((USUAL, DEEPER), (LIKE_FINALS,)))
    ends = ("the budget", "joint"), ("half of it", LATER[DEEPER])
    return [
        [end, told(gentle[i]), told(like_finals[i]), told([on_test(each, model) for each in seeds])]
        for i, (end, model) in enumerate(ends)
    ]


def told_of_deeper(seeds: Sequence[Found]) -> str:
    """Say what deeper chains gain, seed by seed, and what follows by the rule."""
    usual, deeper = regrets(seeds, (USUAL, DEEPER))
    less = [before - after for before, after in zip(usual, deeper, strict=True)]
    word = by_the_rule(less, above="deeper chains help", below="deeper chains harm")
    gained = told(leads(seeds, LATER[DEEPER], "joint"), "+.2f")
    return (
        f"Seed by seed the regret falls by {told(less, '+.2f')} points, and the joint models gain\n"
        f"{gained} on the test. By the rule, which is of the regret's fall: {word}."
    )


def rounds_rows(seeds: Sequence[Found]) -> list[list[str]]:
    """Return what the rounds of either kind undervalue."""
    rows: list[list[str]] = []
    for begin, chains in (("a tenth", USUAL), ("the finals' rate", LIKE_FINALS)):
        above = [above_forecast(found, chains) for found in seeds]
        axes = (told(column, "+.2f") for column in zip(*above, strict=True))
        rows.append([begin, *axes, told([stdev(each) for each in above])])
    return rows


def told_of_rounds(seeds: Sequence[Found]) -> str:
    """Say what rounds like finals gain, seed by seed, and what follows by the rule."""
    gained = leads(seeds, LATER[LIKE_FINALS], "joint")
    word = by_the_rule(gained, above="such rounds choose better", below="such rounds choose worse")
    unseen = told(gained[SEEN:], "+.2f")
    return (
        f"Seed by seed the joint models gain {told(gained, '+.2f')} points on the test. By the "
        f"rule:\n{word}. The first two seeds suggested the question; without them the gain is "
        f"{unseen}."
    )


if __name__ == "__main__":
    main()
