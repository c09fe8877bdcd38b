"""How many channels stay, and which."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import triprune
from triprune.network.channels.coupling import ChannelGroup
from triprune.network.channels.importance import scoring
from triprune.network.width import kept_count, kept_counts


@pytest.mark.parametrize(
    ("size", "keep", "round_to", "kept"),
    [
        (16, 0.5, 1, 8),
        (16, 0.7, 1, 11),
        (58, 0.75, 1, 44),
        (3, 0.01, 1, 1),
        (64, 0.7, 8, 48),
        (64, 0.68, 8, 40),
        (64, 0.01, 8, 8),
        (12, 0.9, 8, 8),
        (4, 0.5, 8, 4),
        (20, 1.0, 8, 20),
    ],
)
def test_kept_count(size, keep, round_to, kept):
    assert kept_count(size, keep, round_to) == kept


@given(st.integers(1, 4096), st.floats(0.001, 1.0), st.sampled_from([1, 2, 4, 8, 16, 32]))
def test_kept_count_is_the_nearest_multiple_within_the_layer(size, keep, round_to):
    kept = kept_count(size, keep, round_to)
    assert 1 <= kept <= size
    if round_to == 1:
        assert abs(kept - keep * size) <= 0.5 + 1e-9 or kept == 1
    elif kept < size:
        assert kept % round_to == 0
        assert abs(kept - keep * size) <= round_to / 2 + 1e-9 or kept == round_to


def test_a_layer_of_several_groups_rounds_once():
    first = ChannelGroup(("a", "b", "c"), 16, ())
    second = ChannelGroup(("b", "c"), 16, ())
    third = ChannelGroup(("c",), 32, ())
    assert kept_counts([third, first, second], 0.7, 1) == [23, 11, 11]  # 11, 22, 45


def two_layers() -> nn.Module:
    net = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.Conv2d(4, 2, 1))
    net[0].weight.data = (
        torch.tensor([3.0, 1.0, 4.0, 2.0])[:, None, None, None].expand(4, 3, 1, 1).clone()
    )
    net[1].weight.data = torch.tensor([0.1, -0.9, 0.2, 0.5])
    return net


def kept_by(net: nn.Module, importance) -> tuple[int, ...]:
    x = torch.zeros(1, 3, 4, 4)
    plan = triprune.prune(net, triprune.Scale(width=0.5), example_input=x, importance=importance)[1]
    return plan.cuts.layers["0"].out


@pytest.mark.parametrize(
    ("importance", "kept"),
    [("bn_scale", (1, 3)), ("l1", (0, 2)), ("l2", (0, 2)), ("fpgm", (1, 2))],
)
def test_each_score_keeps_what_it_should(importance, kept):
    assert kept_by(two_layers(), importance) == kept


def test_taylor_weighs_by_the_gradient():
    net = two_layers()
    net[0].weight.grad = torch.tensor([0.0, 9.0, 0.1, 5.0])[:, None, None, None].expand(4, 3, 1, 1)
    net[2].weight.grad = torch.zeros(2, 4, 1, 1)
    assert kept_by(net, "taylor") == (1, 3)


def test_a_function_of_a_group_is_a_score():
    assert kept_by(two_layers(), lambda group: -np.arange(group.size)) == (0, 1)


def test_without_batch_norm_the_filters_count():
    net = two_layers()
    net[1] = nn.Identity()
    assert kept_by(net, "bn_scale") == (0, 2)


def test_random_is_the_same_every_time():
    group = ChannelGroup(("layer",), 64, ())
    score = scoring(nn.Identity(), "random")
    assert (score(group) == score(group)).all()
    assert len(set(score(group))) == 64
