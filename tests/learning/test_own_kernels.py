import copy
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional

from triprune.learning import own_kernels
from triprune.learning.job import Job
from triprune.learning.models import build_model
from triprune.learning.own_kernels import OwnConv, OwnNorm, has_own_kernels, with_own_kernels
from triprune.learning.recipe import Recipe
from triprune.learning.training import train

IMAGES = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def norms_of(model):
    return [each for each in model.modules() if isinstance(each, OwnNorm)]


class Joint(nn.Module):
    """One batch norm, followed by whatever a test says."""

    def __init__(self, follow):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.relu = nn.ReLU(inplace=True)
        self.follow = follow

    def forward(self, x):
        return self.follow(self, self.conv(x)).mean((2, 3))


def summed(net, x):
    y = net.norm(x)
    y += x
    return net.relu(y)


FOLLOWERS = {
    "nothing": (lambda net, x: net.norm(x), (1, False)),
    "relu": (lambda net, x: functional.relu(net.norm(x)), (1, True)),
    "method": (lambda net, x: net.norm(x).relu(), (1, True)),
    "sum": (lambda net, x: x + net.norm(x), (2, False)),
    "sum and relu": (summed, (2, True)),
    "torch.add": (lambda net, x: torch.relu(torch.add(net.norm(x), x)), (2, True)),
    "other activation": (lambda net, x: functional.silu(net.norm(x)), (1, False)),
    "scaled sum": (lambda net, x: torch.add(net.norm(x), x, alpha=2), (1, False)),
    "sum with a number": (lambda net, x: net.norm(x) + 1, (1, False)),
    "twice itself": (lambda net, x: (y := net.norm(x)) + y, (1, False)),
    "two users": (lambda net, x: functional.relu(y := net.norm(x)) + y, (1, False)),
}


@pytest.mark.parametrize("follow", FOLLOWERS)
def test_a_norm_is_joined_to_what_only_it_feeds(follow):
    function, (arguments, rectified) = FOLLOWERS[follow]
    model = Joint(function)
    own = with_own_kernels(model, IMAGES)
    (norm,) = norms_of(own)
    (call,) = [n for n in own.graph.nodes if n.target == "norm_own"]
    assert (len(call.args), norm.rectified) == (arguments, rectified)
    other = copy.deepcopy(model)
    assert torch.equal(own(IMAGES), other(IMAGES))
    assert torch.equal(model.norm.running_mean, other.norm.running_mean)


@pytest.mark.parametrize(
    "name", ["resnet20", "densenet40", "timm:resnet18", "torchvision:resnet18"]
)
def test_whole_networks_compute_the_same(name):
    model = build_model(name).train()
    own = with_own_kernels(model, IMAGES)
    assert len(norms_of(own)) == sum(isinstance(m, nn.BatchNorm2d) for m in model.modules())
    assert own.training
    other = copy.deepcopy(model)
    assert torch.equal(own(IMAGES), other(IMAGES))
    ours = torch.autograd.grad(own(IMAGES).square().sum(), list(model.parameters()))
    theirs = torch.autograd.grad(other(IMAGES).square().sum(), list(other.parameters()))
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_the_model_stays_as_it_is():
    model = build_model("resnet20").eval()
    names = list(model.state_dict())
    with_own_kernels(model, IMAGES)
    assert list(model.state_dict()) == names
    assert not any(module.training for module in model.modules())
    assert not norms_of(model)


class Forked(nn.Module):
    """What it does depends on what it sees."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(3)

    def forward(self, x):
        return self.norm(x) if x.mean() > 0 else x


class Fickle(nn.Module):
    """What it does depends on the mode: a graph holds only one of the two."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(3)

    def forward(self, x):
        return self.norm(x).mean((2, 3)) * (2 if self.training else 1)


@pytest.mark.parametrize("model", [Forked(), Fickle(), nn.Conv2d(3, 4, 3)])
def test_what_cannot_be_followed_stays_whole(model):
    assert with_own_kernels(model, IMAGES) is model


def test_a_hook_on_a_block_is_not_lost():
    model = build_model("resnet20")
    handle = model.get_submodule("layer1.0").register_forward_hook(lambda *_: None)
    assert with_own_kernels(model, IMAGES) is model
    handle.remove()
    assert with_own_kernels(model, IMAGES) is not model


@pytest.mark.parametrize(
    "setting", [{"affine": False}, {"track_running_stats": False}, {"momentum": None}]
)
def test_unusual_norms_are_left_to_torch(setting):
    model = nn.Sequential(nn.BatchNorm2d(3, **setting), nn.BatchNorm2d(3))
    assert len(norms_of(with_own_kernels(model, IMAGES))) == 1


def test_by_the_kernels_a_norm_learns_the_same():
    norm = nn.BatchNorm2d(3)
    other = copy.deepcopy(norm)
    x = IMAGES[:2, :, :6, :6].contiguous(memory_format=torch.channels_last)
    if torch.cuda.is_available():
        norm, other, x = norm.cuda(), other.cuda(), x.cuda()
    y = OwnNorm(norm, rectified=True).by_kernels(x, x)
    torch.testing.assert_close(y, functional.relu(other(x) + x), rtol=1e-4, atol=1e-4)
    for mine, theirs in zip(norm.buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
    norm.num_batches_tracked = None  # as while a step is captured
    OwnNorm(norm, rectified=False).by_kernels(x, None)


def test_a_cpu_has_none_of_them(monkeypatch):
    assert not has_own_kernels(torch.device("cpu"))
    monkeypatch.setattr(own_kernels, "find_spec", lambda name: None)
    assert not has_own_kernels(torch.device("cuda"))


def test_a_convolution_on_a_cpu_is_torch_s():
    conv = nn.Conv2d(3, 16, 3, padding=1, bias=False)
    assert torch.equal(OwnConv(conv)(IMAGES), conv(IMAGES))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("precision", ["fp16", "tf32"])
def test_a_training_by_own_kernels_follows_torch_s(coloured_images, precision):
    images = coloured_images(count=512, size=16)
    recipe = Recipe(epochs=2, batch_size=64, rate=0.01, precision=precision)
    losses = {}
    for kernels in ("own", "torch"):
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            model = build_model("resnet20", num_classes=3)
        job = Job(model, images, replace(recipe, kernels=kernels), device="cuda")
        result = train(job)
        assert result.engine == "cuda graph"
        losses[kernels] = torch.tensor([each.loss for each in result.history])
    torch.testing.assert_close(losses["own"], losses["torch"], rtol=0.02, atol=0.01)
