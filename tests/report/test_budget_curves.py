from __future__ import annotations

import pytest

from triprune import Observation, Scale, fit_predictor, schedule
from triprune.report.budget_curves import budget_picture, to_html, to_png


@pytest.fixture(scope="module")
def picture():
    plan = schedule(0.5)
    scales = [Scale(), *plan.depth, *plan.width, *plan.resolution]
    observations = [
        Observation(s, 0.9 * s.depth**0.1 * s.width**0.1 * s.resolution**0.2) for s in scales
    ]
    return budget_picture(fit_predictor(observations), observations)


def test_the_joint_curve_is_never_below_an_axis_alone(picture):
    joint, *alone = picture.curves
    assert [curve.name for curve in picture.curves] == ["joint", "depth", "width", "resolution"]
    for curve in alone:
        together = dict(zip(joint.budgets, joint.accuracies, strict=True))
        for budget, accuracy in zip(curve.budgets, curve.accuracies, strict=True):
            assert together[budget] >= accuracy - 1e-12


def test_an_axis_that_was_not_observed_has_no_curve():
    observations = [Observation(Scale(width=w), 0.9 * w**0.1) for w in (1, 0.9, 0.8, 0.7)]
    found = budget_picture(fit_predictor(observations), observations)
    assert [curve.name for curve in found.curves] == ["joint", "width"]


def test_one_observation_can_be_drawn_too():
    observations = [Observation(Scale(), 90.0)]
    found = budget_picture(fit_predictor(observations), observations)
    assert to_png(found, "one").startswith(b"\x89PNG")


def test_the_page_stands_alone_and_escapes_names(picture):
    page = to_html(picture, "<script>alert(1)</script>")
    assert "<script>alert(1)" not in page
    assert 'src="http' not in page
    assert "depth alone" in page


def test_the_png_is_a_picture(picture):
    content = to_png(picture, "title")
    assert content.startswith(b"\x89PNG")
    assert len(content) > 20_000
