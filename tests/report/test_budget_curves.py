import pytest

from triprune import Lattice, Observation, Scale, fit_predictor, schedule
from triprune.report.amounts import Spending
from triprune.report.budget_curves import Quoter, budget_picture


def plain_observations():
    plan = schedule(0.5)
    scales = [Scale(), *plan.depth, *plan.width, *plan.resolution]
    return [Observation(s, 0.9 * s.depth**0.1 * s.width**0.1 * s.resolution**0.2) for s in scales]


@pytest.fixture(scope="module")
def picture():
    observations = plain_observations()
    return budget_picture(Quoter(fit_predictor(observations)), observations)


def test_the_joint_curve_is_never_below_an_axis_alone(picture):
    joint, *alone = picture.curves
    assert [curve.name for curve in picture.curves] == ["joint", "depth", "width", "resolution"]
    together = {quote.budget: quote.choice.predicted_accuracy for quote in joint.quotes}
    for curve in alone:
        assert len(curve.quotes) > 50
        for quote in curve.quotes:
            assert together[quote.budget] >= quote.choice.predicted_accuracy - 1e-9


def test_every_per_cent_is_quoted_and_spent(picture):
    budgets = [quote.budget for quote in picture.curves[0].quotes]
    assert budgets == [k / 100 for k in range(round(100 * budgets[0]), 101)]
    for curve in picture.curves:
        for quote in curve.quotes:
            assert quote.choice.cost == pytest.approx(quote.budget, abs=1e-6)


def test_one_axis_alone_keeps_as_much_as_the_budget_allows():
    observations = plain_observations()
    lattice = Lattice(9, 16, 32)
    quoter = Quoter(fit_predictor(observations), lattice=lattice)
    for axis, whole, power in (("depth", 9, 1), ("width", 16, 2), ("resolution", 32, 2)):
        for budget in (0.3, 0.5, 0.77):
            kept = getattr(quoter.along(axis, budget).scale, axis) * whole
            assert kept == pytest.approx(round(kept))
            assert (kept / whole) ** power <= budget < ((kept + 1) / whole) ** power


def test_a_run_is_quoted_inside_what_was_observed_where_that_will_do():
    observations = plain_observations()
    predictor = fit_predictor(observations)
    quoter = Quoter(predictor, lattice=Lattice(20, 64, 64))
    assert quoter.jointly(0.6).extrapolated == ()
    assert quoter.jointly(0.06).extrapolated != ()


def test_a_run_may_spend_the_budget_of_its_chains_on_the_best_axis_alone():
    """Width alone is best here; its chain ended at 0.7071, which 64 channels cannot keep."""
    quoter = Quoter(fit_predictor(plain_observations()), lattice=Lattice(20, 64, 64))
    assert quoter.jointly(0.5).scale == quoter.along("width", 0.5).scale == Scale(width=45 / 64)


def test_a_curve_tells_where_it_leaves_the_observations():
    observations = plain_observations()
    quoter = Quoter(fit_predictor(observations), lattice=Lattice(20, 64, 64))
    width = budget_picture(quoter, observations).curves[2]
    (outside, low), (inside, high) = width.stretches()
    assert (outside, inside) == (False, True)
    assert low[-1] is high[0]
    assert {*low, *high} == {*width.quotes}
    assert all(quote.choice.extrapolated for quote in low[:-1])
    assert not any(quote.choice.extrapolated for quote in high)


def test_an_axis_that_is_guessed_to_beat_the_joint_choice_is_named(picture):
    """Here chains of width end at 0.71: what is below is a guess, and joint does not go there."""
    observations = plain_observations()
    inside = Quoter(fit_predictor(observations), lattice=Lattice(20, 64, 64))
    assert budget_picture(inside, observations).guessed_above() == ("width",)
    assert picture.guessed_above() == ()


def test_observations_stand_at_their_counted_cost():
    whole = Observation(Scale(), 0.9, macs=1000)
    cut = Observation(Scale(depth=0.5), 0.8, macs=620)
    quoter = Quoter(fit_predictor([whole, cut]))
    found = budget_picture(quoter, [whole, cut], Spending("macs", 1000))
    assert found.observed == ((1.0, 0.9, "original"), (0.62, 0.8, "depth"))
    assert budget_picture(quoter, [whole, cut]).observed[1] == (0.5, 0.8, "depth")


def test_an_axis_that_was_not_observed_has_no_curve():
    observations = [Observation(Scale(width=w), 0.9 * w**0.1) for w in (1, 0.9, 0.8, 0.7)]
    found = budget_picture(Quoter(fit_predictor(observations)), observations)
    assert [curve.name for curve in found.curves] == ["joint", "width"]
