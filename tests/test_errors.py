from __future__ import annotations

import inspect
import pickle

import pytest

from triprune import errors


def all_errors():
    return [
        value
        for value in vars(errors).values()
        if inspect.isclass(value) and issubclass(value, errors.TripruneError)
    ]


@pytest.mark.parametrize("error", all_errors())
def test_every_error_says_what_was_asked_found_and_to_do(error):
    raised = error("a budget of 5%", "the smallest is 11%", "ask for more")
    assert str(raised) == "a budget of 5%: the smallest is 11%. ask for more."
    assert (raised.asked, raised.found, raised.remedy) == raised.args


@pytest.mark.parametrize("error", all_errors())
def test_every_error_stands_in_the_tree_that_is_drawn(error):
    assert error.__name__ in (errors.__doc__ or "")


def test_errors_survive_the_way_between_processes():
    original = errors.BudgetError("a", "b", "c")
    again = pickle.loads(pickle.dumps(original))  # noqa: S301 - our own bytes
    assert str(again) == str(original)


def test_input_errors_are_value_errors():
    assert issubclass(errors.InputError, ValueError)
