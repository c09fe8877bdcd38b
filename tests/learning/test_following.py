"""What a graph cannot hold is found out, and the model is left as it was."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional

from triprune.learning.following import NotFollowedError, graph_of, require_same
from triprune.learning.precision import overlapping_norms

IMAGES = torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(0)) - 0.3


class Net(nn.Module):
    """A convolution and a norm; what happens to their output is each test's matter."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 3)

    def between(self, y):
        return y

    def forward(self, x):
        return self.head(self.between(self.norm(self.conv(x))).mean((2, 3)))


class Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, slope):
        return slope


class StraightThrough(Net):
    def between(self, y):
        return Rounded.apply(y)


class Frozen(Net):
    def forward(self, x):
        with torch.no_grad():
            y = self.norm(self.conv(x))
        return self.head(y.mean((2, 3)))


class Deciding(Net):
    def between(self, y):
        return y if y.mean() > 0 else -y


class Remembering(Net):
    def between(self, y):
        self.last = y
        return y


class Counting(Net):
    calls = 0

    def between(self, y):
        self.calls += 1
        return y


class Precise(Net):
    def between(self, y):
        with torch.autocast("cpu", enabled=False):
            return y.float()


class Borrowing(Net):
    def between(self, y):
        return y * self.conv.weight.mean()


class Demanding(Net):
    def between(self, y):
        return y.view(7, -1, 4, 6, 6).mean(1)


class Listing(Net):
    def forward(self, x):
        return [super().forward(x)]


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (StraightThrough, "its graph gives other gradients"),
        (Frozen, "its graph lets other parameters learn"),
        (Deciding, r"its forward cannot be traced \(symbolically traced"),
        (Remembering, "its forward changes its attributes"),
        (Counting, "its forward changes its attributes"),
        (Precise, "changes the precision of a part of itself"),
        (Borrowing, r"conv\.weight is used outside of its layer"),
        (Demanding, r"it fails on 4 images \(shape"),
        (Listing, "its answer is no tensor"),
    ],
)
def test_what_a_graph_cannot_hold_is_refused(kind, reason):
    model = kind().train()
    before, attributes = copy.deepcopy(model.state_dict()), list(vars(model))
    random = torch.get_rng_state()
    with pytest.raises(NotFollowedError, match=reason):
        require_same(model, graph_of(model), IMAGES)
    after = model.state_dict()
    assert all(torch.equal(after[name], before[name]) for name in before)
    assert [name for name in vars(model) if name not in (*attributes, "last", "calls")] == []
    assert not any(isinstance(value, torch.fx.Proxy) for value in vars(model).values())
    assert torch.equal(torch.get_rng_state(), random)
    assert torch.autocast.__enter__.__name__ == "__enter__"


class Dropping(Net):
    def between(self, y):
        return functional.dropout(y, 0.5, self.training)


@pytest.mark.parametrize("training", [False, True])
def test_a_graph_is_of_the_mode_that_the_model_is_in(training):
    model = Dropping().train(training)
    graph = graph_of(model)
    require_same(model, graph, IMAGES)
    dropped = [node for node in graph.graph.nodes if node.target is functional.dropout]
    assert dropped[0].kwargs["training"] is training
    with pytest.raises(NotFollowedError, match="other answers"):
        require_same(model.train(not training), graph, IMAGES)


def test_constants_of_a_graph_are_not_left_in_the_model():
    class Shifted(Net):
        def between(self, y):
            return y + torch.tensor([1.0])

    model = Shifted().train()
    names = list(vars(model)), list(model.state_dict())
    require_same(model, graph_of(model), IMAGES)
    assert (list(vars(model)), list(model.state_dict())) == names


@pytest.mark.parametrize("place", ["", "conv", "norm"])
@pytest.mark.parametrize(
    "kind",
    ["register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook"],
)
def test_a_hook_is_not_lost(place, kind):
    model = Net()
    handle = getattr(model.get_submodule(place), kind)(lambda *_: None)
    with pytest.raises(NotFollowedError, match=f"^{place or 'the model'} has a hook"):
        graph_of(model)
    handle.remove()
    graph_of(model)


def test_hooks_that_a_graph_calls_and_our_own_are_no_obstacle():
    model = Net()
    model.head.register_forward_hook(lambda *_: None)
    with overlapping_norms(model, torch.device("cuda")):
        graph_of(model)
    assert not model.norm._forward_hooks
