"""What a grid of trained networks says there is to win jointly: surfaces with known optima."""

import importlib
import math
import re
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from triprune import Observation, Scale, fit_predictor
from triprune.run.observations import read_observations

ROOT = Path(__file__).parents[2]
KEPT = [0.2, 0.4, 0.6, 0.8, 1.0]


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("joint_gain")


def grid_of(script, error: Callable[[float, float, float], float]):
    """Return the grid of networks with this error, cut along no more than two axes."""
    scales = [Scale(depth, width) for depth, width in product(KEPT, KEPT)]
    scales += [Scale(depth, 1.0, side) for depth, side in product(KEPT, KEPT)]
    return script.Grid.of([Observation(scale, 1.0 - error(*scale)) for scale in scales])


@pytest.mark.parametrize("method", ["linear", "pchip"])
def test_where_each_halving_costs_the_same_one_axis_is_best(script, method):
    surface = grid_of(script, lambda d, w, r: 0.06 * d**-0.3 * w**-0.8 * r**-1.2).between(method)
    assert surface.at(0.5, 0.7) == pytest.approx(1 - 0.06 * 0.5**-0.3 * 0.7**-0.8)
    assert surface.at(0.5, 1.0, 0.7) == pytest.approx(1 - 0.06 * 0.5**-0.3 * 0.7**-1.2)
    depth, width, accuracy = surface.best(1.0, 0.5)  # halving depth costs 0.3, width 0.4 per d·w²
    assert (depth, width) == (pytest.approx(0.5), pytest.approx(1.0))
    assert accuracy == pytest.approx(surface.at(0.5))


def test_where_deeper_cuts_cost_more_the_best_cuts_both(script):
    def error(d, w, r):
        return 0.06 * math.exp(math.log(d) ** 2 + 2 * math.log(w) ** 2 + math.log(r) ** 2)

    surface = grid_of(script, error).between("pchip")
    depth, width, accuracy = surface.best(1.0, 0.5)
    # With x = ln d and y = ln w, x² + 2 y² on x + 2 y = ln 0.5 is least at x = y = ln 0.5 / 3.
    assert depth == pytest.approx(0.5 ** (1 / 3), abs=0.02)
    assert width == pytest.approx(0.5 ** (1 / 3), abs=0.02)
    assert accuracy > max(surface.at(0.5), surface.at(1.0, 0.5**0.5)) + 0.005


def test_what_a_choice_loses_against_the_best(script):
    surface = grid_of(script, lambda d, w, r: 0.06 * d**-0.3 * w**-0.8 * r**-1.2).between("pchip")
    best, narrow = 0.06 * 0.5**-0.3, 0.06 * 0.5**-0.4
    assert script.regret(surface, Scale(0.5), 0.5) == "0.00"
    assert script.regret(surface, Scale(width=0.5**0.5), 0.5) == f"{100 * (narrow - best):.2f}"
    assert script.regret(surface, Scale(0.8, 0.8, 0.9), 0.5) == "–"


def test_numbers_that_two_tables_share_count_once(script):
    rows = [Observation(Scale(0.5), told) for told in (0.90, 0.90, 0.92)]
    rows += [Observation(Scale(), 0.93), Observation(Scale(width=0.6), 0.91)]
    grid = script.Grid.of(rows)
    assert grid.found[Scale(0.5)] == [0.90, 0.92]
    assert grid.noise() == (1, pytest.approx(0.02 / math.sqrt(2)))


def test_the_decisions_tell_what_the_grid_says(script):
    rows = read_observations(ROOT / "benchmarks" / "data" / "resnet_cifar10.csv").observations
    grid = script.Grid.of(rows)
    told = {(row[0], row[1], row[2]): row[3:] for row in script.rows_of(grid)}
    page = (ROOT / "docs" / "results" / "predictor.md").read_text()
    axes, _ = importlib.import_module("predictor").read_grid("resnet_cifar10")
    regrets = script.regret_rows(grid, fit_predictor(axes))
    assert regrets[1] == ["50%", "0.50", "1.00", "1.00", "0.00", "0.01"]
    most = max(float(lost) for row in regrets for lost in row[-2:])
    assert f"loses at most {most:.2f} points against the best" in (ROOT / "README.md").read_text()
    for row in [*script.rows_of(grid), *regrets]:
        assert f"| {' | '.join(row)} |" in page
    found = re.search(r"\| ResNets, CIFAR-10 \|.* ([+-][0-9.]+) \| [0-9]+% \|", page)
    text = " ".join((ROOT / "docs" / "adr" / "0102-flat-along-the-budget.md").read_text().split())
    assert found is not None
    assert f"[{-float(found[1]):.2f} points too low]" in text
    for original in ("ResNet-56", "ResNet-32"):
        best, *alone = told[original, "50%", "curved"][2:6]
        cells = " | ".join(each.rstrip("%") for each in (best, *alone))
        assert f"| {original} | {cells} |" in text
