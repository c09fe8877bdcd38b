import itertools

import pytest
import torch
from torch import nn

from triprune.errors import InputError
from triprune.learning.images import ImageSet
from triprune.learning.models import build_model
from triprune.learning.probe import block_scores, probe_blocks


class Identity(nn.Module):
    def forward(self, x):
        return x * 1.0


class Square(nn.Module):
    """Makes the class of ``checks`` linear: their mean is the same for all, their square not."""

    def forward(self, x):
        return x.square()


class Dense(nn.Module):
    def forward(self, x):
        return x.square().sum(1, keepdim=True)


@pytest.fixture
def checks() -> ImageSet:
    """Noise around grey: the class is its strength, which pooled pixels do not show."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(400) % 2
    strength = torch.where(labels == 0, 30.0, 90.0).view(-1, 1, 1, 1)
    sign = torch.randint(0, 2, (400, 3, 8, 8), generator=generator) * 2.0 - 1
    pixels = (127.5 + strength * sign).round().to(torch.uint8)
    return ImageSet(pixels, labels, ("weak", "strong"), (0.5,) * 3, (0.25,) * 3)


def test_the_block_that_makes_the_class_visible_gets_the_gain(checks):
    model = nn.Sequential(Identity(), Square(), Identity(), nn.Flatten(), nn.Linear(192, 2))
    train, validation = checks.take(torch.arange(300)), checks.take(torch.arange(300, 400))
    probes = probe_blocks(model, ["0", "1", "2"], train=train, validation=validation)
    assert list(probes) == ["0", "1", "2"]
    assert probes["1"].before < 0.65
    assert probes["1"].after == 1.0
    assert probes["1"].before == probes["0"].after
    assert abs(probes["0"].gain) < 0.1
    scores = block_scores(probes)
    assert scores["2"] == 0
    assert max(scores, key=scores.__getitem__) == "1"


def test_a_layer_that_adds_channels_is_judged_with_those_it_reads(checks):
    model = nn.Sequential(Dense(), nn.Flatten(), nn.Linear(64, 2))
    probes = probe_blocks(model, ["0"], train=checks, validation=checks)
    assert probes["0"].after == 1.0
    assert probes["0"].before < 0.7


def test_every_block_of_a_resnet_in_one_pass(coloured_images):
    images = coloured_images(30, 16)
    model = build_model("resnet20", num_classes=3).train()
    calls = []
    model.register_forward_hook(lambda *_: calls.append(1))
    names = [f"layer{stage}.{block}" for stage in (1, 2, 3) for block in range(3)]
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    probes = probe_blocks(model, names, train=images, validation=images, resolution_px=8)
    assert list(probes) == names
    assert len(calls) == 2
    assert model.training
    assert all(torch.equal(state[name], tensor) for name, tensor in model.state_dict().items())
    assert not any(module._forward_hooks for module in model.layer1)
    for earlier, later in itertools.pairwise(names):
        assert probes[later].before == probes[earlier].after


@pytest.mark.parametrize(
    ("blocks", "message"),
    [([], "no block was named"), (["nowhere"], "no module 'nowhere'"), (["1"], "never run")],
)
def test_blocks_that_cannot_be_probed(checks, blocks, message):
    class Lazy(nn.Sequential):
        def forward(self, x):
            return self[0](x)

    model = Lazy(Identity(), Identity())
    with pytest.raises(InputError, match=message):
        probe_blocks(model, blocks, train=checks, validation=checks)
