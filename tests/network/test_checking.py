"""The measure of a proof: what it counts as a difference, and that NaN is never proof."""

import math

import pytest
import torch
from torch import nn

import triprune
from triprune.core.scale import Scale
from triprune.errors import SurgeryError
from triprune.network.checking import largest_difference

FINE = torch.tensor([[1.0, -4.0, 2.0]])
SPOILED = torch.tensor([[1.0, math.nan, 2.0]])
ENDLESS = torch.tensor([[1.0, math.inf, 2.0]])


@pytest.mark.parametrize(
    ("first", "second", "difference"),
    [
        (FINE, FINE, 0.0),
        (FINE, torch.tensor([[1.0, -4.0, 1.0]]), 0.25),
        (FINE, FINE[:, :2], math.inf),
        (FINE, SPOILED, math.inf),
        (SPOILED, FINE, math.inf),
        (SPOILED, SPOILED, math.inf),
        (ENDLESS, ENDLESS, 0.0),
        (ENDLESS, torch.tensor([[1.0, math.inf, 1.0]]), 0.5),
        (ENDLESS, FINE, math.inf),
        (FINE, ENDLESS, math.inf),
        (ENDLESS, -ENDLESS, math.inf),
        (ENDLESS, SPOILED, math.inf),
    ],
)
def test_differences_are_parts_of_the_first(first, second, difference):
    assert largest_difference(first, second) == difference
    assert largest_difference((FINE, {"more": first}), (FINE, {"more": second})) == difference


def test_a_network_that_answers_with_nan_is_not_pruned():
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 4, 3), nn.Flatten()
    )
    model[1].running_mean[0] = math.nan
    with pytest.raises(SurgeryError, match="answers the example with NaN"):
        triprune.prune(model, Scale(1, 0.5, 1), example_input=torch.randn(1, 3, 8, 8))
