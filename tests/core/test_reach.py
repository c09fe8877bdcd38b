import pytest

from triprune import Lattice, Observation, Scale, fit_predictor
from triprune.core.cost import paper_cost
from triprune.core.reach import observed_alone, reach, spent_alone
from triprune.core.scale import AXES

LATTICE = Lattice(27, 64, 32)
ENDS = Scale(14 / 27, 0.705, 23 / 32)
"""Where the chains of a ResNet-56 ended that were to end at half of its macs."""


@pytest.fixture(scope="module")
def predictor():
    cuts = [
        Scale.along(axis, 1 - part * (1 - getattr(ENDS, axis)))
        for axis in AXES
        for part in (0.5, 1)
    ]
    return fit_predictor([Observation(scale, 0.9) for scale in (Scale(), *cuts)])


def lowest(predictor, budget, cost=paper_cost):
    alone = observed_alone(predictor, LATTICE, cost, budget)
    return [low for low, _ in reach(predictor, alone, cost, budget).values()]


def most_alone(budget, cost=paper_cost):
    return [getattr(spent_alone(LATTICE, axis, cost, budget), axis) for axis in AXES]


@pytest.mark.parametrize("budget", [0.455, 0.49])
def test_every_axis_may_take_the_budget_of_the_chains_alone(predictor, budget):
    assert lowest(predictor, budget) == most_alone(budget)


def test_each_axis_ends_where_it_was_seen_or_at_the_budget_whichever_is_less(predictor):
    assert lowest(predictor, 0.5) == [13 / 27, 45 / 64, 22 / 32]
    assert lowest(predictor, 0.6) == [*ENDS]


def test_another_cost_reaches_elsewhere(predictor):
    def counted(scale):
        return 0.1 + 0.9 * paper_cost(scale)

    assert lowest(predictor, 0.5, counted) == most_alone(0.5, counted)
    assert most_alone(0.5, counted)[0] == 12 / 27


def test_a_budget_far_below_the_chains_reaches_no_further_than_they_saw(predictor):
    assert lowest(predictor, 0.35) == [*ENDS]


def test_an_axis_that_was_not_observed_stays_whole():
    only_width = fit_predictor([Observation(Scale(width=w), w**0.1) for w in (1, 0.9, 0.8, 0.71)])
    assert lowest(only_width, 0.5) == [1.0, 45 / 64, 1.0]


def test_what_no_budget_can_pay_is_not_there(predictor):
    assert spent_alone(LATTICE, "depth", paper_cost, 0.01) is None
    assert "depth" not in observed_alone(predictor, LATTICE, paper_cost, 0.01)
