import pytest

from triprune.core.correction import CorrectedCost, choose_measured
from triprune.core.cost import paper_cost
from triprune.core.fitting import fit_predictor
from triprune.core.lattice import Lattice
from triprune.core.observation import Observation
from triprune.core.scale import AXES, Scale
from triprune.errors import BudgetError

LATTICE = Lattice(blocks=10, channels=32, resolution_px=32)


def predictor():
    scales = [Scale(), *(Scale.along(axis, x) for axis in AXES for x in (0.9, 0.8, 0.7, 0.6, 0.5))]
    return fit_predictor(
        [Observation(s, 0.9 - 0.1 * sum(1 / x - 1 for x in s)) for s in scales], degree=3
    )


def bent(scale: Scale) -> float:
    """A cost of steps, off by up to a fifth from the formula."""
    return paper_cost(scale) ** 0.8


def test_a_corrected_cost_is_exact_where_it_was_measured_and_shifted_around():
    here, near = Scale(0.5, 0.8, 0.9), Scale(0.5, 0.8, 0.8)
    cost = CorrectedCost(paper_cost, {here: 0.3, Scale(): 1.0})
    assert cost(here) == pytest.approx(0.3)
    assert cost(Scale()) == pytest.approx(1.0)
    assert cost(near) == pytest.approx(0.3 * paper_cost(near) / paper_cost(here))
    assert CorrectedCost(paper_cost, {})(near) == pytest.approx(paper_cost(near))


@pytest.mark.parametrize("budget", [0.7, 0.5, 0.3])
def test_the_measured_cost_meets_the_budget(budget):
    seen = []

    def measure(scale: Scale) -> float:
        seen.append(scale)
        return bent(scale)

    known = predictor()
    choice = choose_measured(known, measure, budget=budget, base=paper_cost, lattice=LATTICE)
    assert bent(choice.scale) <= budget
    used = [known(scale) for scale in seen if 0.97 * budget <= bent(scale) <= budget]
    cheaper = bent(choice.scale) < 0.97 * budget
    assert used
    assert choice.predicted_accuracy >= max(used) + (known.leave_one_out if cheaper else 0.0)
    assert choice.cost == pytest.approx(bent(choice.scale))
    assert len(seen) == len(set(seen)) < 40


def stepped(scale: Scale) -> float:
    """A cost that only even numbers of pixels change, as a stride of two makes it."""
    pixels = 2 * ((round(32 * scale.resolution) + 1) // 2)
    return scale.depth * (pixels / 32) ** 2


def test_scales_that_seemed_too_dear_are_tried_where_costs_go_in_steps():
    bounds = {"width": (1.0, 1.0), "depth": (0.5, 1.0), "resolution": (0.5, 1.0)}
    budget = stepped(Scale(1, 1, 25 / 32)) / 0.985
    choice = choose_measured(
        predictor(), stepped, budget=budget, base=paper_cost, lattice=LATTICE, bounds=bounds
    )
    assert 0.97 * budget <= stepped(choice.scale) <= budget


def test_a_lattice_without_a_scale_near_the_budget_gives_the_best_within_it():
    lattice = Lattice(blocks=2, channels=1, resolution_px=1)
    choice = choose_measured(predictor(), paper_cost, budget=0.9, base=paper_cost, lattice=lattice)
    assert choice.scale == Scale(0.5, 1, 1)
    near = Lattice(blocks=10, channels=1, resolution_px=1)
    for attempts in (2, 3, 100):
        choice = choose_measured(
            predictor(),
            paper_cost,
            budget=0.85,
            base=paper_cost,
            lattice=near,
            attempts=attempts,
        )
        assert choice.scale == Scale(0.8, 1, 1)


def test_a_cost_that_never_settles_is_given_up():
    with pytest.raises(BudgetError, match="none of 3 scales"):
        choose_measured(
            predictor(),
            lambda _: 0.9,
            budget=0.5,
            base=paper_cost,
            lattice=LATTICE,
            attempts=3,
        )


def only(affordable):
    """Say that everything else is too dear, whatever the formula promises."""
    return lambda scale: affordable.get(scale, 0.9)


def test_where_attempts_end_the_best_scale_that_was_measured_is_chosen():
    affordable = {Scale(0.5, 1, 1): 0.499, Scale(1, 23 / 32, 1): 0.498, Scale(1, 1, 0.5): 0.25}
    choice = choose_measured(
        predictor(),
        only(affordable),
        budget=0.5,
        base=paper_cost,
        lattice=LATTICE,
        first=affordable,
        attempts=3,
    )
    assert choice.scale == max([*affordable][:2], key=predictor())
    assert choice.cost == affordable[choice.scale]


def test_what_uses_little_of_the_budget_is_better_than_nothing():
    affordable = {Scale(0.4, 1, 1): 0.4}
    asked = {"budget": 0.5, "base": paper_cost, "lattice": LATTICE, "attempts": 3}
    choice = choose_measured(predictor(), only(affordable), first=affordable, **asked)
    assert choice.scale == Scale(0.4, 1, 1)
    bounds = {"depth": (0.5, 1.0)}
    with pytest.raises(BudgetError, match="within it"):
        choose_measured(predictor(), only({}), bounds=bounds, **asked)


def test_an_axis_that_was_never_cut_is_not_measured_either():
    cuts = [Scale(), Scale(depth=0.5), Scale(depth=0.75), Scale(resolution=0.5)]
    observations = [Observation(scale, 0.9 * paper_cost(scale) ** 0.02) for scale in cuts]
    seen: list[Scale] = []

    def measure(scale: Scale) -> float:
        seen.append(scale)
        return stepped(scale) * 0.9  # what is thought to use the budget uses too little of it

    known = fit_predictor(observations)
    choose_measured(known, measure, budget=0.5, base=paper_cost, lattice=LATTICE)
    assert len(seen) > 5
    assert {scale.width for scale in seen} == {1.0}
