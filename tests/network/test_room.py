import pytest
from torch import nn

from triprune import build_model, profile
from triprune.network.room import room


def test_each_axis_of_a_residual_network():
    model = build_model("resnet20")
    measured = profile(model, 32)
    space = room(model, measured)
    depth, width, resolution = space.axes
    assert len(space.blocks) == 7
    assert depth.keep == pytest.approx(2 / 9)
    assert depth.macs_kept == pytest.approx(1 - 7 * 4_718_592 / measured.macs)
    assert width.macs_kept == pytest.approx(0.25 + 0.25 * (442_368 + 640) / measured.macs)
    assert resolution.macs_kept == pytest.approx(0.25, abs=0.001)
    assert model.training


def test_a_network_of_dense_layers_keeps_one():
    model = build_model("densenet40")
    depth = room(model, profile(model, 16)).axes[0]
    assert depth.keep == pytest.approx(1 / 36)
    assert 0.15 < depth.macs_kept < 0.25


def test_a_depthwise_layer_shrinks_with_the_width_alone():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 1), nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.Conv2d(8, 8, 1),
        nn.Flatten(), nn.Linear(8 * 16, 5),
    )  # fmt: skip
    measured = profile(model, 4)
    space = room(model, measured)
    macs = [layer.macs for layer in measured.layers]
    expected = (macs[0] + macs[1] + macs[3]) / 2 + macs[2] / 4
    assert space.axes[1].macs_kept == pytest.approx(expected / measured.macs)
    assert (space.axes[0].keep, space.axes[0].note) == (1.0, "no block can go")
    assert space.axes[2].note == "the model does not run at 2×2 px"


def test_a_network_without_macs_has_no_room():
    model = nn.Sequential(nn.ReLU(), nn.Flatten())
    assert [axis.macs_kept for axis in room(model, profile(model, 4)).axes] == [1.0, 1.0, 1.0]
