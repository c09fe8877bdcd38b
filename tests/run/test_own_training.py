"""Functions of the user's own that cannot be meant are told with what they must take and return."""

import pytest
import torch

from triprune.errors import InputError
from triprune.run.compress import compress


def train(model, resolution_px):
    raise AssertionError("trained")


@pytest.mark.parametrize("name", ["train", "evaluate", "final_evaluate"])
def test_a_function_of_other_arguments(small, name):
    given = {"train": train, "evaluate": lambda model, resolution_px: 0.5}
    given[name] = lambda model: 1
    told = rf"{name}=.*it takes \(model\), not a model and a resolution.*give {name}\(model, res"
    with pytest.raises(InputError, match=told):
        compress(small.make(), **given, input_size=(3, 32, 32), budget=0.5)


@pytest.mark.parametrize("score", [None, "good", [0.5], float("nan"), torch.ones(2), True, {}])
def test_a_score_that_is_no_number(small, score):
    own = {"train": train, "evaluate": lambda model, resolution_px: score}
    with pytest.raises(InputError, match=r"the score of original: .* returned .*return one plain"):
        compress(small.make(), **own, input_size=(3, 32, 32), budget=0.5)
