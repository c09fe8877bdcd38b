"""Which channels belong together, on networks small enough to tell by hand."""

from __future__ import annotations

import pytest
import torch
import torch_pruning
from torch import nn
from torch.nn import functional

import triprune
from triprune.network.channels.coupling import Coupling, couple
from triprune.network.channels.following import follow_channels

X = torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def coupled(model: nn.Module, x: torch.Tensor = X) -> Coupling:
    return couple(follow_channels(model.eval(), x), model)


def free_groups(model: nn.Module, x: torch.Tensor = X) -> list[tuple[tuple[str, ...], int]]:
    """Return the layers and the size of every group that may be cut."""
    coupling = coupled(model, x)
    pinned = {int(g) for g in coupling.group_of[coupling.pinned]}
    return [(g.written_by, g.size) for n, g in enumerate(coupling.groups) if n not in pinned]


class Net(nn.Module):
    """Layers, and a forward given as a function of them."""

    def __init__(self, run, **layers):
        super().__init__()
        self.run = run
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, x):
        return self.run(self, x)


def conv(inputs, outputs, **options):
    return nn.Conv2d(inputs, outputs, 3, padding=1, **options)


def test_image_and_classes_are_never_cut():
    assert free_groups(nn.Sequential(conv(3, 8), conv(8, 5))) == [(("0",), 8)]


def test_addition_couples():
    net = Net(lambda m, x: m.c(m.a(x) + m.b(x)), a=conv(3, 8), b=conv(3, 8), c=conv(8, 2))
    assert free_groups(net) == [(("a", "b"), 8)]


def test_concatenation_does_not_couple_and_keeps_offsets():
    net = Net(
        lambda m, x: m.c(torch.cat([m.a(x), m.b(x)], 1)), a=conv(3, 4), b=conv(3, 6), c=conv(10, 2)
    )
    coupling = coupled(net)
    assert free_groups(net) == [(("a",), 4), (("b",), 6)]
    reads = {
        g.written_by: m.at.tolist()
        for g in coupling.groups
        for m in g.members
        if m.tensor == "c.weight" and m.dim == 1
    }
    assert reads == {("a",): [0, 1, 2, 3], ("b",): [4, 5, 6, 7, 8, 9]}


def test_flatten_repeats_channels():
    net = nn.Sequential(conv(3, 4), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 2))
    (group,) = (g for g in coupled(net).groups if g.written_by == ("0",))
    member = next(m for m in group.members if m.tensor == "3.weight")
    assert member.channel.tolist() == [0] * 4 + [1] * 4 + [2] * 4 + [3] * 4


def test_depthwise_and_gate_follow_their_input():
    def gated(m, x):
        y = m.dw(m.a(x))
        return m.out(y * m.up(m.down(y.mean((2, 3), keepdim=True))).sigmoid())

    net = Net(
        gated,
        a=conv(3, 8), dw=conv(8, 8, groups=8), down=conv(8, 2), up=conv(2, 8), out=conv(8, 5),
    )  # fmt: skip
    assert free_groups(net) == [(("a", "dw", "up"), 8), (("down",), 2)]


def test_depthwise_multiplier_repeats_its_input():
    net = nn.Sequential(conv(3, 4), conv(4, 8, groups=4), conv(8, 2))
    assert free_groups(net) == [(("0", "1"), 4)]
    cut, _ = triprune.prune(net, triprune.Scale(width=0.5), example_input=X)
    assert (cut[1].groups, cut[1].in_channels, cut[1].out_channels) == (2, 2, 4)


def test_grouped_convolution_makes_rows():
    coupling = coupled(nn.Sequential(conv(3, 8), conv(8, 12, groups=4), conv(12, 2)))
    (bundle,) = coupling.bundles
    assert bundle.rows == 4
    assert [row.tolist() for row in bundle.row] == [
        [0, 0, 1, 1, 2, 2, 3, 3],
        [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3],
    ]


def test_group_norm_drops_whole_groups():
    net = nn.Sequential(conv(3, 32), nn.GroupNorm(8, 32), conv(32, 2))
    cut, plan = triprune.prune(net, triprune.Scale(width=0.5), example_input=X)
    assert (cut[1].num_groups, cut[1].num_channels) == (4, 16)
    kept = plan.cuts.layers["0"].out
    assert {channel // 4 for channel in kept} == {kept[n] // 4 for n in range(0, 16, 4)}


def test_a_chunk_keeps_its_parts_equal():
    net = Net(lambda m, x: m.b(torch.mul(*m.a(x).chunk(2, 1))), a=conv(3, 12), b=conv(6, 2))
    cut, _ = triprune.prune(net, triprune.Scale(width=0.5), example_input=X)
    assert (cut.a.out_channels, cut.b.in_channels) == (6, 3)


def test_a_split_of_fixed_size_keeps_its_channels():
    net = Net(
        lambda m, x: m.c(m.b(torch.add(*m.a(x).split(6, 1)))),
        a=conv(3, 12), b=conv(6, 8), c=conv(8, 2),
    )  # fmt: skip
    cut, plan = triprune.prune(net, triprune.Scale(width=0.5), example_input=X)
    assert (cut.a.out_channels, cut.b.out_channels) == (12, 4)
    assert any(note.startswith("a: all") for note in plan.notes)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x[:, :4],
        lambda x: functional.pad(x, (0, 0, 0, 0, 2, 2))[:, 2:6],
        lambda x: x.flip(1)[:, :4],
        lambda x: x[:, [0, 2, 4, 6]],
    ],
)
def test_what_no_rule_follows_is_pinned(change):
    net = Net(lambda m, x: m.b(change(m.a(x))), a=conv(3, 8), b=conv(4, 2))
    assert free_groups(net) == []


def test_transposed_convolutions_and_a_skip():
    net = Net(
        lambda m, x: m.head(torch.cat([m.up(m.down(y := m.stem(x))), y], 1)),
        stem=conv(3, 4), down=nn.Conv2d(4, 8, 2, 2), up=nn.ConvTranspose2d(8, 6, 2, 2),
        head=conv(10, 2),
    )  # fmt: skip
    assert sorted(free_groups(net)) == [(("down",), 8), (("stem",), 4), (("up",), 6)]
    cut, _ = triprune.prune(net, triprune.Scale(width=0.5), example_input=X)
    assert cut.up.weight.shape == (4, 3, 2, 2)
    assert cut.head.in_channels == 5


def test_bare_parameters_and_buffers_follow():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = conv(3, 8), conv(8, 2)
            self.scale = nn.Parameter(torch.randn(8, 1, 1))
            self.register_buffer("shift", torch.randn(1, 8, 1, 1))

        def forward(self, x):
            return self.b(self.a(x) * self.scale + self.shift)

    cut, plan = triprune.prune(Scaled(), triprune.Scale(width=0.5), example_input=X)
    assert cut.scale.shape == (4, 1, 1)
    assert cut.shift.shape == (1, 4, 1, 1)
    assert plan.cuts.tensors.keys() == {"scale", "shift"}


def test_heads_that_only_train_are_cut_too():
    class Auxiliary(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.aux = conv(3, 8), conv(8, 2), conv(8, 2)

        def forward(self, x):
            x = self.a(x)
            return (self.b(x), self.aux(x)) if self.training else self.b(x)

    cut, _ = triprune.prune(Auxiliary(), triprune.Scale(width=0.5), example_input=X)
    assert cut.aux.in_channels == 4
    assert len(cut.train()(X)) == 2


def test_a_module_without_parameters_that_shuffles_is_run_at_full_width():
    net = nn.Sequential(
        conv(3, 8), nn.ChannelShuffle(2), conv(8, 8), nn.LocalResponseNorm(3), conv(8, 2)
    )
    cut, plan = triprune.prune(net, triprune.Scale(width=0.5), example_input=X)
    assert plan.cuts.placed.keys() == {"1", "3"}
    assert [cut[k].in_channels for k in (2, 4)] == [4, 4]


@pytest.mark.parametrize("name", ["resnet20-b", "vgg16-bn", "torchvision:mobilenet_v2"])
def test_a_second_opinion_agrees(name):
    model = triprune.build_model(name).eval()
    x = torch.randn(1, 3, 32, 32)
    ours = {frozenset(group.written_by) for group in coupled(model, x).groups}
    graph = torch_pruning.DependencyGraph().build_dependency(model.requires_grad_(), x)
    names = {module: name for name, module in model.named_modules()}
    theirs = set()
    for group in graph.get_all_groups(ignored_layers=[]):
        layers = {
            names[dep.target.module]
            for dep, _ in group
            if graph.is_out_channel_pruning_fn(dep.handler)
            and isinstance(dep.target.module, (nn.Conv2d, nn.Linear))
        }
        theirs.add(frozenset(layers))
    assert ours == theirs
