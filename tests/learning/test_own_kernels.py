import copy
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional

from triprune.learning import own_kernels
from triprune.learning.job import Job
from triprune.learning.low_copies import LowCopies
from triprune.learning.models import build_model
from triprune.learning.own_kernels import fast_forward, trouble, with_own_kernels
from triprune.learning.own_layers import OwnConv, OwnDense, OwnNorm, OwnPool
from triprune.learning.recipe import Recipe
from triprune.learning.training import train
from triprune.learning.zoo.densenet import CifarDenseNet
from triprune.learning.zoo.resnet import CifarResNet

IMAGES = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def norms_of(model):
    return [each for each in model.modules() if isinstance(each, OwnNorm)]


def dense_of(model):
    return [each for each in model.modules() if isinstance(each, OwnDense)]


DENSE = {"densenet40": [12, 12, 12]}


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
    assert [len(each.convs) for each in dense_of(own)] == DENSE.get(name, [])
    assert own.training
    other = copy.deepcopy(model)
    assert torch.equal(own(IMAGES), other(IMAGES))
    ours = torch.autograd.grad(own(IMAGES).square().sum(), list(model.parameters()))
    theirs = torch.autograd.grad(other(IMAGES).square().sum(), list(other.parameters()))
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


class Dense(nn.Module):
    """A dense layer before one that is or is not, as a test says."""

    def __init__(self, follow):
        super().__init__()
        self.norms = nn.ModuleList([nn.BatchNorm2d(3), nn.BatchNorm2d(7)])
        self.convs = nn.ModuleList(
            nn.Conv2d(inputs, 4, 3, padding=1, bias=False) for inputs in (3, 7)
        )
        self.follow = follow

    def layer(self, x, number):
        return torch.cat([x, self.convs[number](self.norms[number](x).relu())], 1)

    def forward(self, x):
        y = self.follow(self, self.layer(x, 0))
        return torch.cat([y, y], 1).mean((2, 3))


def without_relu(net, x):
    return torch.cat([x, net.convs[1](net.norms[1](x))], 1)


def used_elsewhere(net, x):
    y = net.convs[1](net.norms[1](x).relu())
    return torch.cat([x, y], 1).sum(1, keepdim=True) + y


def normed_before(net, x):
    y = net.norms[1](x).relu()
    return torch.cat([x, net.convs[1](y)], 1) + net.norms[1](x).mean()


LAYERS = {
    "another": (lambda net, x: net.layer(x, 1), [2]),
    "another, by name": (
        lambda net, x: torch.cat(tensors=(x, net.convs[1](net.norms[1](x).relu())), dim=1),
        [2],
    ),
    "a second user": (lambda net, x: torch.cat([net.layer(x, 1), x], 1), [1, 1]),
    "no relu": (without_relu, [1]),
    "used elsewhere": (used_elsewhere, [1]),
    "the other way round": (
        lambda net, x: torch.cat([net.convs[1](net.norms[1](x).relu()), x], 1),
        [1],
    ),
    "three of them": (
        lambda net, x: torch.cat([x, net.convs[1](net.norms[1](x).relu()), x], 1),
        [1],
    ),
    "along the rows": (
        lambda net, x: torch.cat([x[:, :4], net.convs[1](net.norms[1](x).relu())], 2),
        [],  # and of what the layer before makes, a part is taken, which may be written to
    ),
    "changed in place": (lambda net, x: net.layer(x, 1).relu_(), []),
    "a norm that is called again": (normed_before, [1]),
}


def test_a_model_s_own_names_stay_its_own():
    model = Dense(lambda net, x: net.cat_own(net.layer(x, 1)))
    model.cat_own = model.cat_1_own = model.norms_1_own = nn.BatchNorm2d(11)
    own = with_own_kernels(model.train(), IMAGES)
    assert [len(each.convs) for each in dense_of(own)] == [2]
    assert torch.equal(own(IMAGES), copy.deepcopy(model)(IMAGES))


@pytest.mark.parametrize("name", LAYERS)
def test_rows_of_dense_layers_are_joined_and_others_are_not(name):
    follow, found = LAYERS[name]
    model = Dense(follow).train()
    own = with_own_kernels(model, IMAGES)
    assert [len(each.convs) for each in dense_of(own)] == found
    other = copy.deepcopy(model)
    assert torch.equal(own(IMAGES), other(IMAGES))
    for mine, theirs in zip(model.buffers(), other.buffers(), strict=True):
        assert torch.equal(mine, theirs)


class Again(nn.Module):
    """Uses a convolution and a norm twice."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3)

    def forward(self, x):
        for _ in range(2):
            x = self.norm(self.conv(x)).relu()
        return x.mean((2, 3))


def test_layers_that_are_used_twice_stay_one():
    model = Again().train()
    other = copy.deepcopy(model)
    forward = LowCopies(with_own_kernels(model, IMAGES), torch.bfloat16)
    for _ in range(3):
        with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
            assert torch.equal(forward(IMAGES), other(IMAGES))
    assert isinstance(model.conv.weight, nn.Parameter)
    assert model.conv.weight.dtype == torch.float32


def test_the_model_stays_as_it_is():
    model = build_model("resnet20").eval()
    names = list(model.state_dict())
    with_own_kernels(model, IMAGES)
    assert list(model.state_dict()) == names
    assert not any(module.training for module in model.modules())
    assert all(int(each) == 0 for name, each in model.named_buffers() if "num_batches" in name)
    assert not norms_of(model)


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


def learned_layers(*channels):
    """Return norms that have seen images, and convolutions behind them, in 16 bits."""
    generator = torch.Generator().manual_seed(1)
    for inputs in channels:
        norm = nn.BatchNorm2d(inputs)
        norm.running_mean.copy_(torch.randn(inputs, generator=generator))
        norm.running_var.copy_(torch.rand(inputs, generator=generator) + 0.5)
        conv = nn.Conv2d(inputs, 12, 3, padding=1, bias=False).half()
        conv = conv.to(HERE).to(memory_format=torch.channels_last)
        yield OwnNorm(norm.to(HERE).eval(), rectified=True), OwnConv(conv)


@torch.no_grad()
def test_in_evaluation_a_norm_and_a_block_answer_the_same():
    x = torch.randn(2, 16, 5, 4, generator=torch.Generator().manual_seed(0)).half().to(HERE)
    x = x.contiguous(memory_format=torch.channels_last)
    layers = list(learned_layers(16, 28, 40))
    buffers = [each for norm, _ in layers for each in norm.norm.buffers()]
    before = [each.clone() for each in buffers]
    own, slow = layers[0][0], OwnDense(layers)
    assert own.usable
    torch.testing.assert_close(own.by_kernels(x, x), own(x, x), rtol=2e-3, atol=2e-3)
    assert slow._suits(x)
    torch.testing.assert_close(slow.by_kernels(x), slow(x), rtol=1e-2, atol=1e-2)
    assert all(map(torch.equal, buffers, before))


def test_a_norm_in_evaluation_that_learns_is_torch_s():
    layers = list(learned_layers(16, 28))
    x = torch.rand(2, 16, 4, 4, device=HERE).half().contiguous(memory_format=torch.channels_last)
    block = OwnDense(layers)
    assert not layers[0][0].usable
    assert not block._suits(x)
    with torch.no_grad():
        assert block._suits(x)
        layers[1][0].norm.train()
        assert not block._suits(x)  # some learn, some do not


@pytest.mark.parametrize("kind", ["norm", "conv"])
def test_what_kernels_return_may_be_changed_in_place(kind):
    x = torch.rand(2, 16, 4, 4, device=HERE).half().contiguous(memory_format=torch.channels_last)
    norm = OwnNorm(nn.BatchNorm2d(16, device=HERE), rectified=False)
    plain = nn.Conv2d(16, 16, 3, padding=1, bias=False, device=HERE).half()
    conv = OwnConv(plain.to(memory_format=torch.channels_last))
    y = norm.by_kernels(x, None) if kind == "norm" else conv.by_kernels(x)
    y = functional.leaky_relu(y, inplace=True)
    owner = norm.norm.weight if kind == "norm" else conv.conv.weight
    (slope,) = torch.autograd.grad(y.float().square().sum(), owner)
    assert bool(slope.any())


@pytest.fixture(autouse=True)
def untried():
    """Let every test try the kernels anew."""
    own_kernels.trouble.cache_clear()
    yield
    own_kernels.trouble.cache_clear()


HERE = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
HALF = torch.float16


@pytest.mark.parametrize(
    "low",
    [
        torch.float16,
        pytest.param(
            torch.bfloat16,
            marks=[
                pytest.mark.gpu,
                pytest.mark.skipif(
                    not torch.cuda.is_available(), reason="the interpreter has no bf16 products"
                ),
            ],
        ),
    ],
)
def test_kernels_are_tried_before_they_are_trusted(low):
    before = torch.get_rng_state()
    assert trouble(HERE, low) is None
    assert torch.equal(torch.get_rng_state(), before)


def test_they_can_be_tried_where_nothing_learns():
    with torch.no_grad(), torch.autocast(HERE.type, dtype=torch.bfloat16):
        assert trouble(HERE, HALF) is None


@pytest.mark.parametrize("kind", [OwnConv, OwnNorm, OwnDense, OwnPool])
def test_kernels_that_err_are_not_trusted(monkeypatch, kind):
    right = kind.by_kernels
    monkeypatch.setattr(kind, "by_kernels", lambda self, *given: 1.1 * right(self, *given))
    assert trouble(HERE, HALF) == "our own give other numbers here"


def test_a_wrong_gradient_of_the_inputs_is_seen(monkeypatch):
    def half(self, x):
        return by_kernels(self, x / 2 + x.detach() / 2)

    by_kernels = OwnConv.by_kernels
    monkeypatch.setattr(OwnConv, "by_kernels", half)
    assert trouble(HERE, HALF) == "our own give other numbers here"


def test_why_kernels_fail_is_told(monkeypatch):
    def fail(self, x):
        raise RuntimeError("Failed to find C compiler.\nPlease specify one")

    monkeypatch.setattr(OwnConv, "by_kernels", fail)
    assert trouble(HERE, HALF) == "our own do not run here (Failed to find C compiler.)"


def test_a_full_gpu_is_no_lasting_trouble(monkeypatch):
    def fail(self, x):
        raise torch.OutOfMemoryError("CUDA out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(OwnConv, "by_kernels", fail)
        with pytest.raises(torch.OutOfMemoryError):
            trouble(HERE, HALF)
    assert trouble(HERE, HALF) is None


def test_without_triton_there_are_none(monkeypatch):
    monkeypatch.setattr(own_kernels, "find_spec", lambda name: None)
    assert trouble(HERE, HALF) == "Triton is not installed"


class GpuInput:
    """Stands for an input on a GPU, where there is none."""

    device = torch.device("cuda", 0)


@pytest.fixture
def as_on_a_gpu(monkeypatch):
    """Let the fast way through a model be chosen as on a GPU, and followed on this machine."""
    follow = with_own_kernels
    monkeypatch.setattr(own_kernels, "trouble", lambda device, low: None)
    monkeypatch.setattr(own_kernels, "with_own_kernels", lambda model, _: follow(model, IMAGES))
    monkeypatch.setattr(own_kernels, "switches", lambda *_, **__: nullcontext())


@pytest.mark.parametrize(
    ("settings", "own"),
    [
        ({"precision": "fp16"}, True),
        ({"precision": "bf16"}, True),
        ({"precision": "tf32"}, False),
        ({"precision": "fp32"}, False),
        ({"precision": "fp16", "kernels": "torch"}, False),
    ],
)
def test_they_are_for_16_bits_on_a_gpu(as_on_a_gpu, settings, own):
    model = build_model("resnet20").train()
    forward, note = fast_forward(model, Recipe(**settings), GpuInput())
    assert (bool(norms_of(forward._model)), note) == (own, None)
    low = {each.dtype for each in forward.stand_ins(list(model.parameters()))}
    assert (len(low) == 2) is own


def test_a_cpu_trains_as_before():
    model = build_model("resnet20").train()
    forward, note = fast_forward(model, Recipe(precision="bf16"), IMAGES)
    assert forward._model is model
    assert note is None
    own = list(model.parameters())
    assert all(a is b for a, b in zip(forward.stand_ins(own), own, strict=True))


def test_why_torch_s_kernels_are_used_is_told(as_on_a_gpu, monkeypatch):
    model = build_model("resnet20").train()
    handle = model.register_forward_hook(lambda *_: None)
    forward, note = fast_forward(model, Recipe(precision="fp16"), GpuInput())
    assert forward._model is model
    assert note == "torch's kernels are used: the model has a hook"
    handle.remove()
    monkeypatch.setattr(own_kernels, "trouble", lambda device, low: "Triton is not installed")
    forward, note = fast_forward(model, Recipe(precision="fp16"), GpuInput())
    assert forward._model is model
    assert note == "torch's kernels are used: Triton is not installed"


def test_a_training_tells_why_torch_s_kernels_are_used(monkeypatch, coloured_images, tiny_net):
    def slow(model, recipe, example):
        return LowCopies(model, None), "torch's kernels are used: so it is"

    monkeypatch.setattr("triprune.learning.training.fast_forward", slow)
    recipe = Recipe(epochs=1, batch_size=32, precision="fp32")
    result = train(Job(tiny_net(), coloured_images(), recipe, device="cpu"))
    assert result.notes == ("torch's kernels are used: so it is",)


@pytest.mark.parametrize(
    "pool",
    [
        nn.AvgPool2d(2, padding=1),
        nn.AvgPool2d(2, stride=1),
        nn.AvgPool2d(3, stride=2),
        nn.AvgPool2d(2, divisor_override=3),
    ],
)
def test_other_pools_are_torch_s(pool):
    own = OwnPool(pool)
    own.active = True
    x = IMAGES[:, :, :9].to(HERE).contiguous(memory_format=torch.channels_last)
    assert torch.equal(own(x), pool(x))


def test_a_convolution_on_a_cpu_is_torch_s():
    conv = nn.Conv2d(3, 16, 3, padding=1, bias=False)
    assert torch.equal(OwnConv(conv)(IMAGES), conv(IMAGES))


@pytest.mark.parametrize(
    ("build", "calls"),
    [
        # the first convolution has three inputs, two stride
        (lambda: CifarResNet(8), {OwnConv: 4, OwnNorm: 7}),
        # the norms that are left are before the transitions and at the end
        (lambda: CifarDenseNet(10), {OwnNorm: 3, OwnDense: 3, OwnPool: 2}),
    ],
    ids=["resnet", "densenet"],
)
def test_gradients_by_own_kernels_are_torch_s(monkeypatch, build, calls):
    """The whole way, in the interpreter where there is no GPU: graph, copies and kernels."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        exact = build().to(HERE).to(memory_format=torch.channels_last).train()
    images = IMAGES[:, :, :16, :16].to(HERE).contiguous(memory_format=torch.channels_last)
    torchs, ours = copy.deepcopy(exact), copy.deepcopy(exact)
    true = slopes_of(exact, LowCopies(exact, None), images)
    rounded = slopes_of(torchs, LowCopies(torchs, torch.float16), images)
    kinds = (OwnConv, OwnNorm, OwnDense, OwnPool)
    counted = dict.fromkeys(kinds, 0)
    for kind in kinds:
        monkeypatch.setattr(kind, "by_kernels", counting(kind.by_kernels, counted, kind))
    own = with_own_kernels(ours, images)
    for each in own.modules():
        if isinstance(each, kinds):
            each.active = True
    mine = slopes_of(ours, LowCopies(own, torch.float16), images)
    assert {kind: count for kind, count in counted.items() if count} == calls
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
def test_a_training_by_own_kernels_follows_torch_s(monkeypatch, coloured_images, precision):
    images = coloured_images(count=512, size=16)
    recipe = Recipe(epochs=2, batch_size=64, rate=0.01, precision=precision)
    losses, counted = {}, {"conv": 0, "norm": 0}
    for kind, name in ((OwnConv, "conv"), (OwnNorm, "norm")):
        monkeypatch.setattr(kind, "by_kernels", counting(kind.by_kernels, counted, name))
    for kernels in ("torch", "own"):
        assert counted["conv"] == counted["norm"] == 0
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            model = build_model("resnet20", num_classes=3)
        job = Job(model, images, replace(recipe, kernels=kernels), device="cuda")
        result = train(job)
        assert result.engine == "cuda graph"
        assert result.notes == ()
        losses[kernels] = torch.tensor([each.loss for each in result.history])
    assert min(counted.values()) > 0
    torch.testing.assert_close(losses["own"], losses["torch"], rtol=0.02, atol=0.01)
