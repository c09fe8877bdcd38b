from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triprune import Observation, Predictor, Scale, fit_predictor
from triprune.core.forms import jacobian_at, value_at
from triprune.core.link import from_link, to_link
from triprune.errors import InputError


def gentle(d, w, r):
    return 0.9 * d**0.1 * w**0.1 * r**0.1


@pytest.mark.parametrize(
    "options",
    [{}, {"degree": 3}, {"link": "logit", "degree": (2, 3, 2)}, {"rank": 2, "ridge": 1.0}],
)
def test_the_round_trip_through_json_is_exact(grid, options):
    predictor = fit_predictor(grid("resnet_cifar10")[0], **options)
    again = Predictor.from_dict(json.loads(json.dumps(predictor.to_dict())))
    for scale in (Scale(), Scale(0.5, 0.8, 0.9), Scale(0.05, 0.3, 0.3)):
        assert again(scale) == predictor(scale)
        assert again.interval(scale) == predictor.interval(scale)
    assert again.ranking == predictor.ranking


@pytest.mark.parametrize(
    "damage",
    [
        {"kind": "other"},
        {"version": 2},
        {"theta": [1.0]},
        {"theta": "abc"},
        {"covariance": [[1.0]]},
        {"low": [0.5]},
        {"low": [0.5, 0.5, 1.0]},
        {"noise": math.nan},
        {"least_noise": math.nan},
        {"freedom": math.inf},
        {"theta": [math.nan] * 7},
        {"observed": None},
        {"highest": [0.5]},
        {
            "candidate": {
                "link": "probit",
                "rank": 1,
                "degree": [1, 1, 1],
                "ridge": 0,
                "leave_one_out": None,
            }
        },
        {"candidate": {}},
    ],
)
def test_values_that_are_no_predictor_are_refused(grid, damage):
    values = fit_predictor(grid("resnet_cifar10")[0]).to_dict() | damage
    with pytest.raises(InputError, match="reading a predictor"):
        Predictor.from_dict(values)


@pytest.mark.parametrize("link", ["identity", "logit", "root"])
def test_links_are_undone_by_their_inverse(link):
    accuracies = np.linspace(0.01, 0.99, 50)
    assert from_link(to_link(accuracies, link), link) == pytest.approx(accuracies)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000))
def test_derivatives_agree_with_differences(random_predictor, seed):
    generator = np.random.default_rng(seed)
    form = random_predictor(generator).form
    points = generator.uniform(0.15, 0.999, (20, 3))
    for axis in range(3):
        step = 1e-6 * np.eye(3)[axis]
        slope = (value_at(form, points + step) - value_at(form, points - step)) / 2e-6
        assert form.gradient(points)[:, axis] == pytest.approx(slope, rel=1e-4, abs=1e-4)
    for index in range(len(form.theta)):
        step = 1e-6 * np.eye(len(form.theta))[index]
        ahead, behind = (value_at(form.with_theta(form.theta + s), points) for s in (step, -step))
        assert jacobian_at(form, points)[:, index] == pytest.approx(
            (ahead - behind) / 2e-6, rel=1e-4, abs=1e-4
        )


def test_extrapolated_axes_are_named(on_axes):
    predictor = fit_predictor(on_axes(gentle))
    assert predictor.extrapolated_axes(Scale(0.5, 0.8, 0.8)) == ()
    assert predictor.extrapolated_axes(Scale(0.4, 0.8, 0.5)) == ("depth", "resolution")


def test_beyond_the_observations_the_pick_goes_on_falling(on_axes):
    predictor = fit_predictor(on_axes(gentle))
    accuracies = [predictor(Scale(depth=d)) for d in (0.5, 0.4, 0.3, 0.2, 0.1, 0.05)]
    assert accuracies == sorted(accuracies, reverse=True)


@pytest.mark.parametrize("bad", [0.0, 1.0, 90, math.nan, "high", None])
def test_a_level_must_be_a_probability(on_axes, bad):
    with pytest.raises(InputError, match="level"):
        fit_predictor(on_axes(gentle)).interval(Scale(), level=bad)


@pytest.mark.parametrize("bad", [(0.5, 0.5, 0.5), None, "abc"])
def test_a_predictor_takes_a_scale(on_axes, bad):
    with pytest.raises(InputError, match="not a Scale"):
        fit_predictor(on_axes(gentle))(bad)


def test_intervals_widen_with_the_level_and_contain_the_prediction(grid):
    predictor = fit_predictor(grid("resnet_cifar10")[0])
    scale = Scale(0.6, 0.8, 0.8)
    narrow, wide = predictor.interval(scale, 0.5), predictor.interval(scale, 0.95)
    assert wide[0] < narrow[0] < predictor(scale) < narrow[1] < wide[1]
    assert {type(end) for end in (*narrow, *wide, predictor(scale))} == {float}


@pytest.mark.parametrize("options", [{}, {"degree": 3}])
def test_intervals_cover_about_their_level_in_simulation(on_axes, options):
    """Truths whose errors add, multiply or stand between; noise of a large and a small test set."""
    generator = np.random.default_rng(5)
    hits: list[bool] = []
    for trial in range(80):
        whole = generator.uniform(0.05, 0.3)
        growth, power = generator.uniform(0.05, 0.4, 3), generator.uniform(0.2, 1.0, 3)
        share, noise = generator.uniform(), (0.001, 0.003)[trial % 2]

        def truth(*scale, whole=whole, growth=growth, power=power, share=share):
            grown = growth * (np.array(scale) ** -power - 1)
            return 1 - whole * (1 + grown.sum()) ** share * np.prod(1 + grown) ** (1 - share)

        observations = [
            Observation(o.scale, o.accuracy + noise * float(generator.standard_normal()))
            for o in on_axes(truth)
        ]
        predictor = fit_predictor(observations, **options)
        for point in generator.uniform([0.5, 0.71, 0.71], 1.0, (8, 3)):
            low, high = predictor.interval(Scale(*map(float, point)), 0.9)
            measured = truth(*point) + noise * generator.standard_normal()
            hits.append(bool(low <= measured <= high))
    assert 0.85 <= np.mean(hits) <= 0.95


def plane(d, w, r):
    return 0.93 - 0.02 * (1 - d) - 0.03 * (1 - w) - 0.05 * (1 - r)


@pytest.mark.parametrize("options", [{}, {"degree": 1}, {"link": "root"}])
def test_no_luck_makes_an_interval_narrower_than_the_images_allow(on_axes, options):
    """Observations without any noise, each said to be counted on 5,000 images."""
    lucky, judged = (fit_predictor(on_axes(plane), **options, images=n) for n in (None, 5000))
    scale = Scale(0.9, 0.9, 1.0)
    assert judged(scale) == lucky(scale)
    spread = math.sqrt(0.93 * 0.07 / 5000 / 3)  # a third of the variance of independent images
    low, high = judged.interval(scale)
    assert 2 * 1.645 * spread < high - low < 4 * 1.645 * spread
    assert high - low > 2 * (lucky.interval(scale)[1] - lucky.interval(scale)[0])
    more = fit_predictor(on_axes(plane), **options, images=80_000).interval(scale)
    assert more[1] - more[0] < high - low
    again = Predictor.from_dict(json.loads(json.dumps(judged.to_dict())))
    assert again.interval(scale) == (low, high)


def test_noise_that_shows_counts_where_it_is_more_than_the_images_leave(on_axes):
    draw = np.random.default_rng(3).normal(0.0, 0.01, 13)
    noisy = [
        Observation(o.scale, o.accuracy + e) for o, e in zip(on_axes(plane), draw, strict=True)
    ]
    plain, judged = (fit_predictor(noisy, degree=1, images=n) for n in (None, 100_000))
    assert judged.interval(Scale(0.8, 0.8, 0.8)) == plain.interval(Scale(0.8, 0.8, 0.8))


def test_a_predictor_written_before_images_were_counted_is_read(on_axes):
    predictor = fit_predictor(on_axes(plane), degree=2)
    values = predictor.to_dict()
    assert values.pop("least_noise") == 0.0
    assert Predictor.from_dict(values).interval(Scale()) == predictor.interval(Scale())


@pytest.mark.parametrize("images", [0, -5, 2.5, True, "many"])
def test_images_that_are_no_count_are_refused(on_axes, images):
    with pytest.raises(InputError, match="not a positive integer"):
        fit_predictor(on_axes(plane), images=images)


def test_images_need_accuracies_that_are_fractions(on_axes):
    percent = on_axes(lambda *scale: 100 * plane(*scale))
    with pytest.raises(InputError, match="divide percentages by 100"):
        fit_predictor(percent, images=5000)
    assert fit_predictor(percent).least_noise == 0.0
