import copy
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional

from triprune.learning import own_kernels
from triprune.learning.job import Job
from triprune.learning.low_copies import LowCopies
from triprune.learning.models import build_model
from triprune.learning.own_kernels import (
    OwnConv,
    OwnNorm,
    fast_forward,
    trouble,
    wanted,
    with_own_kernels,
)
from triprune.learning.recipe import Recipe
from triprune.learning.training import train
from triprune.learning.zoo.resnet import CifarResNet

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


@pytest.fixture(autouse=True)
def untried():
    """Let every test try the kernels anew."""
    own_kernels.trouble.cache_clear()
    yield
    own_kernels.trouble.cache_clear()


CUDA, CPU = torch.device("cuda"), torch.device("cpu")
HERE = CUDA if torch.cuda.is_available() else CPU


@pytest.mark.parametrize(
    ("settings", "device", "asked"),
    [
        ({"precision": "fp16"}, CUDA, True),
        ({"precision": "bf16"}, CUDA, True),
        ({"precision": "bf16"}, CPU, False),
        ({"precision": "tf32"}, CUDA, False),
        ({"precision": "fp32"}, CUDA, False),
        ({"precision": "fp16", "kernels": "torch"}, CUDA, False),
    ],
)
def test_they_are_for_16_bits_on_a_gpu(settings, device, asked):
    assert wanted(Recipe(**settings), device) is asked


def test_kernels_are_tried_before_they_are_trusted():
    assert trouble(HERE) is None


def test_kernels_that_err_are_not_trusted(monkeypatch):
    by_kernels = OwnConv.by_kernels
    monkeypatch.setattr(OwnConv, "by_kernels", lambda self, x: 1.1 * by_kernels(self, x))
    assert trouble(HERE) == "our own give other numbers here"


def test_kernels_that_fail_are_told_and_left(monkeypatch, coloured_images, tiny_net):
    def fail(self, x):
        raise RuntimeError("Failed to find C compiler.\nPlease specify one")

    monkeypatch.setattr(OwnConv, "by_kernels", fail)
    assert trouble(HERE) == "our own do not run here (Failed to find C compiler.)"
    monkeypatch.setattr("triprune.learning.training.wanted", lambda *_: True)
    recipe = Recipe(epochs=1, batch_size=32, precision="fp32")
    result = train(Job(tiny_net(), coloured_images(), recipe, device=HERE))
    assert result.notes == (
        "torch's kernels are used: our own do not run here (Failed to find C compiler.)",
    )


def test_without_triton_there_are_none(monkeypatch):
    monkeypatch.setattr(own_kernels, "find_spec", lambda name: None)
    assert trouble(CUDA) == "Triton is not installed"


def test_the_fast_way_goes_by_own_kernels_where_they_are_wanted(monkeypatch):
    model = build_model("resnet20").train()
    recipe = Recipe(precision="bf16")
    assert not norms_of(fast_forward(model, recipe, IMAGES)._model)
    monkeypatch.setattr(own_kernels, "wanted", lambda *_: True)
    assert norms_of(fast_forward(model, recipe, IMAGES)._model)
    monkeypatch.setattr(own_kernels, "trouble", lambda _: "none are here")
    assert not norms_of(fast_forward(model, recipe, IMAGES)._model)


def test_a_convolution_on_a_cpu_is_torch_s():
    conv = nn.Conv2d(3, 16, 3, padding=1, bias=False)
    assert torch.equal(OwnConv(conv)(IMAGES), conv(IMAGES))


def test_gradients_by_own_kernels_are_torch_s(monkeypatch):
    """The whole way, in the interpreter where there is no GPU: graph, copies and kernels."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        exact = CifarResNet(8).to(HERE).to(memory_format=torch.channels_last).train()
    images = IMAGES[:, :, :8, :8].to(HERE).contiguous(memory_format=torch.channels_last)
    torchs, ours = copy.deepcopy(exact), copy.deepcopy(exact)
    true = slopes_of(exact, LowCopies(exact, None), images)
    rounded = slopes_of(torchs, LowCopies(torchs, torch.float16), images)
    counted = {"conv": 0, "norm": 0}
    for kind, name in ((OwnConv, "conv"), (OwnNorm, "norm")):
        monkeypatch.setattr(kind, "by_kernels", counting(kind.by_kernels, counted, name))
    monkeypatch.setattr(own_kernels, "_on_gpu", lambda x: True)
    mine = slopes_of(ours, LowCopies(with_own_kernels(ours, images), torch.float16), images)
    assert counted == {"conv": 4, "norm": 7}  # the first convolution has three inputs, two stride
    # Rounding may open or close a ReLU, and that changes every gradient before it.
    assert error(mine, true) < 3 * error(rounded, true) + 0.01
    for here, right in zip(ours.buffers(), exact.buffers(), strict=True):
        torch.testing.assert_close(here, right, rtol=0.01, atol=0.001)


def error(found, true):
    """Return the mean over all tensors of how far they are off, relative to their size."""
    pairs = zip(found, true, strict=True)
    return float(torch.stack([(a - b).norm() / b.norm() for a, b in pairs]).mean())


def slopes_of(model, forward, images):
    low = any(each.dtype == torch.float16 for each in forward.stand_ins(list(model.parameters())))
    with torch.autocast(HERE.type, dtype=torch.float16, cache_enabled=False, enabled=low):
        loss = forward(images).float().square().sum()
    found = torch.autograd.grad(loss, forward.stand_ins(list(model.parameters())))
    return [each.float() for each in found]


def counting(function, counted, name):
    def count(*arguments):
        counted[name] += 1
        return function(*arguments)

    return count


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("precision", ["fp16", "bf16"])
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
        assert result.notes == ()
        losses[kernels] = torch.tensor([each.loss for each in result.history])
    torch.testing.assert_close(losses["own"], losses["torch"], rtol=0.02, atol=0.01)
