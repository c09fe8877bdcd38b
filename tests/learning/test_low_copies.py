import copy

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from triprune.learning.low_copies import LowCopies

IMAGES = torch.rand(6, 3, 8, 8, generator=torch.Generator().manual_seed(0))


def autocast():
    return torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False)


def test_numbers_are_those_of_autocast(tiny_net):
    model = tiny_net().train()
    other = copy.deepcopy(model)
    copies, parameters = LowCopies(model, torch.bfloat16), list(model.parameters())
    with autocast():
        mine, theirs = copies(IMAGES), other(IMAGES)
    assert torch.equal(mine, theirs)
    slopes = torch.autograd.grad(mine.float().square().sum(), copies.stand_ins(parameters))
    others = torch.autograd.grad(theirs.float().square().sum(), list(other.parameters()))
    assert all(torch.equal(a.float(), b) for a, b in zip(slopes, others, strict=True))


def test_only_what_is_multiplied_is_copied(tiny_net):
    model = tiny_net()
    stand_ins = LowCopies(model, torch.bfloat16).stand_ins(list(model.parameters()))
    names = [name for name, _ in model.named_parameters()]
    low = {n for n, each in zip(names, stand_ins, strict=True) if each.dtype == torch.bfloat16}
    assert low == {"stem.0.weight", "block.0.weight", "head.weight", "head.bias"}


def test_copies_follow_the_weights(tiny_net):
    model = tiny_net().eval()
    copies = LowCopies(model, torch.bfloat16)
    with autocast(), torch.no_grad():
        copies(IMAGES)
        model.get_parameter("head.bias").add_(1.0)
        assert torch.equal(copies(IMAGES), model(IMAGES))


def test_the_model_keeps_its_own_weights(tiny_net):
    model = tiny_net()
    before = dict(model.named_parameters())
    with autocast():
        LowCopies(model, torch.bfloat16)(IMAGES)
    assert all(weight is before[name] for name, weight in model.named_parameters())
    assert all(weight.dtype == torch.float32 for weight in model.parameters())


class Standardised(nn.Conv2d):
    """Computes with its weight, in fp32, before it multiplies."""

    def forward(self, x):
        weight = (self.weight - self.weight.mean()) / self.weight.std()
        return self._conv_forward(x, weight, self.bias)


@pytest.mark.parametrize(
    "layer",
    [Standardised(3, 4, 3), parametrizations.weight_norm(nn.Conv2d(3, 4, 3))],
)
def test_layers_that_compute_with_their_weights_are_left_alone(layer):
    copies = LowCopies(layer, torch.bfloat16)
    assert all(copies.stand_in(weight) is weight for weight in layer.parameters())
    with autocast():
        assert torch.equal(copies(IMAGES), layer(IMAGES))


def test_shared_layers_and_weights_have_one_copy():
    layer, other = nn.Conv2d(3, 3, 3, padding=1), nn.Conv2d(3, 3, 3, padding=1)
    other.weight = layer.weight
    model = nn.Sequential(layer, nn.ReLU(), layer, other)
    copies = LowCopies(model, torch.bfloat16)
    for _ in range(3):
        with autocast():
            mine, theirs = copies(IMAGES), model(IMAGES)
        assert torch.equal(mine, theirs)
    assert len({id(each) for each in copies.stand_ins(list(model.parameters()))}) == 3
    assert all(isinstance(each.weight, nn.Parameter) for each in (layer, other))
    assert other.weight is layer.weight


def test_a_hook_on_a_gradient_is_not_lost():
    layer = nn.Conv2d(3, 3, 3, padding=1)
    layer.weight.register_hook(lambda slope: 0 * slope)
    assert LowCopies(layer, torch.bfloat16).stand_in(layer.weight) is layer.weight


def test_a_weight_that_another_layer_holds_is_not_copied():
    class Scaled(nn.Module):
        def __init__(self, weight):
            super().__init__()
            self.weight = weight

        def forward(self, x):
            return x * self.weight.mean()

    layer = nn.Conv2d(3, 3, 3, padding=1)
    copies = LowCopies(nn.Sequential(layer, Scaled(layer.weight)), torch.bfloat16)
    assert copies.stand_in(layer.weight) is layer.weight
    assert copies.stand_in(layer.bias) is not layer.bias
