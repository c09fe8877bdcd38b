from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from triprune import (
    CalibratedCost,
    Lattice,
    Observation,
    Scale,
    choose_scale,
    fit_predictor,
    paper_cost,
    quote,
)
from triprune.core.forms import value_at
from triprune.core.surface import Surface
from triprune.errors import BudgetError, InputError

AXES = ("depth", "width", "resolution")


@pytest.fixture
def falling(on_axes):
    return fit_predictor(on_axes(lambda d, w, r: 0.9 * d**0.1 * w**0.12 * r**0.15, budget=0.25))


def brute_force(predictor, budget, low, side=120):
    """Return the best score on a fine grid of the surface d·w²·r² = budget, its edges included."""
    found = [np.empty((0, 3))]
    grids = [np.linspace(x, 1.0, side) for x in low]
    powers = np.array([1.0, 2.0, 2.0])
    for solved in range(3):
        a, b = (i for i in range(3) if i != solved)
        points = np.ones((side, side, 3))
        points[..., a], points[..., b] = np.meshgrid(grids[a], grids[b], indexing="ij")
        points = points.reshape(-1, 3)
        others = points[:, a] ** powers[a] * points[:, b] ** powers[b]
        points[:, solved] = (budget / others) ** (1 / powers[solved])
        found.append(points[((points >= low - 1e-12) & (points <= 1 + 1e-12)).all(axis=1)])
    return value_at(predictor.form, np.concatenate(found)).max()


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 100_000), st.floats(0.12, 0.98))
@example(7139, 0.299)  # a second peak, a little higher than the one the grid likes best
def test_the_choice_is_never_worse_than_a_fine_grid_and_never_off_budget(
    random_predictor, seed, budget
):
    generator = np.random.default_rng(seed)
    predictor = random_predictor(generator)
    low = generator.uniform(0.05, 0.6, 3)
    low[0] = min(low[0], 0.9 * budget)
    bounds = {axis: (float(x), 1.0) for axis, x in zip(AXES, low, strict=True)}
    choice = choose_scale(predictor, budget=budget, bounds=bounds)
    score = value_at(predictor.form, np.array([[*choice.scale]]))[0]
    best = brute_force(predictor, budget, low)
    assert score >= best - 1e-9 * max(1.0, abs(best))
    assert choice.cost == pytest.approx(budget, rel=1e-9)
    assert choice.residual is not None
    assert choice.residual < 1e-8
    assert all(x >= least - 1e-9 for x, least in zip(choice.scale, low, strict=True))


def test_slopes_that_promise_a_gain_which_is_not_there_are_not_followed(falling):
    class Overpromising:
        bases, theta = falling.form.bases, falling.form.theta
        evaluate = staticmethod(falling.form.evaluate)

        @staticmethod
        def gradient(points):
            return -falling.form.gradient(points)

    start = np.log([0.7, 0.845154254728517, 1.0])
    surface = Surface(Overpromising(), paper_cost, math.log(0.5), np.log([0.1] * 3), np.zeros(3))
    assert surface.climb(start) == pytest.approx(start)


def test_a_known_optimum_inside_the_bounds(on_axes):
    """At the optimum each axis is worth the same per unit of cost (Eq. 8)."""

    def truth(d, w, r):
        return 0.2 * (d * (2.0 - d)) * (w * (3.0 - w)) * (r * (3.0 - r))

    choice = choose_scale(fit_predictor(on_axes(truth), degree=2), budget=0.5)
    d, w, r = choice.scale
    assert w == pytest.approx(r, abs=1e-6)
    assert (2 - 2 * d) / (2 - d) == pytest.approx((3 - 2 * w) / (2 * (3 - w)), abs=1e-6)
    assert choice.binding == ()


def test_an_optimum_on_an_edge(on_axes):
    predictor = fit_predictor(on_axes(lambda d, w, r: 0.5 + 0.01 * d + 0.4 * w))
    choice = choose_scale(predictor, budget=0.5)
    assert choice.scale.width == 1.0
    assert "width" in choice.binding


def test_an_axis_that_was_never_observed_stays_whole_unless_freed():
    observations = [Observation(Scale(width=w), 0.9 * w**0.1) for w in (1, 0.9, 0.8, 0.7, 0.6)]
    predictor = fit_predictor(observations)
    choice = choose_scale(predictor, budget=0.5)
    assert tuple(choice.scale) == pytest.approx((1.0, math.sqrt(0.5), 1.0))
    freed = choose_scale(predictor, budget=0.5, bounds={"depth": (0.4, 1.0)})
    assert freed.scale.depth == pytest.approx(0.5)
    assert freed.extrapolated == ("depth",)


def test_the_whole_budget_keeps_everything(falling):
    choice = choose_scale(falling, budget=1.0)
    assert choice.scale == Scale()
    assert choice.cost == 1.0


def test_bounds_that_cannot_spend_the_budget_spend_what_they_can(falling):
    choice = choose_scale(falling, budget=0.9, bounds={"resolution": (0.5, 0.75)})
    assert choice.scale == Scale(1.0, 1.0, 0.75)


def test_a_budget_below_the_bounds_says_the_smallest_that_can_be_met(falling):
    bounds = dict.fromkeys(AXES, (0.8, 1.0))
    with pytest.raises(BudgetError, match=r"32\.8%"):
        choose_scale(falling, budget="20%", bounds=bounds)
    assert choose_scale(falling, budget=0.8**5, bounds=bounds).cost == pytest.approx(0.8**5)


def test_a_corner_that_meets_the_budget_exactly_is_found(on_axes):
    predictor = fit_predictor(on_axes(lambda d, w, r: 0.9 * d**0.01 * w**0.3 * r**0.3))
    choice = choose_scale(predictor, budget=0.5, bounds={"depth": (0.5, 1.0)})
    assert choice.scale == Scale(0.5, 1.0, 1.0)
    assert choice.residual == 0.0
    assert set(choice.binding) == set(AXES)


@pytest.mark.parametrize(
    "bounds",
    [
        {"height": (0.5, 1.0)},
        {"height": (0.5, 1.0), 3: (0.5, 1.0)},
        {"depth": 0.5},
        {"depth": (0.5,)},
        {"depth": (0.9, 0.5)},
        {"depth": (0.0, 1.0)},
        {"depth": (0.5, 1.5)},
    ],
)
def test_bounds_that_cannot_be_meant(falling, bounds):
    with pytest.raises(InputError):
        choose_scale(falling, budget=0.5, bounds=bounds)


@pytest.mark.parametrize("bad", [0, 1.5, "abc"])
def test_budgets_that_cannot_be_meant(falling, bad):
    with pytest.raises(InputError, match="budget"):
        choose_scale(falling, budget=bad)


@pytest.mark.parametrize("half", [np.float32(0.5), np.float64(0.5), "50%", " 50 %"])
def test_budgets_that_mean_half(falling, half):
    assert choose_scale(falling, budget=half).cost == pytest.approx(0.5)


def test_an_axis_that_costs_nothing_is_kept_whole(falling):
    choice = choose_scale(falling, budget=0.4, cost=lambda scale: scale.width**2)
    assert tuple(choice.scale) == pytest.approx((1.0, math.sqrt(0.4), 1.0))


def test_a_calibrated_cost_is_met(falling):
    cost = CalibratedCost((1.2, 1.6, 2.0), (0.1, -0.1, 0.0), (0.05, 0.0, 0.0))
    choice = choose_scale(falling, budget=0.4, cost=cost)
    assert cost(choice.scale) == pytest.approx(0.4, rel=1e-9)
    assert choice.residual is not None
    assert choice.residual < 1e-8


def test_any_function_can_be_the_cost(falling):
    def cost(scale):
        return scale.depth * scale.width**2 * scale.resolution**2

    plain, smooth = (choose_scale(falling, budget=0.4, cost=c) for c in (cost, paper_cost))
    assert tuple(plain.scale) == pytest.approx(tuple(smooth.scale), abs=1e-4)
    assert plain.residual is not None
    assert plain.residual < 1e-8


def test_a_flat_predictor_still_meets_the_budget(on_axes):
    predictor = fit_predictor(on_axes(lambda d, w, r: 0.8))
    assert choose_scale(predictor, budget=0.5).cost == pytest.approx(0.5)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.15, 0.95))
def test_on_a_lattice_a_point_that_uses_the_budget_gives_way_to_clearly_better_ones_alone(
    random_predictor, seed, budget
):
    predictor = random_predictor(np.random.default_rng(seed))
    lattice = Lattice(9, 8, 16, fixed_blocks=2)
    choice = choose_scale(predictor, budget=budget, lattice=lattice)
    points = [
        Scale(float(d), float(w), float(r))
        for d in lattice.fractions("depth")
        for w in lattice.fractions("width")
        for r in lattice.fractions("resolution")
    ]
    within = [p for p in points if paper_cost(p) <= budget + 1e-12]
    used = [p for p in within if paper_cost(p) >= 0.97 * budget]
    assert lattice.snap(choice.scale) == choice.scale
    assert choice.cost <= budget + 1e-12
    assert choice.residual is None
    best, most = (
        max((predictor(p) for p in points), default=-math.inf) for points in (within, used)
    )
    clearly_better = best - most > (predictor.leave_one_out or 0.0)
    assert choice.predicted_accuracy == pytest.approx(best if clearly_better else most)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.15, 0.9), st.floats(0.0, 0.1))
def test_a_larger_budget_never_buys_a_clearly_worse_forecast(random_predictor, seed, budget, more):
    predictor, lattice = random_predictor(np.random.default_rng(seed)), Lattice(9, 8, 16)
    small, large = (
        choose_scale(predictor, budget=each, lattice=lattice).predicted_accuracy
        for each in (budget, budget + more)
    )
    assert large >= small - (predictor.leave_one_out or 0.0) - 1e-12


def test_a_lattice_without_a_point_in_the_budget_says_the_smallest(falling):
    lattice = Lattice(2, 1, 2, fixed_blocks=1, least_px=2)
    with pytest.raises(BudgetError, match="50%"):
        choose_scale(falling, budget=0.3, lattice=lattice)


def test_a_lattice_that_cannot_be_searched_is_refused(falling):
    bounds = {"depth": (0.6, 0.7)}
    with pytest.raises(InputError, match="empty"):
        choose_scale(falling, budget=0.5, lattice=Lattice(2, 2, 2), bounds=bounds)
    with pytest.raises(InputError, match="too large"):
        choose_scale(falling, budget=0.5, lattice=Lattice(500, 500, 500))


def without_resolution(scale: Scale) -> float:
    return scale.depth * scale.width**2


@pytest.mark.parametrize("flat", [CalibratedCost((1.0, 2.0, 0.0)), without_resolution])
@pytest.mark.parametrize("lattice", [None, Lattice(40, 64, 32)])
def test_an_axis_that_costs_nothing_stays_whole(on_axes, flat, lattice):
    predictor = fit_predictor(on_axes(lambda d, w, r: 0.9 * (d * w * r) ** 0.1))
    choice = choose_scale(predictor, budget=0.5, cost=flat, lattice=lattice)
    assert choice.scale.resolution == 1.0
    assert 0.97 * 0.5 <= without_resolution(choice.scale) <= 0.5 * (1 + 1e-9)
    assert "resolution" in choice.binding


def test_an_axis_that_costs_nothing_and_gains_nothing_stays_whole_on_a_lattice(on_axes):
    predictor = fit_predictor(on_axes(lambda d, w, _: 0.9 * (d * w) ** 0.1), degree=(2, 2, 0))
    cost = CalibratedCost((1.0, 2.0, 0.0))
    choice = choose_scale(predictor, budget=0.5, cost=cost, lattice=Lattice(9, 16, 32))
    assert choice.scale.resolution == 1.0


def test_an_axis_that_costs_nothing_is_cut_where_that_gains(on_axes):
    predictor = fit_predictor(on_axes(lambda d, w, r: 0.8 * (d * w) ** 0.1 - 0.1 * (r - 0.8) ** 2))
    choice = choose_scale(predictor, budget=0.5, cost=CalibratedCost((1.0, 2.0, 0.0)))
    assert choice.scale.resolution == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize("axis", ["depth", "width", "resolution"])
def test_a_lattice_on_which_an_axis_stays_whole(axis):
    lattice = Lattice(9, 16, 32, fixed_blocks=2).whole_along(axis)
    assert lattice.fractions(axis).tolist() == [1.0]
    assert sum(len(lattice.counts(other)) > 1 for other in ("depth", "width", "resolution")) == 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"cost": 3}, "cost=3: it is not a function of a scale"),
        ({"lattice": 3}, "lattice=3: it is not a Lattice"),
        ({"bounds": 3}, "bounds=3: it is no mapping"),
    ],
)
def test_arguments_of_another_kind_are_refused(falling, given, message):
    with pytest.raises(InputError, match=message):
        choose_scale(falling, budget=0.5, **given)
    with pytest.raises(InputError, match=message):
        quote(falling, [0.5], **given)


def test_a_quote_says_where_it_goes_above_what_was_observed():
    scales = [Scale(width=w) for w in (0.5, 0.6, 0.7)] + [Scale(0.8, 0.7), Scale(0.6, 0.7)]
    predictor = fit_predictor([Observation(s, 0.9 * (s.width * s.depth) ** 0.1) for s in scales])
    assert predictor.highest == (1.0, 0.7, 1.0)
    quoted = quote(predictor, [0.9], bounds={"width": (0.9, 1.0)})[0].choice
    assert "width" in quoted.extrapolated
    assert predictor.extrapolated_axes(Scale(0.8, 0.6)) == ()


def test_a_quote_answers_every_budget_and_says_where_it_extrapolates(falling):
    quotes = quote(falling, ["90%", 0.5, 0.05])
    accuracies = [item.choice.predicted_accuracy for item in quotes]
    assert [item.budget for item in quotes] == [0.9, 0.5, 0.05]
    assert accuracies == sorted(accuracies, reverse=True)
    assert quotes[0].choice.extrapolated == ()
    assert quotes[2].choice.extrapolated != ()
    for item in quotes:
        low, high = item.choice.interval
        assert low <= item.choice.predicted_accuracy <= high
