"""Which blocks can go: known counts, and what must be refused."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional

from triprune.errors import InputError
from triprune.learning.models import build_model
from triprune.network.blocks import removable_blocks

KNOWN = {
    "resnet56": (25, 27),
    "resnet20-b": (7, 9),
    "vgg16-bn": (0, 0),
    "torchvision:resnet50": (12, 16),
    "torchvision:efficientnet_b0": (9, 16),
    "torchvision:mobilenet_v2": (10, 17),
    "torchvision:convnext_tiny": (18, 18),
    "torchvision:regnet_y_400mf": (12, 16),
    "torchvision:googlenet": (0, 0),
    "torchvision:shufflenet_v2_x1_0": (0, 0),
    "timm:resnet50": (12, 16),
    "timm:efficientnet_b0": (9, 16),
    "timm:mobilenetv3_small_100": (6, 11),
    "timm:gcresnet33ts": (6, 10),
    "densenet40": (36, 36),
    "torchvision:densenet121": (58, 58),
    "timm:densenet121": (58, 58),
    "torchvision:squeezenet1_0": (0, 0),
    "timm:hrnet_w18_small": (18, 18),  # its stages cannot be traced, its blocks can
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_counts(name: str) -> None:
    pixels = 32 if ":" not in name or "hrnet" in name else 64
    blocks = removable_blocks(build_model(name), torch.randn(1, 3, pixels, pixels))
    assert (len(blocks), blocks.total) == KNOWN[name]
    kind = "dense" if "densenet" in name else "residual"
    assert all(block.kind == kind and block.params > 0 and block.macs > 0 for block in blocks)


def test_a_block_that_must_stay_is_called_by_its_own_name() -> None:
    refused = dict(removable_blocks(build_model("resnet20"), torch.randn(1, 3, 32, 32)).refused)
    assert refused == dict.fromkeys(["layer2.0", "layer3.0"], "its shortcut changes the shape")


def test_the_macs_and_params_of_a_block_are_those_that_go() -> None:
    model = build_model("resnet20")
    block = removable_blocks(model, torch.randn(2, 3, 32, 32)).blocks[0]
    assert block.name == "layer1.0"
    assert block.params == 2 * (16 * 16 * 9 + 2 * 16)
    assert block.macs == 2 * 16 * 16 * 9 * 32 * 32


def test_the_model_is_never_touched() -> None:
    model = build_model("resnet20").train()
    model.bn1.eval()
    model.conv1.weight.requires_grad_(False)
    before, state = str(model), copy.deepcopy(model.state_dict())
    modes = [module.training for module in model.modules()]
    removable_blocks(model, torch.randn(1, 3, 32, 32))
    with pytest.raises(InputError):
        removable_blocks(model, torch.randn(1, 4, 32, 32))
    assert str(model) == before
    assert [module.training for module in model.modules()] == modes
    assert not any("forward" in vars(module) for module in model.modules())
    assert all(torch.equal(value, state[key]) for key, value in model.state_dict().items())


class Residual(nn.Module):
    def __init__(self, branch: nn.Module) -> None:
        super().__init__()
        self.branch, self.shortcut = branch, nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.branch(x) + self.shortcut(x)


class BiteInput(nn.Module):
    """Its first ReLU changes the very tensor that the shortcut adds: zeroing is not removing."""

    def __init__(self) -> None:
        super().__init__()
        self.act, self.conv = nn.ReLU(inplace=True), nn.Conv2d(8, 8, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.conv(self.act(x))


class Optional(nn.Module):
    """A shortcut that its caller may pass in."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(8, 8, 1)

    def forward(self, x: torch.Tensor, shortcut: torch.Tensor | None = None) -> torch.Tensor:
        if shortcut is None:
            shortcut = x
        return self.conv(x) + shortcut


class PassesShortcut(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.side = nn.Conv2d(3, 8, 1), nn.Conv2d(3, 8, 1)
        self.given, self.left_out = Optional(), Optional()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.left_out(self.given(self.stem(x), self.side(x)))


class Twice(nn.Module):
    """One block that runs twice cannot go as if it were one."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.block = nn.Conv2d(3, 8, 1), Residual(nn.Conv2d(8, 8, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.block(self.block(self.stem(x)))


def chain(*modules: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), *modules).eval()


def refusals(model: nn.Module) -> dict[str, str]:
    return dict(removable_blocks(model, torch.randn(2, 3, 9, 9)).refused)


def test_what_looks_like_a_block_and_is_none_is_refused_with_its_reason() -> None:
    assert "branch zeroed" in refusals(chain(BiteInput()))["1"]
    assert "runs 2 times" in refusals(Twice())["block"]
    assert "leave out" in refusals(PassesShortcut())["given"]
    assert removable_blocks(PassesShortcut(), torch.randn(1, 3, 9, 9)).names == ("left_out",)
    assert not removable_blocks(chain(Residual(nn.BatchNorm2d(8))), torch.randn(1, 3, 9, 9))


class Attention(nn.Module):
    """Attention with a small residual of its own, as in global-context blocks."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.project = nn.Conv2d(channels, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.project(x.mean((2, 3), keepdim=True))


class TokenThenChannel(nn.Module):
    """A residual behind another one, which must survive the removal of either."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.channel = Residual(nn.Conv2d(8, 8, 3, padding=1)), nn.Conv2d(8, 8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.token(x)
        return x + self.channel(x)


def test_a_small_residual_inside_a_block_is_no_block_but_one_in_front_of_it_is() -> None:
    x = torch.randn(2, 3, 9, 9)
    inner = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), Attention(8))
    strided = Residual(copy.deepcopy(inner))
    strided.shortcut = nn.Conv2d(8, 8, 1)
    blocks = removable_blocks(chain(Residual(inner), strided), x)
    assert (blocks.names, blocks.total) == (("1",), 2)
    blocks = removable_blocks(chain(TokenThenChannel()), x)
    assert blocks.names == ("1.token", "1:channel")


class OwnWeights(nn.Module):
    """A block that calls no layer at all."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8, 3, 3))
        self.scale = nn.Parameter(torch.randn(1, 8, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.scale * functional.conv2d(x, self.weight, padding=1)


def test_a_block_without_layers_is_a_block_all_the_same() -> None:
    block = removable_blocks(chain(OwnWeights()), torch.randn(1, 3, 9, 9)).blocks[0]
    assert (block.name, block.params, block.macs) == ("1", 8 * 8 * 9 + 8, 8 * 8 * 9 * 81)


class ShapeFlow(nn.Module):
    """Control flow on a value, that no tracer follows, around blocks that can be traced."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.block = nn.Conv2d(3, 8, 1), Residual(nn.Conv2d(8, 8, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.block(self.stem(x)) if float(x.abs().sum()) > 0 else self.stem(x)


class ShapeGuard(nn.Module):
    """Asks about shapes before it adds, as code with optional shortcuts does."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(8, outputs, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert x.shape[1] == 8, "eight channels, please"
        y = self.conv(x)
        if y.shape != x.shape:
            return y
        return functional.relu(y + x)


class CountsPixels(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(8, 8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(x.shape[0]):
            x = x + self.conv(x)
        return x


def test_questions_about_shapes_are_followed_and_what_hides_from_tracing_is_named() -> None:
    x = torch.randn(1, 3, 9, 9)
    blocks = removable_blocks(chain(ShapeGuard(8), ShapeGuard(8), ShapeGuard(12)), x)
    assert (blocks.names, blocks.total) == (("1", "2"), 3)
    assert "does not do what its graph says" in dict(blocks.refused)["3"]
    assert "cannot follow its forward" in refusals(chain(CountsPixels()))["1"]


class AddModule(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.add(x, y)


class WithAddModule(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.add = nn.Conv2d(8, 8, 1), AddModule()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.add(self.conv(x), x))


def test_control_flow_around_and_add_modules_inside_do_not_hide_a_block() -> None:
    assert removable_blocks(ShapeFlow(), torch.randn(1, 3, 9, 9)).names == ("block",)
    assert removable_blocks(chain(WithAddModule()), torch.randn(1, 3, 9, 9)).names == ("1",)


def test_bad_input_explains_itself() -> None:
    x = torch.randn(1, 3, 32, 32)
    with pytest.raises(InputError, match=r"shape \(1, 3, 32\).*RuntimeError"):
        removable_blocks(build_model("resnet20"), x[..., 0])
    with pytest.raises(InputError, match="is not a torch"):
        removable_blocks("resnet20", x)
    with pytest.raises(InputError, match="lazy layers"):
        removable_blocks(nn.Sequential(nn.LazyConv2d(8, 3)), x)
    with pytest.raises(InputError, match="compiled or scripted"):
        removable_blocks(torch.compile(build_model("resnet20"), backend="eager"), x)


def test_frozen_half_precision_and_aliased_blocks_work() -> None:
    model = build_model("resnet20").requires_grad_(False).to(torch.bfloat16)
    model.alias = model.layer1[1]
    blocks = removable_blocks(model, torch.randn(1, 3, 32, 32))
    assert (len(blocks), blocks.total) == (7, 9)
