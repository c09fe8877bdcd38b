"""What a graph cannot hold is found out, and the model is left as it was."""

import copy
import random
from types import MethodType

import pytest
import torch
from torch import fx, nn
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
        self.pool = nn.AvgPool2d(2)
        self.head = nn.Linear(4, 3)

    def between(self, y):
        return y

    def forward(self, x):
        return self.head(self.pool(self.between(self.norm(self.conv(x)))).mean((2, 3)))


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


class Averaging(Net):
    """Keeps a moving mean in the usual way: the decay touches no input."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.ones(4))

    def between(self, y):
        self.mean.mul_(0.9).add_(0.1 * y.detach().mean((0, 2, 3)))
        return y


class AveragingApart(Averaging):
    def between(self, y):
        with torch.no_grad():
            self.mean.copy_(0.9 * self.mean + 0.1 * y.mean((0, 2, 3)))
        return y


class Replacing(Averaging):
    def between(self, y):
        self.mean = 0.9 * self.mean + 0.1 * y.detach().mean((0, 2, 3))
        return y


class Tossing(Net):
    def between(self, y):
        return y if random.random() > 0.1 else 2 * y


class TossingTensors(Net):
    def between(self, y):
        return y if torch.rand(1).item() > 0.1 else 2 * y


class Noting(Net):
    def __init__(self):
        super().__init__()
        self.seen = []

    def between(self, y):
        self.seen.append(y.detach().mean())
        return y


class GatedBehindZeros(Net):
    """What the gate learns is hidden by a head of zeros."""

    def __init__(self):
        super().__init__()
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def between(self, y):
        with torch.no_grad():
            gate = torch.sigmoid(y)
        return y * gate


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
        (Averaging, "its forward changes a buffer unseen"),
        (AveragingApart, "its graph leaves other buffers"),
        (Replacing, "its forward changes its attributes"),
        (Tossing, "it draws random numbers outside of its graph"),
        (TossingTensors, "it draws random numbers outside of its graph"),
        (Noting, "its forward changes its attributes"),
        (GatedBehindZeros, "its graph gives other gradients"),
        (Demanding, r"it fails on 4 images \(shape"),
        (Listing, "its answer is no tensor"),
    ],
)
def test_what_a_graph_cannot_hold_is_refused(kind, reason):
    model = kind().train()
    before, attributes = copy.deepcopy(model.state_dict()), dict(vars(model))
    states = random.getstate(), torch.get_rng_state()
    with pytest.raises(NotFollowedError, match=reason):
        require_same(model, graph_of(model), IMAGES)
    after = model.state_dict()
    assert all(torch.equal(after[name], before[name]) for name in before)
    assert vars(model).keys() == attributes.keys()
    assert all(value is attributes[name] for name, value in vars(model).items())
    assert getattr(model, "seen", []) == []
    assert not any(buffer.requires_grad for buffer in model.buffers())
    assert random.getstate() == states[0]
    assert torch.equal(torch.get_rng_state(), states[1])
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


@pytest.mark.parametrize("place", ["", "conv", "norm", "pool"])
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


@pytest.mark.parametrize("place", ["", "conv"])
def test_a_forward_that_was_set_on_a_module_is_not_lost(place):
    model = Net()
    module = model.get_submodule(place)
    module.forward = MethodType(lambda self, x: 2 * type(self).forward(self, x), module)
    with pytest.raises(NotFollowedError, match=f"^{place or 'the model'} has a forward of its own"):
        graph_of(model)


def test_unusual_attributes_are_left_as_they_are():
    model = Net().train()
    model.settings = fx.immutable_collections.immutable_dict(a=1)
    model.register_buffer("wide", torch.ones(1, 1).expand(2, 5))
    require_same(model, graph_of(model), IMAGES)
    assert model.settings == {"a": 1}
    assert model.wide.shape == (2, 5)


def test_hooks_that_a_graph_calls_and_our_own_are_no_obstacle():
    model = Net()
    model.head.register_forward_hook(lambda *_: None)
    with overlapping_norms(model, torch.device("cuda")):
        graph_of(model)
    assert not model.norm._forward_hooks
