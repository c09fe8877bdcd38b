from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triprune import CalibratedCost, Scale, paper_cost
from triprune.core.cost import log_cost, log_cost_slopes
from triprune.errors import InputError

fractions = st.floats(0.05, 1.0)


@settings(deadline=None)
@given(fractions, fractions, fractions)
def test_the_paper_s_cost_is_d_w2_r2(d, w, r):
    assert paper_cost(Scale(d, w, r)) == pytest.approx(d * w**2 * r**2)


def test_the_paper_s_own_optimum_costs_half():
    assert paper_cost(Scale(0.78, 0.82, 0.98)) == pytest.approx(0.504, abs=1e-3)


def test_a_mix_of_square_and_linear_layers_is_calibrated():
    """Depthwise layers grow with w, the others with w²."""

    def macs(d, w, r):
        return d * (0.9 * w**2 + 0.1 * w) * r**2

    scales = [Scale(d, w, r) for d in (1, 0.7) for w in (1, 0.8, 0.6, 0.4) for r in (1, 0.7)]
    cost = CalibratedCost.fit(scales, [macs(*scale) for scale in scales])
    for scale in (Scale(0.8, 0.5, 0.9), Scale(0.6, 0.9, 0.6)):
        assert cost(scale) == pytest.approx(macs(*scale), rel=2e-3)


def test_dense_blocks_whose_cost_is_quadratic_in_depth():
    def macs(d, w, r):
        return (0.3 * d + 0.7 * d**2) * w**2 * r**2

    scales = [Scale(d, w, r) for d in (1, 0.8, 0.6, 0.4) for w in (1, 0.7) for r in (1, 0.7)]
    cost = CalibratedCost.fit(scales, [macs(*scale) for scale in scales])
    assert cost(Scale(0.5, 0.8, 0.9)) == pytest.approx(macs(0.5, 0.8, 0.9), rel=5e-3)


def test_what_is_not_measured_stays_as_in_the_paper():
    cost = CalibratedCost.fit([Scale(), Scale(width=0.5)], [1.0, 0.3])
    assert cost(Scale(width=0.5)) == pytest.approx(0.3, rel=1e-3)
    assert cost(Scale(depth=0.5)) == pytest.approx(0.5)
    assert cost(Scale(resolution=0.5)) == pytest.approx(0.25)


def test_noisy_measurements_fall_back_to_fewer_terms():
    scales = [Scale(), Scale(width=0.99), Scale(width=0.98), Scale(width=0.5)]
    cost = CalibratedCost.fit(scales, [1.0, 1.02, 0.9, 0.5])
    logs = np.log([[1, 1, 1], [1, 0.5, 1], [0.5, 0.7, 0.7]])
    assert (log_cost_slopes(cost, logs) > 0).all()
    assert cost.bends == (0.0, 0.0, 0.0)


def test_a_cost_that_falls_along_an_axis_is_refused():
    with pytest.raises(InputError, match="do not grow"):
        CalibratedCost.fit([Scale(), Scale(depth=0.5)], [1.0, 2.0])


BOX = [Scale(d, w, r) for d in (1, 0.8, 0.5) for w in (1, 0.8, 0.5) for r in (1, 0.8, 0.5)]


def test_a_cost_may_be_flat_along_an_axis():
    """Parameters do not depend on resolution; the rest of the fit is none the worse for it."""

    def params(d, w, _):
        return 0.1 * w + 0.9 * d * w**2

    cost = CalibratedCost.fit(BOX, [params(*scale) for scale in BOX])
    assert cost.flat_axes == ("resolution",)
    assert cost(Scale(0.7, 0.6, 0.5)) == cost(Scale(0.7, 0.6, 1.0))
    assert cost(Scale(0.7, 0.6, 0.5)) == pytest.approx(params(0.7, 0.6, 0.5), rel=5e-3)
    assert paper_cost.flat_axes == ()


def test_timings_that_scatter_are_reduced_to_slopes_that_never_fall():
    """A launch-bound device: only depth counts, and noise makes the other axes seem to fall."""
    noise = np.random.default_rng(1).normal(0.0, 0.03, len(BOX))
    timed = [scale.depth * math.exp(n) for scale, n in zip(BOX, noise, strict=True)]
    timed = [t * scale.width**-0.05 for t, scale in zip(timed, BOX, strict=True)]
    cost = CalibratedCost.fit(BOX, timed)
    assert cost.flat_axes == ("width", "resolution")
    assert cost.slopes[0] == pytest.approx(1.0, abs=0.1)


def test_a_cost_that_nothing_changes_is_refused():
    with pytest.raises(InputError, match="do not grow"):
        CalibratedCost.fit(BOX, [1.0] * len(BOX))


@pytest.mark.parametrize(
    ("scales", "values"),
    [([], []), ([Scale()], [1.0, 0.5]), ([Scale()], [0.0]), ([Scale()], [math.nan])],
)
def test_calibrations_that_cannot_be_meant(scales, values):
    with pytest.raises(InputError):
        CalibratedCost.fit(scales, values)


def test_any_function_of_a_scale_is_a_cost():
    def cost(scale):
        return scale.depth * scale.width**1.7 * scale.resolution**2.1

    logs = np.log([[0.5, 0.6, 0.7], [1.0, 1.0, 1.0], [0.999, 1.0, 0.5]])
    assert np.exp(log_cost(cost, logs[:1]))[0] == pytest.approx(0.5 * 0.6**1.7 * 0.7**2.1)
    assert log_cost_slopes(cost, logs) == pytest.approx(np.tile([1.0, 1.7, 2.1], (3, 1)), abs=1e-8)


@pytest.mark.parametrize("bad", [math.nan, None, "cheap"])
def test_a_cost_that_is_no_number_is_refused(bad):
    with pytest.raises(InputError, match="a cost = "):
        log_cost(lambda scale: bad, np.zeros((1, 3)))


def test_a_cost_of_nothing_is_refused():
    with pytest.raises(InputError, match="not above 0"):
        log_cost(lambda scale: 0.0, np.zeros((1, 3)))
