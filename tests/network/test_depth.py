"""Removing blocks: exact, replayable by name, and harmless to everything around."""

import copy
import dataclasses
import math
import operator
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

import triprune
from triprune.errors import InputError
from triprune.learning.models import build_model
from triprune.network.blocks import BlockList, removable_blocks
from triprune.network.depth import blocks_to_remove, remove_blocks, score_blocks

# Where each model's blocks end their branch: zeroing that layer's output zeroes the branch.
BRANCH_END = {
    "resnet20": "bn2",
    "torchvision:resnet18": "bn2",
    "torchvision:regnet_y_400mf": "f",
    "torchvision:mobilenet_v2": "conv",
    "torchvision:efficientnet_b0": "block",
    "torchvision:convnext_tiny": "block",
    "timm:resnet50": "bn3",
    "timm:mobilenetv3_small_100": "bn3",
    "timm:convnext_atto": "mlp",
}


def randomised(model: nn.Module, seed: int = 0) -> nn.Module:
    """Give every norm and layer scale values that a trained net could have."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if name.endswith("running_var"):
                tensor.uniform_(0.5, 2.0, generator=generator)
            elif tensor.is_floating_point() and (tensor.dim() < 2 or "scale" in name):
                tensor.normal_(0.2, 0.5, generator=generator)
    return model.eval()


def zeroed(model: nn.Module, names: tuple[str, ...], end: str) -> nn.Module:
    """Return a copy whose named blocks have a branch of zeros, by a hook and nothing of ours."""
    model = copy.deepcopy(model)
    for name in names:
        model.get_submodule(f"{name}.{end}").register_forward_hook(
            lambda _, __, output: torch.zeros_like(output)
        )
    return model


def picture(name: str) -> torch.Tensor:
    pixels = 48 if ":" in name else 32
    return torch.randn(2, 3, pixels, pixels, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", BRANCH_END)
def test_removing_equals_zeroing_the_branch_to_the_last_bit(name: str) -> None:
    model, x = randomised(build_model(name)), picture(name)
    names = removable_blocks(model, x).names
    for chosen in (names, names[::2], names[1::3]):
        smaller = copy.deepcopy(model)
        remove_blocks(smaller, chosen)
        with torch.no_grad():
            assert torch.equal(smaller(x), zeroed(model, chosen, BRANCH_END[name])(x))
        assert type(smaller) is type(model)
        assert set(smaller.state_dict()) < set(model.state_dict())


def test_a_removed_block_behind_a_relu_becomes_the_identity_and_another_keeps_its_relu() -> None:
    model = build_model("resnet20")
    remove_blocks(model, ["layer1.0", "layer1.1", "layer2.1"])
    assert type(model.layer1[0]) is nn.ReLU
    assert not model.layer1[0].inplace
    assert type(model.layer1[1]) is nn.Identity
    assert type(model.layer2[1]) is nn.Identity


def test_the_order_of_names_does_not_matter() -> None:
    model, names = build_model("resnet20"), ["layer1.0", "layer1.1", "layer3.2"]
    one, other = copy.deepcopy(model), copy.deepcopy(model)
    remove_blocks(one, names)
    remove_blocks(other, reversed(names))
    assert str(one) == str(other)


@pytest.mark.parametrize("training", [True, False])
def test_modes_flags_and_gradients_survive(training: bool) -> None:
    model = build_model("resnet20").train(training)
    model.layer2[0].bn1.eval()
    model.conv1.weight.requires_grad_(False)
    remove_blocks(model, ["layer1.0", "layer2.1"])
    assert model.training is training
    assert model.layer1[0].training is training
    assert not model.layer2[0].bn1.training
    assert not model.conv1.weight.requires_grad
    model(torch.randn(2, 3, 32, 32)).sum().backward()
    trained = [p for p in model.parameters() if p.requires_grad]
    assert all(p.grad is not None for p in trained)


def test_a_smaller_model_works_with_the_tools_around_torch() -> None:
    model, x = build_model("torchvision:resnet18").eval(), torch.randn(1, 3, 64, 64)
    remove_blocks(model, removable_blocks(model, x).names)
    expected = model(x)
    assert torch.equal(torch.fx.symbolic_trace(model)(x), expected)
    assert torch.equal(torch.export.export(model, (x,)).module()(x), expected)
    assert torch.equal(copy.deepcopy(model)(x), expected)
    assert torch.equal(pickle.loads(pickle.dumps(model))(x), expected)  # noqa: S301


def test_a_smaller_model_compiles_and_trains_in_a_process_group(tmp_path: Path) -> None:
    model = build_model("resnet20")
    remove_blocks(model, ["layer1.0", "layer1.1", "layer2.1", "layer3.2"])
    x = torch.randn(2, 3, 32, 32)
    compiled = torch.compile(copy.deepcopy(model).eval(), backend="eager", fullgraph=True)
    assert torch.equal(compiled(x), copy.deepcopy(model).eval()(x))
    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        wrapped = nn.parallel.DistributedDataParallel(model)
        wrapped(x).sum().backward()
        del (
            wrapped
        )  # the last to hold the group would wait, as it goes, for threads that wait for it
    finally:
        torch.distributed.destroy_process_group()
    assert all(parameter.grad is not None for parameter in model.parameters())


class PostNorm(nn.Module):
    """A norm behind the sum, with an activation that is no ReLU: both must survive."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.branch = nn.Conv2d(channels, channels, 3, padding=1)
        self.act = nn.SiLU(inplace=True)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.act(x + self.branch(x)))


class Preactivation(nn.Module):
    """ResNet v2: norm and activation in front of each convolution, nothing behind the sum."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.bn1, self.bn2 = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv1(functional.relu(self.bn1(x), inplace=True))
        return self.conv2(functional.relu(self.bn2(y), inplace=True)) + x


class TwoOutputs(nn.Module):
    """A block that hands its input on beside the sum."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.branch = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x + self.branch(x) * mask, mask


class Masked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3)
        self.one, self.two = TwoOutputs(8), TwoOutputs(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        x, mask = self.one(x, (x > 0).to(x.dtype))
        return self.two(x, mask)[0]


class Functional(nn.Module):
    """Residual sums straight in the model's own forward, one of them with a projection."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.a1, self.a2 = nn.Conv2d(8, 16, 1), nn.Conv2d(16, 8, 3, padding=1)
        self.b1, self.b2 = nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.c1, self.project = nn.Conv2d(8, 12, 3, padding=1), nn.Conv2d(8, 12, 1)
        self.gate, self.head = nn.Conv2d(8, 8, 1), nn.Linear(12, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.stem(x))
        x = torch.relu(x + self.a2(torch.relu(self.a1(x))))
        y = self.b2(self.b1(x))
        x = torch.relu(y * torch.sigmoid(self.gate(y)) + x)
        x = torch.relu(self.c1(x) + self.project(x))
        return self.head(x.mean((2, 3)))


class Stage(nn.Module):
    """A residual around a whole stage of residual blocks."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*(Preactivation(channels) for _ in range(3)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.blocks(x)


class UNet(nn.Module):
    """Two levels of residual blocks, with a concatenated skip that an in-place ReLU could harm."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.outer, self.inner, self.last = Preactivation(8), PostNorm(8), Preactivation(8)
        self.up = nn.ConvTranspose2d(8, 8, 2, stride=2)
        self.merge, self.act = nn.Conv2d(16, 8, 1), nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skip = self.outer(self.stem(x))
        x = self.up(self.inner(functional.max_pool2d(skip, 2)))
        return self.last(self.act(self.merge(torch.cat([skip, x], 1))))


def chain(*modules: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), *modules)


def test_layers_behind_the_sum_survive_under_their_names() -> None:
    model, x = randomised(chain(PostNorm(8), PostNorm(8))), torch.randn(2, 3, 9, 9)
    expected = zeroed(model, ("1", "2"), "branch")(x)
    assert removable_blocks(model, x).names == ("1", "2")
    remove_blocks(model, ["1", "2"])
    assert torch.equal(model(x), expected)
    kept = {name for name in model.state_dict() if name.startswith("1.")}
    assert kept == {f"1.norm.{name}" for name in nn.BatchNorm2d(8).state_dict()}


def test_preactivation_blocks_become_the_identity() -> None:
    model, x = randomised(chain(Preactivation(8), Preactivation(8))), torch.randn(2, 3, 9, 9)
    expected = zeroed(model, ("1",), "conv2")(x)
    remove_blocks(model, ["1"])
    assert type(model[1]) is nn.Identity
    assert torch.equal(model(x), expected)


def test_a_block_with_two_outputs_keeps_its_own_code_around_a_silent_branch() -> None:
    model, x = Masked().eval(), torch.randn(2, 3, 9, 9)
    assert removable_blocks(model, x).names == ("one:branch", "two:branch")
    expected = zeroed(model, ("one",), "branch")(x)
    remove_blocks(model, ["one:branch"])
    assert type(model.one) is TwoOutputs
    assert torch.equal(model(x), expected)
    assert "one.branch.weight" not in model.state_dict()


def test_sums_in_the_models_own_forward_are_blocks_too() -> None:
    model, x = randomised(Functional()), torch.randn(2, 3, 9, 9)
    blocks = removable_blocks(model, x)
    assert blocks.names == (":a2", ":gate")
    expected = copy.deepcopy(model)
    for layer in (expected.a2, expected.b2):
        layer.register_forward_hook(lambda _, __, output: torch.zeros_like(output))
    remove_blocks(model, blocks.names)
    assert type(model) is Functional
    assert torch.equal(model(x), expected(x))
    assert not [name for name in model.state_dict() if name[:2] in ("a1", "a2", "b1", "b2")]


def test_of_nested_regions_only_the_inner_ones_are_blocks() -> None:
    model, x = randomised(chain(Stage(8), Stage(8))), torch.randn(2, 3, 9, 9)
    blocks = removable_blocks(model, x)
    assert blocks.names == tuple(f"{stage}.blocks.{n}" for stage in (1, 2) for n in range(3))
    assert blocks.total == 6


def test_a_unet_keeps_its_skips_intact() -> None:
    model, x = randomised(UNet()), torch.randn(2, 3, 8, 8)
    assert removable_blocks(model, x).names == ("outer", "inner", "last")
    expected = zeroed(zeroed(model, ("outer", "last"), "conv2"), ("inner",), "branch")(x)
    remove_blocks(model, ["outer", "inner", "last"])
    assert torch.equal(model(x), expected)
    model(x).sum().backward()


def test_scores_are_the_relative_change_of_the_output_and_never_touch_the_model() -> None:
    model, x = randomised(build_model("resnet20")), picture("resnet20")
    before = copy.deepcopy(model.state_dict())
    model.train()
    blocks = removable_blocks(model, x)
    scores = score_blocks(model, x, blocks)
    assert scores == score_blocks(model, x, blocks)
    assert model.training
    model.eval()
    with torch.no_grad():
        output = model(x).double()
        for name in blocks.names:
            moved = (zeroed(model, (name,), "bn2")(x).double() - output).norm() / output.norm()
            assert scores[name] == pytest.approx(float(moved), rel=1e-6)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


@pytest.mark.parametrize("name", ["densenet40", "torchvision:densenet121"])
def test_the_score_of_a_dense_layer_is_that_of_cutting_its_channels(name: str) -> None:
    model, x = randomised(build_model(name)), picture(name)
    blocks = removable_blocks(model, x)
    scores = score_blocks(model, x, blocks)
    with torch.no_grad():
        output = model(x)
        # The last layer's channels go straight to the last norm and the classifier.
        growth = model.get_submodule(blocks.blocks[-1].writes).out_channels
        classifier = model.linear if name == "densenet40" else model.classifier
        classifier.weight[:, -growth:] = 0
        moved = (model(x) - output).norm() / output.norm()
    assert scores[blocks.names[-1]] == pytest.approx(float(moved), rel=1e-4)
    assert all(0 < score < 10 for score in scores.values())


def test_removed_dense_layers_leave_an_identity_or_nothing() -> None:
    model = build_model("densenet40")
    remove_blocks(model, ["stages.block1.0", "stages.block3.11"])
    assert type(model.stages.block1[0]) is nn.Identity
    model = build_model("torchvision:densenet121")
    remove_blocks(model, [f"features.denseblock1.denselayer{n}" for n in (1, 3, 6)])
    assert list(model.features.denseblock1) == [f"denselayer{n}" for n in (2, 4, 5)]


def test_outputs_of_any_kind_are_scored_and_broken_ones_refused() -> None:
    @dataclasses.dataclass
    class Logits:
        logits: torch.Tensor
        names: tuple[str, ...] = ("cat", "dog")

    class Wrapped(nn.Module):
        def __init__(self, wrap: Callable[[torch.Tensor], object]) -> None:
            super().__init__()
            self.net, self.wrap = build_model("resnet20"), wrap

        def forward(self, x: torch.Tensor) -> object:
            return self.wrap(self.net(x))

    x = torch.randn(1, 3, 32, 32)
    for wrap in (Logits, lambda y: {"aux": [y, 2 * y]}, lambda y: (y, None)):
        model = Wrapped(wrap)
        blocks = removable_blocks(model, x)
        assert all(score > 0 for score in score_blocks(model, x, blocks).values())
    for wrap in (lambda y: y / 0, lambda y: y.argmax(1)):
        with pytest.raises(InputError, match="give block_scores"):
            score_blocks(Wrapped(wrap), x, blocks)


def test_a_model_that_is_a_graph_already_is_searched_too() -> None:
    x = torch.randn(1, 3, 32, 32)
    traced = torch.fx.symbolic_trace(randomised(build_model("resnet20")))
    names = removable_blocks(traced, x).names
    assert len(names) == 7
    expected = copy.deepcopy(traced)
    expected.get_submodule("layer1.1.bn2").register_forward_hook(lambda _, __, y: 0 * y)
    remove_blocks(traced, [names[1]])
    assert names[1] == ":layer1.1.conv2"
    assert torch.equal(traced(x), expected(x))


class Sums(nn.Module):
    """Other ways to write a residual sum, each with a branch called ``branch``."""

    def __init__(self, write: Callable[[nn.Module, torch.Tensor, torch.Tensor], torch.Tensor]):
        super().__init__()
        self.branch, self.extra = nn.Conv2d(8, 8, 1), nn.Conv2d(8, 8, 1)
        self.add, self.scale = nn.quantized.FloatFunctional(), nn.Parameter(torch.tensor(0.5))
        self.shortcut = nn.Sequential()
        self.write = write

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.write(self, x, self.branch(x))


WRITTEN = {
    "alpha": lambda _, x, y: torch.add(x, y, alpha=0.5),
    "minus": lambda _, x, y: x - y,
    "method": lambda _, x, y: y.add(x).relu_(),
    "in place": lambda _, x, y: y.add_(x),
    "augmented": lambda _, x, y: operator.iadd(y, x),
    "float functional": lambda m, x, y: m.add.add_relu(y, x),
    "scaled": lambda m, x, y: x + m.scale * y,
    "empty shortcut": lambda m, x, y: m.shortcut(x) + y,
    "other activation": lambda _, x, y: functional.gelu(x + y),
    "path with a ReLU": lambda _, x, y: torch.relu(x) + y,
}


@pytest.mark.parametrize("way", WRITTEN)
def test_a_sum_is_a_sum_however_it_is_written(way: str) -> None:
    model, x = chain(Sums(WRITTEN[way])).eval(), torch.randn(2, 3, 9, 9)
    (name,) = removable_blocks(model, x).names
    expected = zeroed(model, ("1",), "branch")(x)
    remove_blocks(model, name)
    assert torch.equal(model(x), expected)
    assert "1.branch.weight" not in model.state_dict()


def test_parallel_branches_go_one_by_one() -> None:
    def write(block: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y + block.extra(x)

    model, x = chain(Sums(write)).eval(), torch.randn(2, 3, 9, 9)
    assert removable_blocks(model, x).names == ("1:branch", "1:extra")
    expected = zeroed(model, ("1",), "extra")(x)
    remove_blocks(model, ["1:extra"])
    assert torch.equal(model(x), expected)
    assert removable_blocks(model, x).names == ("1:branch",)


def test_a_model_that_was_cut_can_be_cut_again() -> None:
    model, x = randomised(build_model("resnet20")), picture("resnet20")
    narrow, _ = triprune.prune(model, triprune.Scale(width=0.5), example_input=x)
    blocks = removable_blocks(narrow, x)
    assert (len(blocks), blocks.total) == (7, 9)
    shallow, plan = triprune.prune(narrow, triprune.Scale(depth=6 / 9), example_input=x)
    expected = zeroed(narrow, plan.removed_blocks, "bn2")(x)
    assert torch.equal(shallow(x), expected)
    again = removable_blocks(shallow, x)
    assert (len(again), again.total) == (4, 6)
    assert set(again.names) == set(blocks.names) - set(plan.removed_blocks)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["resnet20", "densenet40"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_blocks_on_a_gpu(name: str, dtype: torch.dtype) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    model, x = randomised(build_model(name)), picture(name)
    here = removable_blocks(model, x)
    model = model.to("cuda", dtype)
    there = removable_blocks(model, x)
    assert there.names == here.names
    scores = score_blocks(model, x, there)
    assert all(math.isfinite(score) for score in scores.values())
    smaller, plan = triprune.prune(model, triprune.Scale(0.6, 0.6), example_input=x)
    assert next(smaller.parameters()).device.type == "cuda"
    assert next(smaller.parameters()).dtype is dtype
    assert smaller(x.to("cuda", dtype)).isfinite().all()
    assert len(plan.removed_blocks) == here.total - here.kept_at(0.6)


def listed(model: nn.Module) -> BlockList:
    return removable_blocks(model, torch.randn(1, 3, 32, 32))


def test_the_lowest_scores_go_first_and_ties_go_by_the_order_of_the_network() -> None:
    blocks = listed(build_model("resnet20"))
    scores = dict.fromkeys(blocks.names, 1.0) | {"layer3.1": 0.5}
    assert blocks_to_remove(blocks, 1.0, scores=scores) == ()
    assert blocks_to_remove(blocks, 8 / 9, scores=scores) == ("layer3.1",)
    assert blocks_to_remove(blocks, 6 / 9, scores=scores) == ("layer1.0", "layer1.1", "layer3.1")
    assert len(blocks_to_remove(blocks, 2 / 9, scores=scores)) == 7


def test_wrong_names_and_scores_explain_themselves() -> None:
    model = build_model("resnet20")
    blocks = listed(model)
    scores = dict.fromkeys(blocks.names, 1.0)
    with pytest.raises(InputError, match=r"'layer1\.9'.*near it: layer1"):
        remove_blocks(model, ["layer1.9"])
    with pytest.raises(InputError, match="named twice"):
        remove_blocks(model, ["layer1.1", "layer1.1"])
    with pytest.raises(InputError, match=r"'layer2\.0'.*near it: layer2"):
        blocks_to_remove(blocks, 0.5, scores=scores | {"layer2.0": 1.0})
    with pytest.raises(InputError, match=r"no score for 'layer1\.0'"):
        blocks_to_remove(blocks, 0.5, scores={"layer1.1": 1.0})
    with pytest.raises(InputError, match=r"'layer1\.1' is nan"):
        blocks_to_remove(blocks, 0.5, scores=scores | {"layer1.1": float("nan")})
    assert "layer1.1" in blocks_to_remove(blocks, 0.9, scores=scores | {"layer1.0": math.inf})
    with pytest.raises(InputError, match=r"keeps 1 of 9.*smallest depth here is 0\.2222"):
        blocks_to_remove(blocks, 0.15, scores=scores)
    with pytest.raises(InputError, match="no block that can go"):
        blocks_to_remove(listed(build_model("vgg16-bn")), 0.5, scores={})
