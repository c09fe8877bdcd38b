"""Finished models as they were measured: known means, spreads and speed-ups."""

import math

import numpy as np
import pytest

from triprune.core.measured import Judged, Timed, gap_doubt, gap_error, times_faster
from triprune.core.scale import Scale


def judged(*accuracies: float) -> Judged:
    return Judged("joint", Scale(), 32, accuracies, 1, 1, 1.0)


def timed(name: str, batch_size: int, median_ms: float) -> Timed:
    return Timed(name, 1.0, batch_size, median_ms, median_ms, median_ms, 30, None)


def test_one_seed_has_no_spread():
    assert (judged(0.9).accuracy, judged(0.9).spread) == (0.9, None)


def test_the_spread_is_the_standard_deviation_of_a_sample():
    assert judged(0.90, 0.92, 0.94).accuracy == pytest.approx(0.92)
    assert judged(0.90, 0.92, 0.94).spread == pytest.approx(0.02)


def test_a_gap_is_doubted_by_students_t():
    pair = (0.90, 0.92), (0.95, 0.95)  # variances of 2e-4 and 0, two seeds each
    assert gap_error(*pair) == pytest.approx(0.01)
    # The scores that do not vary bring no degree of freedom: 12.706 for one.
    assert gap_doubt(*pair) == pytest.approx(0.12706, abs=1e-5)
    alike = (0.90, 0.92), (0.93, 0.95)  # as scattered as each other: 4.303 for two
    assert gap_doubt(*alike) == pytest.approx(0.01 * 2**0.5 * 4.303, abs=1e-5)
    # The best of three is held to one third of the 5 %: 7.649 for two.
    assert gap_doubt(*alike, best_of=3) == pytest.approx(0.01 * 2**0.5 * 7.649, abs=1e-5)


def test_scores_without_scatter_explain_any_gap():
    assert gap_doubt((0.9, 0.9), (0.8, 0.8)) == math.inf


@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("wider", [1.0, 4.0])
def test_equal_models_are_hardly_ever_told_apart(count, wider):
    random, trials = np.random.default_rng(0), 2000
    wrong = 0
    for _ in range(trials):
        one, other = (random.normal(0, spread, count) for spread in (1.0, wider))
        wrong += abs(one.mean() - other.mean()) > gap_doubt(one.tolist(), other.tolist())
    assert wrong / trials < 0.065


def test_a_model_is_held_against_the_original_at_its_own_batch_size():
    rows = [timed("original", 1, 8.0), timed("original", 32, 100.0), timed("joint", 32, 40.0)]
    assert times_faster(rows[2], rows) == 2.5
    assert times_faster(rows[1], rows) == 1.0
    assert rows[2].images_per_second == 800.0
