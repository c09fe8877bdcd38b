"""A pruned model trains at multiples of channels exactly as it would by itself, or as it is."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional

from triprune import Plan, Scale, prune
from triprune.learning.images import ImageSet
from triprune.learning.job import Job
from triprune.learning.models import build_model
from triprune.learning.recipe import Recipe
from triprune.learning.training import train
from triprune.network.widening import Widening, widening_of

IMAGE = torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def seeded(make):
    torch.manual_seed(0)
    model = make()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, 0, 0.2)
            module.running_mean.normal_(0, 0.2)
            module.running_var.uniform_(0.5, 1.5)
    return model


def outputs(model: nn.Module) -> dict[str, int]:
    return {n: m.out_channels for n, m in model.named_modules() if isinstance(m, nn.Conv2d)}


def cut(model: nn.Module, scale: Scale) -> tuple[nn.Module, Plan, Widening]:
    narrow, plan = prune(model, scale, example_input=IMAGE)
    found = widening_of(model, Plan.from_json(plan.to_json()), 8)
    assert found is not None
    return narrow, plan, found


def added(found: Widening, narrow: nn.Module) -> dict[str, torch.Tensor]:
    ones = {name: torch.ones_like(tensor) for name, tensor in narrow.state_dict().items()}
    return {name: tensor == 0 for name, tensor in found.widened(ones).state_dict().items()}


def assert_equal_and_exactly_reversible(narrow: nn.Module, found: Widening) -> nn.Module:
    wide = found.widened(narrow.state_dict()).eval()
    x = torch.randn(3, 3, 16, 16)
    torch.testing.assert_close(wide(x), narrow.eval()(x), rtol=1e-4, atol=1e-5)
    back = found.narrowed(wide.state_dict())
    assert back.keys() == narrow.state_dict().keys()
    assert all(torch.equal(back[name], t) for name, t in narrow.state_dict().items())
    assert sum(p.numel() for p in wide.parameters()) > sum(p.numel() for p in narrow.parameters())
    return wide


@pytest.mark.parametrize("keep", [0.71, 0.82])
@pytest.mark.parametrize("depth", [1.0, 0.7])
def test_padded_shortcuts_run_at_multiples_in_every_layer(keep, depth):
    model = seeded(lambda: build_model("resnet20"))
    narrow, plan, found = cut(model, Scale(depth, keep))
    wide = assert_equal_and_exactly_reversible(narrow, found)
    whole = outputs(model)
    assert any(count % 8 for count in outputs(narrow).values())
    assert outputs(wide).keys() == outputs(narrow).keys()
    for name, count in outputs(wide).items():
        assert outputs(narrow)[name] <= count <= whole[name]
        assert count % 8 == 0
    assert found.wide.removed_blocks == plan.removed_blocks


def noise() -> ImageSet:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (64, 3, 16, 16), generator=generator, dtype=torch.uint8)
    classes = tuple("abcdefghij")
    return ImageSet(images, torch.arange(64) % 10, classes, mean=(0.5,) * 3, std=(0.25,) * 3)


def assert_still_zero(trained: dict[str, torch.Tensor], extra: dict[str, torch.Tensor]) -> None:
    assert sum(int(mask.sum()) for mask in extra.values()) > 1000
    for name, mask in extra.items():
        assert not trained[name].cpu()[mask].any(), name


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("precision", ["fp16", "bf16", "tf32"])
def test_a_gpu_s_kernels_add_nothing_either(precision):
    narrow, _, found = cut(seeded(lambda: build_model("resnet20")), Scale(1, 0.71))
    wide, extra = found.widened(narrow.state_dict()), added(found, narrow)
    recipe = Recipe(epochs=2, batch_size=16, rate=0.02, weight_decay=1e-2, precision=precision)
    assert_still_zero(train(Job(wide, noise(), recipe)).model.state_dict(), extra)


@pytest.mark.parametrize("scale", [Scale(1, 0.71), Scale(0.7, 0.82)])
def test_trains_to_the_tensors_of_the_narrow_model_and_adds_nothing(scale):
    model = seeded(lambda: build_model("resnet20"))
    narrow, _, found = cut(model, scale)
    wide, extra = found.widened(narrow.state_dict()), added(found, narrow)
    recipe = Recipe(epochs=1, batch_size=16, rate=0.02, weight_decay=1e-2, precision="fp32")
    for each in (narrow, wide):
        train(Job(each, noise(), recipe, device="cpu"))
    trained = wide.state_dict()
    assert_still_zero(trained, extra)
    for name, tensor in found.narrowed(trained).items():
        torch.testing.assert_close(tensor, narrow.state_dict()[name], rtol=1e-3, atol=1e-4)


def test_removed_dense_layers_stay_away():
    model = seeded(lambda: build_model("densenet40"))
    narrow, plan, found = cut(model, Scale(0.8, 0.8))
    wide = assert_equal_and_exactly_reversible(narrow, found)
    assert plan.removed_blocks
    assert outputs(wide).keys() == outputs(narrow).keys()
    ten = {name for name, count in outputs(narrow).items() if count == 10}
    assert ten
    assert {outputs(wide)[name] for name in ten} == {12}, "of twelve, none become 16"


class Gate(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(channels, 12, 1), nn.Conv2d(12, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pooled = x.mean((2, 3), keepdim=True)
        return x * torch.sigmoid(self.up(functional.silu(self.down(pooled))))


def inverted(channels: int, *, groups: int, gate: nn.Module) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(channels, 36, 1, bias=False),
        nn.BatchNorm2d(36),
        nn.Hardswish(),
        nn.Conv2d(36, 36, 3, padding=1, groups=groups, bias=False),
        nn.BatchNorm2d(36),
        nn.ReLU6(),
        gate,
        nn.Conv2d(36, channels, 1, bias=False),
        nn.BatchNorm2d(channels),
    )


class Net(nn.Module):
    """A stem, one branch around which the stem's channels are added, and a linear layer."""

    def __init__(self, branch: nn.Module, act: nn.Module | None = None) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 20, 3), nn.BatchNorm2d(20), act or nn.ReLU())
        self.branch, self.head = branch, nn.Linear(20, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        return self.head((x + self.branch(x)).mean((2, 3)))


@pytest.mark.parametrize("gate", [nn.Identity(), Gate(36)], ids=["depthwise", "squeeze-excite"])
def test_depthwise_layers_and_gates(gate):
    model = seeded(lambda: Net(inverted(20, groups=36, gate=copy.deepcopy(gate))))
    narrow, _, found = cut(model, Scale(1, 0.7))
    wide = assert_equal_and_exactly_reversible(narrow, found)
    assert (narrow.branch[0].out_channels, wide.branch[0].out_channels) == (25, 32)
    assert (narrow.branch[3].groups, wide.branch[3].groups) == (25, 32)
    assert (narrow.stem[0].out_channels, wide.stem[0].out_channels) == (14, 16)


class CountsChannels(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(x.movedim(1, -1), x.shape[1:2]).movedim(-1, 1)


class CountsToDivide(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / (1 + x.square().mean(1, keepdim=True))


class Shifted(nn.Module):
    """Moves all channels by one learned number: the added ones too, once it is positive."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.tensor([-0.05]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(x + self.shift)


NOT_PROVEN = {
    "a shift that is hidden until training turns it": Shifted,
    "a mean over channels counts zeros too": CountsToDivide,
    "a layer norm without parameters counts channels": CountsChannels,
    "a layer after a sigmoid reads one half where nothing was": nn.Sigmoid,
    "batch norm without a margin fails in training": lambda: nn.BatchNorm2d(20, eps=0.0),
}


@pytest.mark.parametrize("odd", NOT_PROVEN.values(), ids=NOT_PROVEN)
def test_what_would_train_otherwise_trains_as_it_is(odd):
    model = seeded(lambda: Net(inverted(20, groups=36, gate=nn.Identity()), odd()))
    _, plan = prune(model, Scale(1, 0.7), example_input=IMAGE)
    assert widening_of(model, plan, 8) is None


def test_layers_that_share_their_weights_are_proven_together():
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(20, 20, 3, padding=1)
            self.again = nn.Conv2d(20, 20, 3, padding=1)
            self.again.weight = self.first.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.again(functional.relu(self.first(x)))

    narrow, _, found = cut(seeded(lambda: Net(Twice())), Scale(1, 0.7))
    assert_equal_and_exactly_reversible(narrow, found)


def test_groups_stay_as_they_are():
    model = seeded(
        lambda: nn.Sequential(
            nn.Conv2d(3, 24, 3), nn.GroupNorm(4, 24), nn.ReLU(), nn.Flatten(), nn.Linear(4704, 5)
        )
    )
    _, plan = prune(model, Scale(1, 0.7), example_input=IMAGE)
    assert plan.cuts.layers
    assert widening_of(model, plan, 8) is None


@pytest.mark.parametrize(
    ("scale", "multiple"), [(Scale(0.7), 8), (Scale(1, 0.5), 8), (Scale(1, 0.7), 1)]
)
def test_nothing_to_widen(scale, multiple):
    model = build_model("resnet20")
    _, plan = prune(model, scale, example_input=IMAGE)
    assert widening_of(model, plan, multiple) is None


def test_a_plan_of_another_model_is_never_the_end_of_a_run():
    _, plan = prune(build_model("resnet20"), Scale(1, 0.7), example_input=IMAGE)
    assert widening_of(build_model("resnet32"), plan, 8) is None
