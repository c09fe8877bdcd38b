import pytest
import torch

from triprune.errors import InputError
from triprune.learning.evaluation import evaluate
from triprune.learning.job import Job
from triprune.learning.precision import (
    autocast,
    memory_format,
    overlapping_norms,
    resolved_precision,
    switches,
    wide_outputs,
)
from triprune.learning.recipe import Recipe
from triprune.learning.training import train

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def test_switches_are_put_back():
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    before = cudnn.allow_tf32, matmul.allow_tf32, cudnn.benchmark
    with switches("tf32", CUDA):
        assert (cudnn.allow_tf32, matmul.allow_tf32, cudnn.benchmark) == (True, True, True)
        with switches("fp32", CUDA, search=False):
            assert (cudnn.allow_tf32, matmul.allow_tf32, cudnn.benchmark) == (False, False, False)
        assert (cudnn.allow_tf32, matmul.allow_tf32, cudnn.benchmark) == (True, True, True)
    assert (cudnn.allow_tf32, matmul.allow_tf32, cudnn.benchmark) == before


def test_fp16_needs_a_gpu():
    with pytest.raises(InputError, match="needs a CUDA device"):
        resolved_precision("fp16", CPU)
    assert resolved_precision("fp16", CUDA) == "fp16"


def test_layouts():
    assert memory_format("auto", "fp32", CPU) == torch.channels_last
    assert memory_format("nchw", "bf16", CPU) == torch.contiguous_format
    assert memory_format("auto", "bf16", CUDA) == torch.channels_last
    assert memory_format("auto", "fp32", CUDA) == torch.contiguous_format


def test_the_default_on_cuda_is_tf32_with_channels_last():
    assert resolved_precision("auto", CUDA) == "tf32"
    assert memory_format("auto", "tf32", CUDA) == torch.channels_last


@pytest.mark.parametrize(("able", "meant"), [(True, "bf16conv"), (False, "fp32")])
def test_the_default_on_the_cpu_is_what_it_multiplies_fastest(monkeypatch, able, meant):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: able)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    assert resolved_precision("auto", CPU) == meant


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16", "bf16conv"])
def test_every_precision_learns_on_the_cpu(tiny_net, coloured_images, precision):
    recipe = Recipe(epochs=6, batch_size=16, rate=0.05, precision=precision)
    result = train(Job(tiny_net(), coloured_images(), recipe, device="cpu"))
    assert evaluate(result.model, coloured_images(seed=3)).accuracy > 0.8
    assert all(tensor.dtype == torch.float32 for tensor in result.model.parameters())


def test_only_products_are_rounded(tiny_net):
    model, images = tiny_net(), torch.rand(4, 3, 8, 8)
    seen: dict[str, torch.dtype] = {}
    for name in ("stem.0", "stem.1", "block.2", "head"):
        model.get_submodule(name).register_forward_hook(
            lambda _layer, _inputs, output, name=name: seen.update({name: output.dtype})
        )
    plain = model(images)
    with wide_outputs(model, "bf16conv"), autocast("bf16conv", CPU):
        rounded = model(images)
    assert seen["stem.0"] is torch.bfloat16  # seen before it is widened
    assert seen["stem.1"] is seen["block.2"] is torch.float32
    assert rounded.dtype is torch.float32
    assert not torch.equal(rounded, plain)
    torch.testing.assert_close(rounded, plain, rtol=0.05, atol=0.05)
    assert torch.equal(model(images), plain)


def test_other_precisions_leave_the_model_alone(tiny_net):
    model = tiny_net()
    with wide_outputs(model, "bf16"):
        assert not any(module._forward_hooks for module in model.modules())


def test_norms_leave_cudnn_for_themselves_alone(tiny_net):
    model, images = tiny_net(), torch.rand(4, 3, 8, 8)
    plain = model(images)
    seen: dict[str, bool] = {}
    with overlapping_norms(model, torch.device("cuda")):
        for name in ("stem.0", "stem.1", "block.0"):
            model.get_submodule(name).register_forward_pre_hook(
                lambda *_, name=name: seen.update({name: torch.backends.cudnn.enabled})
            )
        assert torch.equal(model(images), plain)
    assert seen == {"stem.0": True, "stem.1": False, "block.0": True}
    model(images)
    assert seen["stem.1"]


def test_a_failing_norm_leaves_cudnn_on(tiny_net):
    norm = tiny_net().get_submodule("stem.1")
    with overlapping_norms(norm, torch.device("cuda")), pytest.raises(ValueError, match="4D"):
        norm(torch.rand(3))
    assert torch.backends.cudnn.enabled


def test_norms_on_a_cpu_are_left_alone(tiny_net):
    model = tiny_net()
    with overlapping_norms(model, CPU):
        assert not any(module._forward_pre_hooks for module in model.modules())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_norms_without_cudnn_give_the_same_gradients(tiny_net):
    device = torch.device("cuda")
    model, images = tiny_net().to(device), torch.rand(16, 3, 8, 8, device=device)
    parameters = list(model.parameters())
    plain = torch.autograd.grad(model(images).square().sum(), parameters)
    with overlapping_norms(model, device):
        mine = torch.autograd.grad(model(images).square().sum(), parameters)
    for ours, theirs in zip(mine, plain, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=2e-3, atol=1e-3)
