"""Holding a file's answers against the model's: NaN never counts as the same."""

import math

import pytest
import torch
from torch import nn

from triprune.errors import ExportError
from triprune.export.parity import compare


@pytest.mark.parametrize("number", [0, 1])
def test_an_answer_of_nan_is_refused_wherever_it_comes(number):
    model, asked = nn.Flatten(), []

    def answer(inputs):
        found = inputs.flatten(1).clone()
        if len(asked) == number:
            found[0, 0] = math.nan
        asked.append(found)
        return [found]

    with pytest.raises(ExportError, match="by nan of the largest answer"):
        compare(model, answer, torch.randn(2, 3, 4, 4), asked="exporting")
