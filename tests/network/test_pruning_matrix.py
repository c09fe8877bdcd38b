"""Every architecture at every scale: runs, is as narrow as asked, exact, replayable, storable."""

from __future__ import annotations

import copy
import zlib
from functools import lru_cache

import pytest
import torch
from torch import nn
from torch.nn import functional

import triprune
import triprune.errors
from triprune.core.scale import Scale
from triprune.network.depth import remove_blocks
from triprune.network.plan import Plan
from triprune.network.structure.candidates import find_candidates

SCALES = [Scale(0.6, 1, 1), Scale(1, 0.5, 1), Scale(1, 0.7, 1), Scale(0.7, 0.6, 0.8)]
RESIDUAL = [
    "resnet20",
    "resnet20-b",
    "resnet56",
    "resnet56-b",
    "densenet40",
    "torchvision:resnet18",
    "torchvision:resnet50",
    "torchvision:resnet101",
    "torchvision:densenet121",
    "torchvision:efficientnet_b0",
    "torchvision:mobilenet_v2",
    "torchvision:mobilenet_v3_large",
    "torchvision:resnext50_32x4d",
    "torchvision:regnet_y_400mf",
    "torchvision:convnext_tiny",
    "timm:resnet50",
    "timm:efficientnet_b0",
    "timm:mobilenetv3_small_100",
]
PLAIN = ["vgg16-bn", "torchvision:googlenet", "torchvision:shufflenet_v2_x1_0", "timm:vgg16_bn"]
LAYERS = (nn.Conv2d, nn.Linear)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Small operators gain nothing from threads, and lose much where cores are shared."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@lru_cache(maxsize=1)  # the cases of one architecture follow each other
def built(name: str) -> nn.Module:
    torch.manual_seed(0)
    model = triprune.build_model(name, num_classes=10)
    randomise(model)
    return model.eval()


def randomise(model: nn.Module) -> None:
    """Make every norm matter: a fresh one hides a channel that is taken for another."""
    for layer in model.modules():
        if isinstance(layer, (nn.BatchNorm2d, nn.LayerNorm)):
            nn.init.uniform_(layer.weight, 0.5, 1.5)
            nn.init.normal_(layer.bias, std=0.2)
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.normal_(layer.running_mean, std=0.2)
            nn.init.uniform_(layer.running_var, 0.5, 1.5)
    for name, parameter in model.named_parameters():
        if name.endswith("layer_scale"):
            nn.init.uniform_(parameter, 0.1, 0.3)


def picture(name: str, batch: int = 1) -> torch.Tensor:
    side = 64 if ":" in name else 32
    return torch.randn(batch, 3, side, side, generator=torch.Generator().manual_seed(1))


@lru_cache(maxsize=1)
def block_scores(name: str) -> dict[str, float]:
    """Return made-up scores, which spare a run for every block."""
    names = triprune.removable_blocks(built(name), picture(name)).names
    return {each: float(zlib.crc32(each.encode())) for each in names}


def masked_output(model: nn.Module, plan: Plan, cut: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Run the full-width original with every channel that the plan leaves out set to zero."""
    masked = copy.deepcopy(model).eval()
    candidates = find_candidates(model)[0] if plan.removed_blocks else {}
    kinds = {name: candidates[name].kind for name in plan.removed_blocks}
    remove_blocks(masked, [name for name in plan.removed_blocks if kinds[name] == "residual"])
    for name in plan.removed_blocks:
        if kinds[name] == "dense":
            block = masked.get_submodule(name)
            last = [layer for layer in block.modules() if isinstance(layer, nn.Conv2d)][-1]
            last.register_forward_hook(lambda m, i, o: torch.zeros_like(o))
    modules, narrow = dict(masked.named_modules()), dict(cut.named_modules())
    for name, layer_cut in plan.cuts.layers.items():
        if layer_cut.out is None:
            continue
        layer = modules[name]
        kept = torch.tensor(layer_cut.out)
        first = isinstance(layer, (nn.Conv2d, nn.BatchNorm2d)) or "LayerNorm2d" in str(type(layer))
        norm = narrow[name] if isinstance(layer, nn.LayerNorm) else None
        layer.register_forward_hook(_mask_hook(kept, 1 if first else -1, norm))
    with torch.no_grad():
        return masked(x)


def _mask_hook(kept, dim, norm):
    def hook(module, inputs, output):
        values = output.index_select(dim, kept)
        if norm is not None:  # it averages over the channels that are there
            values = norm(inputs[0].index_select(dim, kept))
        return torch.zeros_like(output).index_copy(dim, kept, values)

    return hook


def nearest_widths(layer: nn.Module, keep: float) -> int:
    """Return how far the target may be missed: by one, or by what whole groups force."""
    groups = getattr(layer, "groups", 1)
    if groups in (1, layer.out_channels if isinstance(layer, nn.Conv2d) else 1):
        return 1
    size, target = layer.out_channels // groups, keep * layer.out_channels
    reachable = {g * k for g in range(1, groups + 1) for k in range(1, size + 1)}
    return max(1, int(min(abs(n - target) for n in reachable) + 1))


def assert_widths(model: nn.Module, cut: nn.Module, keep: float) -> None:
    narrow = dict(cut.named_modules())
    layers = [(n, m) for n, m in model.named_modules() if isinstance(m, LAYERS) and n in narrow]
    grouped = max(nearest_widths(layer, keep) for _, layer in layers)
    assert narrow[layers[-1][0]].out_features == 10
    for name, layer in layers[:-1]:
        if isinstance(narrow[name], LAYERS):
            full, kept = (
                m.out_channels if isinstance(m, nn.Conv2d) else m.out_features
                for m in (layer, narrow[name])
            )
            assert abs(kept - max(1, keep * full)) <= grouped, (name, full, kept)


def check(name: str, scale: Scale, tmp_path) -> None:
    model, x = built(name), picture(name)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    scores = block_scores(name) if scale.depth < 1 and ":" in name else None
    cut, plan = triprune.prune(model, scale, example_input=x, block_scores=scores)
    assert type(cut) is type(model)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    with torch.no_grad():
        expected = masked_output(model, plan, cut.eval(), x)
        assert (cut(x) - expected).abs().max() <= 1e-5 * expected.abs().max()
    assert plan.resolution_px == int(x.shape[-1] * scale.resolution + 0.5)
    assert_widths(model, cut, scale.width)
    assert not plan.notes
    replayed = Plan.from_json(plan.to_json()).apply(model)
    states = cut.state_dict(), replayed.state_dict()
    assert states[0].keys() == states[1].keys() <= before.keys()
    assert all(torch.equal(value, states[1][key]) for key, value in states[0].items())
    triprune.save(cut, plan, tmp_path / "small", build=lambda: model)
    fresh = copy.deepcopy(model)
    for parameter in fresh.parameters():
        nn.init.normal_(parameter)
    loaded = triprune.load(tmp_path / "small", build=lambda: fresh).eval()
    side = plan.resolution_px
    smaller = functional.interpolate(picture(name, 2), size=(side, side))
    with torch.no_grad():
        assert torch.equal(loaded(smaller), cut(smaller))
    cut.train()
    cut(smaller).sum().backward()
    used = [p.grad for p in cut.parameters()]
    assert all(g is not None and g.isfinite().all() for g in used)


@pytest.mark.parametrize("scale", SCALES, ids=lambda s: "-".join(f"{v:g}" for v in s))
@pytest.mark.parametrize("name", RESIDUAL)
def test_prunes(name, scale, tmp_path):
    check(name, scale, tmp_path)


@pytest.mark.parametrize("scale", SCALES[1:3], ids=lambda s: f"{s.width:g}")
@pytest.mark.parametrize("name", PLAIN)
def test_prunes_the_width_of_networks_without_blocks(name, scale, tmp_path):
    check(name, scale, tmp_path)


@pytest.mark.parametrize("name", PLAIN)
def test_refuses_to_remove_blocks_where_there_are_none(name):
    with pytest.raises(triprune.errors.InputError, match="no block that can go"):
        triprune.prune(built(name), Scale(0.6, 1, 1), example_input=picture(name))


def test_resnet56_macs():
    model, x = built("resnet56"), picture("resnet56")
    full = triprune.profile(model, 32).macs
    narrow, _ = triprune.prune(model, Scale(width=0.5), example_input=x)
    assert 0.73 <= 1 - triprune.profile(narrow, 32).macs / full <= 0.76
    shallow, plan = triprune.prune(model, Scale(depth=14 / 27), example_input=x)
    assert len(plan.removed_blocks) == 13
    assert 0.45 <= triprune.profile(shallow, 32).macs / full <= 0.55
