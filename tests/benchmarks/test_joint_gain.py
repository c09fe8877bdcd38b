"""What a grid of trained networks says there is to win jointly: surfaces with known optima."""

import importlib
import math
import re
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from triprune import Observation, Scale, fit_predictor

ROOT = Path(__file__).parents[2]
KEPT = [0.2, 0.4, 0.6, 0.8, 1.0]


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("joint_gain")


def even(d: float, w: float, r: float) -> float:
    """Return an error that grows by as much with each halving of an axis."""
    return 0.06 * d**-0.3 * w**-0.8 * r**-1.2


def grid_of(script, error: Callable[[float, float, float], float]):
    """Return the grid of networks with this error, cut along no more than two axes."""
    scales = {Scale(depth, width) for depth, width in product(KEPT, KEPT)}
    scales |= {Scale(depth, 1.0, side) for depth, side in product(KEPT, KEPT)}
    return script.Grid.of([Observation(scale, 1.0 - error(*scale)) for scale in scales])


@pytest.mark.parametrize("method", ["linear", "pchip"])
def test_where_each_halving_costs_the_same_one_axis_is_best(script, method):
    surface = grid_of(script, even).between(method)
    assert surface.at(0.5, 0.7) == pytest.approx(1 - even(0.5, 0.7, 1.0))
    assert surface.at_resolution(0.5, 0.7) == pytest.approx(1 - even(0.5, 1.0, 0.7))
    depth, width, accuracy = surface.best(1.0, 0.5)  # halving depth costs 0.3, width 0.4 per d·w²
    assert (depth, width) == (pytest.approx(0.5), pytest.approx(1.0))
    assert accuracy == pytest.approx(surface.at(0.5))
    alone = [1 - even(0.5, 1, 1), 1 - even(1, 0.5**0.5, 1), 1 - even(1, 1, 0.5**0.5)]
    assert surface.alone(1.0, 0.5) == pytest.approx(alone)
    assert surface.lead(1.0, 0.5) == pytest.approx(0.0, abs=1e-9)


def test_where_deeper_cuts_cost_more_the_best_cuts_both(script):
    def error(d, w, r):
        return 0.06 * math.exp(math.log(d) ** 2 + 2 * math.log(w) ** 2 + 4 * math.log(r) ** 2)

    surface = grid_of(script, error).between("pchip")
    depth, width, accuracy = surface.best(1.0, 0.5)
    # With x = ln d and y = ln w, x² + 2 y² on x + 2 y = ln 0.5 is least at x = y = ln 0.5 / 3.
    assert depth == pytest.approx(0.5 ** (1 / 3), abs=0.02)
    assert width == pytest.approx(0.5 ** (1 / 3), abs=0.02)
    assert accuracy == pytest.approx(1 - error(depth, width, 1.0), abs=2e-4)
    assert surface.lead(1.0, 0.5) > 0.5


def test_what_a_choice_loses_against_the_best(script):
    surface = grid_of(script, even).between("pchip")
    narrow = even(1, 0.5**0.5, 1) - even(0.5, 1, 1)
    assert script.loss(surface, Scale(0.5), 0.5) == "0.00"
    assert script.loss(surface, Scale(width=0.5**0.5), 0.5) == f"{100 * narrow:.2f}"
    assert script.loss(surface, Scale(0.8, 0.8, 0.9), 0.5) == "–"


def test_signs_agree_only_where_lines_and_curves_both_have_that_of_the_measurement(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    report = importlib.import_module("joint_gain_report")
    cells = [("+0.11", "-0.13, -0.14"), ("-0.03", "-0.10, -0.08"), ("+0.10", "+0.01, -0.03")]
    assert report.agreeing([["run", "0.7", "0.8", *each] for each in cells]) == 1


def test_accuracies_of_a_scale_are_averaged_and_tell_the_noise(script):
    rows = [Observation(Scale(0.5), told) for told in (0.90, 0.90, 0.93)]
    rows += [Observation(Scale(), 0.93), Observation(Scale(width=0.6), 0.91)]
    grid = script.Grid.of(rows)
    assert grid.means()[Scale(0.5)] == pytest.approx(0.91)
    assert grid.noise() == (1, pytest.approx(0.03 / math.sqrt(2)))
    shaken = [grid.shaken(0.01, np.random.default_rng(seed)).means() for seed in range(200)]
    assert np.std([each[Scale()] for each in shaken]) == pytest.approx(0.01, rel=0.2)
    assert grid.shaken(0.0, np.random.default_rng(0)).means() == grid.means()


def test_noise_leads_choices_astray_and_none_does_not(script):
    simulation = importlib.import_module("choice_noise")
    surface = grid_of(script, even).between("pchip")
    assert simulation.accuracy(surface, 1.0, Scale(0.5, 0.7, 0.6)) == pytest.approx(
        1 - even(0.5, 0.7, 0.6)
    )

    def lost(noise):
        random = np.random.default_rng(0)
        found = [simulation.chosen(surface, 1.0, noise, 0.5, random) for _ in range(5)]
        best = surface.best(1.0, simulation.BUDGET)[2]
        return 100 * (best - np.mean([simulation.accuracy(surface, 1.0, s) for s in found]))

    assert lost(0.0) == pytest.approx(0.0, abs=0.02)
    assert lost(1.0) > lost(0.0) + 0.02


def test_the_page_and_the_decisions_tell_what_the_grid_says(script, prose):
    report = importlib.import_module("joint_gain_report")
    grid = script.Grid.of(report.read_observations(report.DATA / "resnet_cifar10.csv").observations)
    page = report.PAGE.read_text()
    losses = script.loss_rows(grid, fit_predictor(report.read_grid("resnet_cifar10")[0]))
    ours = script.our_rows(grid, report.read_runs(report.RUNS))
    for row in [*losses, *ours]:
        assert f"| {' | '.join(row)} |" in page
    readme = (ROOT / "README.md").read_text()
    most = max(float(lost) for row in losses for lost in row[-2:] if lost != "–")
    assert f"[loses at most {most:.2f} points](docs/results/joint_gain.md)" in readme
    twice, deviation = grid.noise()
    assert f"gives {twice} scales" in page
    assert f"of one is {100 * deviation:.2f} points" in page
    adr = prose("docs/adr/0102-flat-along-the-budget.md")
    for row in ours:  # the run, its scale, and beside depth what was measured and the grid's word
        name = row[0].removeprefix("cifar10-")
        assert f"| {name} | {row[1]} / {row[2]} | {row[3]} | {row[4]} |" in adr
    for told in (page, adr):
        assert f"{report.agreeing(ours)} of {len(ours)}" in told
    for original in ("ResNet-56", "ResNet-32"):
        surfaces = [grid.between(method) for method in script.METHODS]
        whole = script.ORIGINALS[original]
        for cell in (f"{surface.lead(whole, 0.5):.2f}" for surface in surfaces):
            assert re.search(rf"\| {original} \|.*{cell}.*\|", page)
            assert cell in adr
