import pytest

from triprune import Lattice, Observation, Scale, fit_predictor
from triprune.core.cost import paper_cost
from triprune.core.reach import most_within, reach

LATTICE = Lattice(27, 64, 32)
ENDS = Scale(14 / 27, 0.705, 23 / 32)
"""Where the chains of a ResNet-56 ended that were to end at half of its macs."""


@pytest.fixture(scope="module")
def predictor():
    kept = {"depth": ENDS.depth, "width": ENDS.width, "resolution": ENDS.resolution}
    cuts = [
        Scale.along(axis, 1 - part * (1 - end)) for axis, end in kept.items() for part in (0.5, 1)
    ]
    return fit_predictor([Observation(scale, 0.9) for scale in (Scale(), *cuts)])


def lowest(predictor, budget, cost=paper_cost):
    return [low for low, _ in reach(predictor, LATTICE, cost, budget).values()]


@pytest.mark.parametrize("budget", [0.455, 0.49, 0.5])
def test_every_axis_may_take_the_budget_of_the_chains_alone(predictor, budget):
    alone = [most_within(LATTICE, axis, paper_cost, budget) for axis in Scale.__annotations__]
    assert lowest(predictor, budget) == alone
    assert paper_cost(Scale.along("width", alone[1])) <= budget


def test_another_cost_reaches_elsewhere(predictor):
    def counted(scale):
        return 0.1 + 0.9 * paper_cost(scale)

    alone = [most_within(LATTICE, axis, counted, 0.5) for axis in Scale.__annotations__]
    assert lowest(predictor, 0.5, counted) == alone
    assert alone[0] == 12 / 27


def test_a_budget_far_below_the_chains_reaches_no_further_than_they_saw(predictor):
    assert lowest(predictor, 0.35) == [*ENDS]


def test_a_budget_above_the_chains_may_use_all_that_they_saw(predictor):
    assert lowest(predictor, 0.8) == [14 / 27, 45 / 64, 23 / 32]


def test_an_axis_that_was_not_observed_stays_whole():
    only_width = fit_predictor([Observation(Scale(width=w), w**0.1) for w in (1, 0.9, 0.8, 0.71)])
    assert lowest(only_width, 0.5)[0] == lowest(only_width, 0.5)[2] == 1.0


def test_what_no_budget_can_pay_is_told():
    assert most_within(LATTICE, "depth", paper_cost, 0.01) is None
    assert most_within(LATTICE, "depth", paper_cost, 0.5, below=0.4) == 10 / 27
