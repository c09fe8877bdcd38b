"""What ``prune`` promises beyond the matrix: any order, exact ignoring, clear refusals."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional

import triprune
from triprune.core.scale import Scale
from triprune.errors import InputError, NonFiniteError, SurgeryError
from triprune.network.placing import FullWidth

X = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(1))
HALF = Scale(width=0.5)


def widths(model: nn.Module) -> dict[str, tuple[int, int]]:
    return {
        name: (layer.in_channels, layer.out_channels)
        for name, layer in model.named_modules()
        if isinstance(layer, nn.Conv2d)
    }


@pytest.fixture
def resnet() -> nn.Module:
    torch.manual_seed(0)
    model = triprune.build_model("resnet20")
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.uniform_(layer.weight, 0.5, 1.5)
    return model


def snapshot(model: nn.Module):
    return (
        {key: value.clone() for key, value in model.state_dict().items()},
        [module.training for module in model.modules()],
        [parameter.requires_grad for parameter in model.parameters()],
        [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules()],
        [id(parameter) for parameter in model.parameters()],
    )


def assert_untouched(model: nn.Module, before) -> None:
    tensors, *rest = before
    now, *others = snapshot(model)
    assert now.keys() == tensors.keys()
    assert all(torch.equal(now[key], tensors[key]) for key in tensors)
    assert others == rest


def test_axes_may_be_cut_in_any_order(resnet):
    scores = {b.name: float(i) for i, b in enumerate(triprune.removable_blocks(resnet, X))}
    both, plan = triprune.prune(resnet, Scale(0.7, 0.5, 1), example_input=X, block_scores=scores)
    narrow, width_plan = triprune.prune(resnet, HALF, example_input=X)
    shallow, depth_plan = triprune.prune(
        resnet, Scale(depth=0.7), example_input=X, block_scores=scores
    )
    assert plan.removed_blocks == depth_plan.removed_blocks
    wide, deep = shallow.state_dict(), narrow.state_dict()
    for key, value in both.state_dict().items():
        assert torch.equal(value, deep[key]), "as if width had been cut first"
        assert key in wide, "as if depth had been cut first"
    for name, cut in plan.cuts.layers.items():
        assert cut == width_plan.cuts.layers[name]


def test_the_least_scored_blocks_go(resnet):
    names = triprune.removable_blocks(resnet, X).names
    scores = dict.fromkeys(names, 1.0) | {names[2]: 0.0}
    cut, plan = triprune.prune(resnet, Scale(depth=8 / 9), example_input=X, block_scores=scores)
    assert plan.removed_blocks == (names[2],)
    assert not any(key.startswith(f"{names[2]}.conv") for key in cut.state_dict())


def test_a_scale_of_one_gives_an_equal_model_of_its_own(resnet):
    cut, plan = triprune.prune(resnet, Scale(), example_input=X)
    assert plan.cuts.layers == {}
    assert plan.removed_blocks == ()
    assert plan.realised == Scale()
    with torch.no_grad():
        assert torch.equal(cut.eval()(X), resnet.eval()(X))
    next(cut.parameters()).data.zero_()
    assert next(resnet.parameters()).abs().sum() > 0


def test_keeps_modes_flags_hooks_and_precision(resnet):
    resnet.train()
    resnet.layer1.eval()
    resnet.conv1.weight.requires_grad_(False)
    resnet.bfloat16()
    calls = []
    resnet.register_forward_hook(lambda m, i, o: calls.append(1))
    before = snapshot(resnet)
    cut, _ = triprune.prune(resnet, Scale(0.7, 0.5, 0.8), example_input=X)
    assert_untouched(resnet, before)
    assert cut.training
    assert not cut.layer1.training
    assert not cut.conv1.weight.requires_grad
    assert cut.linear.weight.requires_grad
    assert {p.dtype for p in cut.parameters()} == {torch.bfloat16}


def test_frozen_parameters_are_cut_like_others(resnet):
    free, _ = triprune.prune(resnet, HALF, example_input=X)
    frozen = copy.deepcopy(resnet).requires_grad_(False)
    cut, _ = triprune.prune(frozen, HALF, example_input=X)
    assert widths(cut) == widths(free)
    with torch.no_grad():
        assert torch.equal(cut.eval()(X), free.eval()(X))
        cut_again, _ = triprune.prune(resnet, HALF, example_input=X)
        assert torch.equal(cut_again.eval()(X), free(X))


@pytest.mark.parametrize("ignored", ["layer2.1.conv1", "module", nn.Linear, "layer3*"])
def test_ignored_layers_keep_every_channel_in_and_out(resnet, ignored):
    given = resnet.layer2[1].conv1 if ignored == "module" else ignored
    cut, _ = triprune.prune(resnet, HALF, example_input=X, ignored_layers=[given])
    kept = {
        "layer2.1.conv1": ["layer2.1.conv1"],
        "module": ["layer2.1.conv1"],
        nn.Linear: ["linear"],
        "layer3*": [
            n
            for n, m in resnet.named_modules()
            if n.startswith("layer3") and not list(m.children())
        ],
    }[ignored]
    full, narrow = dict(resnet.named_modules()), dict(cut.named_modules())
    for name in kept:
        if isinstance(full[name], (nn.Conv2d, nn.Linear)):
            assert narrow[name].weight.shape == full[name].weight.shape
    assert narrow["layer1.0.conv1"].out_channels == 8


def test_round_to_rounds_to_nearest(resnet):
    cut, _ = triprune.prune(resnet, Scale(width=0.7), example_input=X, round_to=8)
    assert widths(cut)["conv1"] == (3, 8), "11.2 is nearer to 8 than to 16"
    assert widths(cut)["layer2.1.conv1"] == (24, 24), "22.4 is nearer to 24 than to 16"
    assert widths(cut)["layer3.1.conv1"] == (48, 48), "44.8 is nearer to 48 than to 40"
    assert cut.linear.in_features == 48


@pytest.mark.parametrize("importance", ["bn_scale", "l1", "l2", "fpgm", "random"])
def test_every_importance_prunes(resnet, importance):
    cut, _ = triprune.prune(resnet, HALF, example_input=X, importance=importance)
    again, _ = triprune.prune(resnet, HALF, example_input=X, importance=importance)
    assert widths(cut)["layer3.2.conv2"] == (32, 32)
    assert all(
        torch.equal(a, b)
        for a, b in zip(cut.state_dict().values(), again.state_dict().values(), strict=True)
    )


def test_taylor_needs_gradients(resnet):
    with pytest.raises(InputError, match=r"no gradient.*loss\.backward"):
        triprune.prune(resnet, HALF, example_input=X, importance="taylor")
    resnet(X).sum().backward()
    cut, _ = triprune.prune(resnet, HALF, example_input=X, importance="taylor")
    assert widths(cut)["conv1"] == (3, 8)


class Lambda(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class ForeignBlock(nn.Module):
    """A residual block whose shortcut is a bare function, as in many CIFAR ResNets."""

    def __init__(self, inputs, outputs):
        super().__init__()
        stride = outputs // inputs
        self.conv = nn.Conv2d(inputs, outputs, 3, stride, 1)
        pad = (outputs - inputs) // 2
        self.shortcut = Lambda(
            lambda x: functional.pad(x[:, :, ::stride, ::stride], (0, 0, 0, 0, pad, pad))
        )

    def forward(self, x):
        return torch.relu(self.conv(x) + self.shortcut(x))


def test_foreign_padded_shortcuts_still_land_where_they_did():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3),
        ForeignBlock(8, 16),
        ForeignBlock(16, 32),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 5),
    )
    cut, plan = triprune.prune(model, HALF, example_input=X, importance="l1")
    shortcut = cut.get_submodule("1.shortcut")
    assert isinstance(shortcut, FullWidth)
    placed = plan.cuts.placed["1.shortcut"]
    probe = torch.arange(1.0, 5).reshape(1, 4, 1, 1).expand(1, 4, 4, 4)
    landed = shortcut(probe)[0, :, 0, 0].tolist()
    for place, value in zip(placed.out, landed, strict=True):
        came_from = place - 4
        expected = placed.into.index(came_from) + 1 if came_from in placed.into else 0
        assert value == expected
    assert sum(value > 0 for value in landed) == 4, "no surviving channel is lost on the way"


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1)
        self.shared = nn.Conv2d(16, 16, 3, padding=1)
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        x = torch.relu(self.stem(x))
        for _ in range(3):
            x = torch.relu(self.shared(x))
        return self.head(x.mean((2, 3)))


def test_a_shared_layer_is_cut_once_for_all_its_uses():
    cut, _ = triprune.prune(Tied(), HALF, example_input=X)
    assert cut.shared.weight.shape == (8, 8, 3, 3)
    assert cut(X).shape == (1, 4)


def test_tied_parameters_stay_tied():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 1), nn.Conv2d(8, 8, 1), nn.Conv2d(8, 8, 1), nn.Conv2d(8, 2, 1)
    )
    model[2].weight = model[1].weight
    cut, _ = triprune.prune(model, HALF, example_input=X)
    assert cut[2].weight is cut[1].weight
    assert cut[1].weight.shape == (4, 4, 1, 1)


class FixedReshape(nn.Module):
    """Channels cut up by a reshape and summed over a part: they must stay, and be named."""

    def __init__(self):
        super().__init__()
        self.mixed = nn.Conv2d(3, 8, 3, padding=1)
        self.free = nn.Conv2d(4, 8, 3, padding=1)
        self.head = nn.Conv2d(8, 2, 1)

    def forward(self, x):
        x = self.mixed(x)
        n, c, h, w = x.shape
        x = x.view(n, 2, c // 2, h, w).sum(1)
        return self.head(self.free(x))


def test_what_cannot_shrink_is_named():
    cut, plan = triprune.prune(FixedReshape(), HALF, example_input=X)
    assert cut.mixed.out_channels == 8
    assert cut.free.out_channels == 4
    assert [note for note in plan.notes if note.startswith("mixed: all 8 channels stay")]


class Shuffling(nn.Module):
    """A channel shuffle written into a forward with weights around it."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Conv2d(3, 12, 3, padding=1), nn.Conv2d(3, 12, 3, padding=1)
        self.early, self.late = nn.Conv2d(12, 8, 1), nn.Conv2d(12, 8, 1)
        self.head = nn.Conv2d(16, 2, 1)

    def forward(self, x):
        x = torch.cat([self.one(x), self.two(x)], 1)
        n, c, h, w = x.shape
        x = x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)
        first, second = x.chunk(2, 1)
        return self.head(torch.cat([self.early(first), self.late(second)], 1))


@pytest.mark.parametrize("keep", [0.34, 0.5, 0.75])
def test_shuffled_channels_find_their_readers_again(keep):
    torch.manual_seed(0)
    model = Shuffling().eval()
    cut, plan = triprune.prune(model, Scale(width=keep), example_input=X)
    assert cut.one.out_channels == cut.two.out_channels == round(12 * keep)
    assert plan.notes == ()
    masked = copy.deepcopy(model)
    for name in ("one", "two", "early", "late"):
        gone = [
            c
            for c in range(masked.get_submodule(name).out_channels)
            if c not in plan.cuts.layers[name].out
        ]
        masked.get_submodule(name).weight.data[gone] = 0
        masked.get_submodule(name).bias.data[gone] = 0
    with torch.no_grad():
        torch.testing.assert_close(cut(X), masked(X))


class StandardisedConv(nn.Conv2d):
    def forward(self, x):
        flat = self.weight.reshape(1, self.out_channels, -1)
        flat = functional.batch_norm(flat, None, None, training=True, momentum=0.0)
        weight = flat.reshape_as(self.weight)
        return functional.conv2d(x, weight, self.bias, self.stride, self.padding)


def test_standardised_weights_are_standardised_over_the_kept_inputs():
    torch.manual_seed(0)
    conv = [StandardisedConv(3, 16, 3), nn.ReLU(), StandardisedConv(16, 8, 3), nn.ReLU()]
    model = nn.Sequential(*conv, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))
    cut, plan = triprune.prune(model, HALF, example_input=X)
    assert widths(cut) == {"0": (3, 8), "2": (8, 4)}
    kept_in, kept_out = (torch.tensor(plan.cuts.layers["2"].into), plan.cuts.layers["2"].out)
    with torch.no_grad():
        hidden = conv[1](conv[0](X))[:, kept_in]
        weight = conv[2].weight[list(kept_out)][:, kept_in]
        mean = weight.mean((1, 2, 3), keepdim=True)
        var = weight.var((1, 2, 3), unbiased=False, keepdim=True)
        weight = (weight - mean) / (var + 1e-5).sqrt()
        hidden = functional.conv2d(hidden, weight, conv[2].bias[list(kept_out)])
        expected = model[6].weight[:, list(kept_out)] @ hidden.relu().mean((2, 3)).T
        torch.testing.assert_close(cut(X), expected.T + model[6].bias)
    assert "depends on the number of channels" in plan.notes[0]


class Tokens(nn.Module):
    """Positions are learnt, so that tokens carry labels beside the channels."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 24, 8, 8)
        self.position = nn.Parameter(torch.randn(1, 16, 24))
        self.norm = nn.LayerNorm(24)
        self.mix = nn.Linear(24, 12)
        self.head = nn.Linear(12, 4)

    def forward(self, x):
        tokens = self.patch(x).flatten(2).transpose(1, 2) + self.position
        return self.head(self.mix(self.norm(tokens)).relu().mean(1))


def test_labelled_tokens_are_not_taken_for_channels():
    torch.manual_seed(0)
    cut, _ = triprune.prune(Tokens(), HALF, example_input=X)
    assert cut.position.shape == (1, 16, 12)
    assert (cut.mix.in_features, cut.mix.out_features) == (12, 6)


@pytest.mark.parametrize(
    "compute",
    [
        nn.utils.parametrizations.weight_norm,
        nn.utils.parametrizations.spectral_norm,
        nn.utils.spectral_norm,
    ],
)
def test_a_computed_weight_is_refused_by_name(resnet, compute):
    compute(resnet.layer2[0].conv1)
    before = snapshot(resnet)
    with pytest.raises(SurgeryError, match=r"weight of layer2\.0\.conv1 is computed"):
        triprune.prune(resnet, HALF, example_input=X)
    assert_untouched(resnet, before)
    scores = dict.fromkeys(triprune.removable_blocks(resnet, X).names, 1.0)
    _, plan = triprune.prune(resnet, Scale(depth=0.8), example_input=X, block_scores=scores)
    assert len(plan.removed_blocks) == 2


class Noisy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.auxiliary = nn.Linear(8, 4)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        x = functional.dropout(self.conv(x).mean((2, 3)), training=True)
        return self.head(x) if not self.training else (self.head(x), self.auxiliary(x))


def test_the_random_numbers_of_the_caller_stay_as_they_were():
    model = Noisy()
    state = torch.get_rng_state()
    with pytest.raises(SurgeryError, match="differs from the masked original"):
        triprune.prune(model, HALF, example_input=X)
    assert torch.equal(torch.get_rng_state(), state)


def test_no_room_at_all_is_refused():
    model = nn.Sequential(nn.Conv2d(3, 4, 1))
    before = snapshot(model)
    with pytest.raises(SurgeryError, match="no layer could shrink"):
        triprune.prune(model, HALF, example_input=X)
    assert_untouched(model, before)


def poisoned() -> nn.Module:
    model = triprune.build_model("resnet20")
    model.conv1.weight.data[0, 0, 0, 0] = float("nan")
    return model


@pytest.mark.parametrize(
    ("make", "arguments", "error", "message"),
    [
        (lambda: nn.Linear(3, 3), {}, InputError, "no convolution"),
        (lambda: nn.LazyConv2d(4, 3), {}, InputError, "lazy"),
        (lambda: nn.DataParallel(nn.Conv2d(3, 4, 3)), {}, InputError, r"give its \.module"),
        (lambda: nn.Conv2d(1, 4, 3), {}, InputError, "example input of shape"),
        (lambda: nn.Conv2d(3, 4, 3), {"example_input": "x"}, InputError, "not a batch of pictures"),
        (lambda: nn.Conv2d(3, 4, 3), {"importance": "magic"}, InputError, "bn_scale, l1, l2"),
        (lambda: nn.Conv2d(3, 4, 3), {"round_to": 0}, InputError, "not a positive integer"),
        (lambda: nn.Conv2d(3, 4, 3), {"ignored_layers": ["nope*"]}, InputError, "no module of"),
        (lambda: nn.Conv2d(3, 4, 3), {"scale": 0.5}, InputError, "not a Scale"),
        (poisoned, {}, NonFiniteError, "NaN or infinity"),
    ],
)
def test_bad_input_is_explained_and_leaves_the_model_alone(make, arguments, error, message):
    model = make()
    lazy = isinstance(model, nn.LazyConv2d)
    before = None if lazy else snapshot(model)
    given = {"example_input": X, "scale": HALF} | arguments
    with pytest.raises(error, match=message):
        triprune.prune(model, given.pop("scale"), **given)
    if not lazy:
        now = snapshot(model)
        assert now[1:] == before[1:]
        for key, value in now[0].items():
            torch.testing.assert_close(value, before[0][key], equal_nan=True, rtol=0, atol=0)


def test_a_resolution_the_network_cannot_take_is_refused():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 30 * 30, 2))
    with pytest.raises(SurgeryError, match="does not run"):
        triprune.prune(model, Scale(resolution=0.5), example_input=X)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_model_on_cuda_stays_there(resnet):
    cut, _ = triprune.prune(resnet.cuda().half(), HALF, example_input=X)
    assert {p.device.type for p in cut.parameters()} == {"cuda"}
    assert cut(X.cuda().half()).dtype == torch.float16
