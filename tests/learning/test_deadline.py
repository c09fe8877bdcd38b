import math
import time

import pytest

from triprune.errors import InputError, RunStoppedError
from triprune.learning.deadline import Deadline
from triprune.learning.progress import EpochRecord


def record(seconds: float) -> EpochRecord:
    return EpochRecord(1, 9, 0.1, 1.0, 0.5, None, seconds, 100.0)


def test_an_epoch_that_would_end_too_late_is_not_begun():
    deadline = Deadline(100)
    assert not deadline(record(10))
    assert not deadline.over
    assert 99 < deadline.seconds_left <= 100
    assert deadline(record(70))  # another as slow would leave no margin
    assert deadline(record(10))  # the slowest counts, whichever training had it


def test_one_slow_epoch_is_forgotten_after_many():
    deadline = Deadline(100)
    assert deadline(record(70))
    assert [deadline(record(1)) for _ in range(100)][-1] is False


def test_the_first_epoch_is_always_begun():
    """Else a short slice, spent on opening the data, would never come to an end."""
    deadline = Deadline(0)
    time.sleep(0.001)
    assert not deadline.over
    assert deadline(record(1e-6))


def test_a_step_is_refused_only_after_something_was_done():
    deadline = Deadline(0)
    time.sleep(0.001)
    deadline.require_time("the first step")
    deadline.moved()
    with pytest.raises(RunStoppedError, match="the second step: the time that was given is up"):
        deadline.require_time("the second step")
    in_time = Deadline(100)
    in_time.moved()
    in_time.require_time("a step")


def test_there_may_be_no_limit():
    assert not Deadline(math.inf)(record(1e9))


@pytest.mark.parametrize("seconds", [-1, float("nan")])
def test_no_duration_is_refused(seconds):
    with pytest.raises(InputError, match="seconds"):
        Deadline(seconds)
