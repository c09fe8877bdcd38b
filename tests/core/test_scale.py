from __future__ import annotations

import math

import pytest

from triprune import Lattice, Observation, Scale
from triprune.errors import InputError


def test_a_scale_iterates_in_the_order_of_the_axes():
    assert tuple(Scale(0.5, 0.75, 1.0)) == (0.5, 0.75, 1.0)


def test_along_keeps_the_other_axes_whole():
    assert Scale.along("width", 0.6) == Scale(1.0, 0.6, 1.0)


def test_cut_axes_names_what_is_not_whole():
    assert Scale(0.5, 1.0, 0.9).cut_axes() == ("depth", "resolution")


def test_a_scale_is_frozen_and_hashable():
    with pytest.raises(AttributeError):
        Scale(0.5).depth = 0.6
    assert len({Scale(0.5), Scale(0.5)}) == 1


@pytest.mark.parametrize("bad", [0.0, -0.1, 1.0001, math.nan, math.inf, "0.5", None, True])
def test_a_fraction_outside_zero_to_one_is_refused(bad):
    with pytest.raises(InputError, match="depth"):
        Scale(depth=bad)


@pytest.mark.parametrize("bad", [math.nan, math.inf, "high", None, 10**400])
def test_an_accuracy_that_is_no_number_is_refused(bad):
    with pytest.raises(InputError, match="accuracy"):
        Observation(Scale(), bad)


@pytest.mark.parametrize("bad", [0, -1, 2.5, math.nan])
def test_a_count_that_is_no_count_is_refused(bad):
    with pytest.raises(InputError, match="macs"):
        Observation(Scale(), 0.9, macs=bad)


def test_counts_may_be_absent_and_are_kept_as_integers():
    assert Observation(Scale(), 0.9).macs is None
    counted = Observation(Scale(), 0.9, macs=125_700_000.0, params=850_000)
    assert isinstance(counted.macs, int)
    assert (counted.macs, counted.params) == (125_700_000, 850_000)


def test_an_observation_needs_a_scale():
    with pytest.raises(InputError, match="not a Scale"):
        Observation((1, 1, 1), 0.9)


def test_any_finite_score_is_an_observation():
    assert Observation(Scale(), -3.5).accuracy == -3.5


def test_a_lattice_counts_what_the_model_can_take():
    lattice = Lattice(27, 16, 32, fixed_blocks=2, pixel_step=4, least_px=16)
    assert lattice.counts("depth") == list(range(2, 28))
    assert lattice.counts("width") == list(range(1, 17))
    assert lattice.counts("resolution") == [16, 20, 24, 28, 32]
    assert lattice.fractions("resolution").tolist() == [0.5, 0.625, 0.75, 0.875, 1.0]


def test_snapping_gives_the_nearest_point_of_the_lattice():
    assert Lattice(27, 16, 32).snap(Scale(0.49, 0.51, 0.7)) == Scale(13 / 27, 0.5, 22 / 32)


@pytest.mark.parametrize(
    "bad",
    [
        {"blocks": 0},
        {"channels": 2.5},
        {"resolution_px": True},
        {"fixed_blocks": -1},
        {"fixed_blocks": 28},
        {"least_px": 33},
    ],
)
def test_a_lattice_of_impossible_counts_is_refused(bad):
    with pytest.raises(InputError):
        Lattice(**{"blocks": 27, "channels": 16, "resolution_px": 32, **bad})
