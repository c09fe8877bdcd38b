from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triprune import Lattice, Scale, paper_cost, schedule
from triprune.core.budget import read_budget, run_budget
from triprune.errors import InputError

AXES = ("depth", "width", "resolution")


def test_algorithm_1_for_half_the_compute_in_four_rounds():
    plan = schedule(0.5, rounds=4)
    assert [s.depth for s in plan.depth] == pytest.approx([0.875, 0.75, 0.625, 0.5])
    assert plan.width[-1].width == pytest.approx(math.sqrt(0.5))
    assert plan.targets("resolution")[1].resolution == pytest.approx(1 - (1 - math.sqrt(0.5)) / 2)
    assert plan.notes == ()


@settings(deadline=None)
@given(st.floats(0.05, 0.95), st.integers(1, 8))
def test_each_chain_alone_ends_at_the_budget(budget, rounds):
    plan = schedule(budget, rounds=rounds)
    for axis in AXES:
        targets = plan.targets(axis)
        assert len(targets) == rounds
        assert paper_cost(targets[-1]) == pytest.approx(budget)
        assert all(scale.cut_axes() == (axis,) for scale in targets)


@settings(deadline=None)
@given(st.floats(0.05, 0.95), st.integers(1, 8), st.integers(1, 30), st.integers(2, 64))
def test_on_a_lattice_every_target_is_real_and_none_comes_twice(budget, rounds, blocks, pixels):
    lattice = Lattice(blocks, 16, pixels)
    plan = schedule(budget, rounds=rounds, lattice=lattice)
    short = {note.partition(":")[0] for note in plan.notes}
    for axis in AXES:
        targets = plan.targets(axis)
        assert len(set(targets)) == len(targets)
        assert all(lattice.snap(scale) == scale for scale in targets)
        assert (len(targets) < rounds) == (axis in short)


def test_an_axis_with_too_few_steps_is_named():
    plan = schedule("50%", rounds=4, lattice=Lattice(4, 16, 32, fixed_blocks=3))
    assert plan.depth == (Scale(0.75),)
    assert plan.notes == ("depth: 1 distinct steps for 4 rounds down to 0.5",)


def test_the_whole_compute_leaves_nothing_to_do():
    assert schedule(1.0).depth == ()


@pytest.mark.parametrize("bad", [0, -1, 2.5, True, "4"])
def test_rounds_must_be_a_positive_integer(bad):
    with pytest.raises(InputError, match="rounds"):
        schedule(0.5, rounds=bad)


@pytest.mark.parametrize(
    ("text", "fraction"), [("50%", 0.5), (" 35 % ", 0.35), ("0.25", 0.25), (1, 1.0), ("100%", 1.0)]
)
def test_budgets_as_people_write_them(text, fraction):
    assert read_budget(text) == pytest.approx(fraction)


def test_to_a_run_a_percentage_is_the_budget_of_its_fraction():
    assert all(run_budget(f"{n / 10}%") == run_budget(n / 1000) for n in range(1, 1001))
    assert (run_budget(1 / 3), run_budget(1e-9)) == (0.333333, 1e-9)


@pytest.mark.parametrize(
    "bad",
    [0, 0.0, 1.5, -0.5, "abc", "", "50%%", "150%", "0%", math.nan, math.inf, None, True],
)
def test_budgets_that_cannot_be_meant(bad):
    with pytest.raises(InputError, match="part of the original compute"):
        read_budget(bad)


def test_a_lattice_of_another_kind_is_refused():
    with pytest.raises(InputError, match="lattice=3: it is not a Lattice"):
        schedule(0.5, lattice=3)
