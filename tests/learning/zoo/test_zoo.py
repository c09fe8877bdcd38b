"""Known answers: the published sizes of the networks, and what each shortcut does."""

import pytest
import torch
from torch import nn

from triprune.errors import InputError
from triprune.learning.zoo.densenet import CifarDenseNet
from triprune.learning.zoo.resnet import CifarResNet, PaddedShortcut
from triprune.learning.zoo.vgg import CifarVgg

# Parameters in millions: He et al. 2016 (Table 6), Huang et al. 2017 (Table 2).
PUBLISHED = [
    (lambda: CifarResNet(20), 0.27),
    (lambda: CifarResNet(32), 0.46),
    (lambda: CifarResNet(44), 0.66),
    (lambda: CifarResNet(56), 0.85),
    (lambda: CifarResNet(110), 1.7),
    (lambda: CifarDenseNet(40), 1.0),
    (lambda: CifarDenseNet(100), 7.0),
    (lambda: CifarDenseNet(100, bottleneck=True), 0.8),
]


@pytest.mark.parametrize(("build", "millions"), PUBLISHED)
def test_sizes_are_the_published_ones(build, millions):
    params = sum(p.numel() for p in build().parameters())
    assert params / 1e6 == pytest.approx(millions, abs=0.05 if millions >= 1 else 0.035)


def test_vgg_has_thirteen_convolutions_each_with_a_norm():
    model = CifarVgg()
    kinds = [type(m) for m in model.modules()]
    assert kinds.count(nn.Conv2d) == kinds.count(nn.BatchNorm2d) == 13
    assert model(torch.zeros(2, 3, 16, 16)).shape == (2, 10)


def test_padded_shortcut_shifts_channels_and_skips_pixels():
    x = torch.arange(2 * 2 * 3 * 3, dtype=torch.float32).reshape(2, 2, 3, 3)
    y = PaddedShortcut(stride=2, pad=1)(x)
    assert y.shape == (2, 4, 2, 2)
    assert torch.equal(y[:, 1:3], x[:, :, ::2, ::2])
    assert y[:, 0].abs().sum() == 0
    assert y[:, 3].abs().sum() == 0


def test_shortcuts_differ_only_where_the_shape_changes():
    a, b = CifarResNet(20, shortcut="A"), CifarResNet(20, shortcut="B")
    extra = set(b.state_dict()) - set(a.state_dict())
    assert {name.split(".shortcut")[0] for name in extra} == {"layer2.0", "layer3.0"}
    assert b.state_dict()["layer2.0.shortcut.0.weight"].shape == (32, 16, 1, 1)


def test_a_dense_layer_appends_its_channels_and_leaves_its_input_alone():
    layer = CifarDenseNet(40).stages.block1[0]
    x = torch.randn(1, 16, 8, 8)
    y = layer(x)
    assert y.shape == (1, 28, 8, 8)
    assert torch.equal(y[:, :16], x)


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: CifarResNet(21), "6n \\+ 2"),
        (lambda: CifarDenseNet(41), "3n \\+ 4"),
        (lambda: CifarDenseNet(43, bottleneck=True), "6n \\+ 4"),
    ],
)
def test_impossible_depths_are_refused(build, said):
    with pytest.raises(InputError, match=said):
        build()
