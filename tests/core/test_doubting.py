"""What the observations hardly support is said, and nothing is said of what they support."""

import re

import numpy as np
import pytest

from triprune.core.choice import choose_scale
from triprune.core.doubting import doubts, is_guess
from triprune.core.fitting import fit_predictor
from triprune.core.lattice import Lattice
from triprune.core.observation import Observation
from triprune.core.scale import AXES, Scale

SCALES = [Scale(), *(Scale.along(axis, x) for axis in AXES for x in (0.9, 0.8, 0.7, 0.6))]


def observed(score):
    return fit_predictor(Observation(scale, score(scale)) for scale in SCALES)


def falling(scale: Scale) -> float:
    return 1.0 - 0.02 / scale.depth - 0.03 / scale.width - 0.02 / scale.resolution


def told(predictor, **options):
    return doubts(predictor, choose_scale(predictor, **options))


def test_a_good_fit_within_the_observations_leaves_no_doubt():
    assert told(observed(falling), budget=0.5) == ()
    assert told(observed(lambda scale: 40 * falling(scale) - 60), budget=0.5) == ()


def test_a_scale_beyond_the_observations_is_told_with_their_end():
    pinned = {"depth": (0.4, 0.4), "width": (0.9, 0.9), "resolution": (0.5, 0.5)}
    (note,) = told(observed(falling), budget=0.5, bounds=pinned)
    assert note == "extrapolates: nothing was observed below depth 0.60, resolution 0.60"
    cut = [scale for scale in SCALES if scale.cut_axes()]
    low = fit_predictor(Observation(Scale(s.depth, 0.8, s.resolution), falling(s)) for s in cut)
    whole = {"width": (1.0, 1.0)}
    assert "extrapolates: nothing was observed above width 0.80" in told(
        low, budget=0.9, bounds=whole
    )


@pytest.mark.parametrize("times", [1, 100])
def test_scores_that_follow_nothing_are_called_a_guess(times):
    noise = np.random.default_rng(0)
    predictor = observed(lambda _: times * noise.uniform(0.1, 0.9))
    *_, note = told(predictor, budget=0.5)
    assert note.startswith("hardly better than a guess: 90 % of measurements fall anywhere from")
    assert note.endswith("observe more rounds, or train each for more epochs")


def test_too_few_observations_are_called_a_guess():
    few = fit_predictor([Observation(Scale(), 0.9), Observation(Scale(depth=0.5), 0.8)])
    assert is_guess(few, choose_scale(few, budget=0.7))
    scores = fit_predictor([Observation(Scale(), -3.0), Observation(Scale(depth=0.5), -4.0)])
    (note,) = told(scores, budget=0.7)
    assert "do not say how far off the prediction may be" in note


def test_a_cheaper_scale_that_is_clearly_better_is_told():
    scales = [Scale(), *(Scale.along(axis, x) for axis in AXES for x in (0.9, 0.8, 0.7, 0.6, 0.5))]
    known = fit_predictor(
        [Observation(s, 0.9 - 0.5 * (1 / s.width - 1) - 0.01 * (1 / s.depth - 1)) for s in scales],
        degree=3,
    )
    # By a fifth fewer blocks than the budget allows, or by the widths that use it.
    lattice = Lattice(blocks=4, channels=10, resolution_px=1)
    choice = choose_scale(known, budget=0.81, lattice=lattice)
    assert tuple(choice.scale) == (1.0, 0.9, 1.0)
    assert choice.cheaper == pytest.approx((0.75, 0.8967), abs=1e-3)
    (told,) = doubts(known, choice)
    assert re.fullmatch(
        r"less is forecast to be more: 89\.\d\d% at 75\.0%, where 81\.0% have 84\.\d\d%; "
        "ask for that budget",
        told,
    )
    assert choose_scale(known, budget=0.75, lattice=lattice).cheaper is None
