"""Write docs/results/joint_gain.md: what there is to win jointly, by the paper's grid of ResNets.

python benchmarks/joint_gain_report.py            # prints, in about two minutes
python benchmarks/joint_gain_report.py --write    # also writes the page
"""

from __future__ import annotations

import argparse

from choice_noise import HEAD as NOISE_HEAD
from choice_noise import NEAR, TRIALS, noise_rows
from joint_gain import DRAWS, HEAD, LOSS_HEAD, OURS_HEAD, Grid, gain_rows, loss_rows, our_rows
from paper_report import ROOT, read_runs
from predictor import DATA, read_grid, table
from triprune import fit_predictor
from triprune.files import write_atomically
from triprune.run.observations import read_observations

RUNS = ROOT / "results" / "cifar10"
PAGE = ROOT / "docs" / "results" / "joint_gain.md"


def page() -> str:
    """Return the page; nothing in it depends on the machine."""
    grid = Grid.of(read_observations(DATA / "resnet_cifar10.csv").observations)
    twice, deviation = grid.noise()
    train, _ = read_grid("resnet_cifar10")
    ours = our_rows(grid, read_runs(RUNS))
    return f"""# What there is to win jointly, by the paper's own networks

Written by `python benchmarks/joint_gain_report.py --write`; edit the script, not the page.

The paper's appendix lists accuracies of ResNets on CIFAR-10 that were trained at many scales, not
pruned ([the grid](../../benchmarks/data/README.md)). Between them the logarithm of the error is
interpolated, in straight lines and by curves that do not overshoot. The grid gives {twice} scales
two accuracies; by them the standard deviation of one is {100 * deviation:.2f} points.

## The best scale beside each axis alone

The best of d·w² = budget; a lower resolution is better nowhere. The last column is where 90 % of
the leads lie in {DRAWS} grids with that noise added. No lead is below zero: an axis alone is a
joint choice, too.

{table(HEAD, gain_rows(grid))}
At half of ResNet-56's macs the best scale is depth alone, or next to it. Table 1 of the paper has
joint pruning 0.49 points ahead of depth there, and gives no spread. Relative to ResNet-32 the grid
knows three depths only, and straight lines and curves differ.

## Our own joint models

By how many points of test accuracy our joint models at half the macs
([cifar10.md](cifar10.md)) lead depth and width alone, and what the grid says of the same scales,
straight and curved. Leads below some 0.3 points are not decided one by one, and runs share
originals and final models. What tells is in how many the signs beside depth agree:
{agreeing(ours)} of {len(ours)}.

{table(OURS_HEAD, ours)}
## What a choice from single cuts loses

What `fit_predictor` makes of the grid's {len(train)} points that cut one axis, relative to
ResNet-56, and how many points of accuracy that choice loses against the best. Where less than a
third remains it turns to width alone, narrower than the grid's narrowest networks: of that nothing
is known.

{table(LOSS_HEAD, loss_rows(grid, fit_predictor(train)))}
## What noise in the observations costs

Simulated: thirteen observations of the interpolated grid (curves; width and resolution multiply the
error), each with noise of this standard deviation in points, chains of four rounds that end at half
of the macs or go on to 36 %, and a choice for half of them. In {TRIALS} such runs: the points lost
against the best on average, and how many choices are no more than {NEAR:g} points worse than the
best single axis. Three final models that differ by their seed vary by 0.04 to 0.37 points.

{table(NOISE_HEAD, noise_rows(grid))}"""


def agreeing(rows: list[list[str]]) -> int:
    """Return how many rows measured a lead over depth alone of the sign that the grid has."""
    signs = [{float(told) < 0 for told in (row[3], *row[4].split(", "))} for row in rows]
    return sum(len(found) == 1 for found in signs)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    settings, text = parser.parse_args(), page()
    print(text)
    if settings.write:
        write_atomically(PAGE, text)


if __name__ == "__main__":
    main()
