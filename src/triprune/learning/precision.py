"""Owns the arithmetic of a training: number formats and memory layout; refuses to leak them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from triprune.errors import InputError
from triprune.learning.recipe import Layout, Precision

# fp16 gradients of a mean loss are small; 1024 lifts them away from zero and stays far from
# fp16's largest number in networks with batch norm.
FP16_LOSS_SCALE = 1024.0
_AUTOCAST = {"bf16": torch.bfloat16, "bf16conv": torch.bfloat16, "fp16": torch.float16}


def resolved_precision(precision: Precision, device: torch.device) -> Precision:
    """Return what "auto" means on ``device``, or explain what ``device`` cannot do.

    The defaults hold on docs/results/engine.md, where bf16 lost 1.5 points; fp16 holds too, but
    its fixed loss scale suits networks with batch norm.
    """
    if precision == "auto":
        if device.type == "cuda":
            return "tf32"
        return "bf16conv" if device.type == "cpu" and multiplies_bf16() else "fp32"
    if precision == "fp16" and device.type != "cuda":
        raise InputError(
            f"precision fp16 on {device.type}", "it needs a CUDA device", "give bf16 or fp32"
        )
    return precision


def multiplies_bf16() -> bool:
    """Whether this processor has instructions for products in bf16: without, they are slower."""
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


def memory_format(
    layout: Layout, precision: Precision, device: torch.device
) -> torch.memory_format:
    """Return the layout of weights and activations; "auto" is NHWC but for plain fp32 on CUDA."""
    nchw = device.type == "cuda" and precision == "fp32" if layout == "auto" else layout == "nchw"
    return torch.contiguous_format if nchw else torch.channels_last


@contextmanager
def switches(precision: Precision, device: torch.device, *, search: bool = True) -> Iterator[None]:
    """Set the process-wide CUDA switches of ``precision`` inside, and as before outside.

    ``search`` lets cuDNN time its kernels for every new shape: worth it for a step seen often.
    """
    if device.type != "cuda":
        yield
        return
    cudnn: Any = torch.backends.cudnn
    matmul: Any = torch.backends.cuda.matmul
    before = cudnn.allow_tf32, matmul.allow_tf32, cudnn.benchmark
    try:
        cudnn.allow_tf32 = matmul.allow_tf32 = precision != "fp32"
        cudnn.benchmark = search
        yield
    finally:
        cudnn.allow_tf32, matmul.allow_tf32, cudnn.benchmark = before


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[object]:
    """Return the context for a forward pass in ``precision``."""
    dtype = product_format(precision)
    if dtype is None:
        return nullcontext()
    # Without the cache: a captured step must cast the weights anew at every replay.
    return torch.autocast(device.type, dtype=dtype, cache_enabled=False)


def product_format(precision: Precision) -> torch.dtype | None:
    """Return the 16-bit format that products are taken in; None where it is fp32 or TF32."""
    return _AUTOCAST.get(precision)


@contextmanager
def wide_outputs(model: nn.Module, precision: Precision) -> Iterator[None]:
    """Give the outputs of all products back in fp32 inside, where ``precision`` is "bf16conv".

    Batch norms and the sums between blocks then keep all their bits: bf16 loses its accuracy
    there, not in the products (docs/adr/0043).
    """
    products = (nn.modules.conv._ConvNd, nn.Linear)
    layers = [m for m in model.modules() if isinstance(m, products)]
    with ExitStack() as hooks:
        for layer in layers if precision == "bf16conv" else ():
            hooks.enter_context(layer.register_forward_hook(_widen))
        yield


def _widen(_layer: nn.Module, _inputs: tuple[Any, ...], output: torch.Tensor) -> torch.Tensor:
    return output.float()


@contextmanager
def overlapping_norms(model: nn.Module, device: torch.device) -> Iterator[None]:
    """Keep cuDNN out of the training of batch norms inside.

    Its kernels hold every multiprocessor until they end, so that nothing else overlaps with them
    and a second training side by side brings hardly anything (docs/adr/0094).
    """
    cudnn: Any = torch.backends.cudnn
    before = cudnn.enabled

    def leave(_norm: nn.Module, _inputs: tuple[Any, ...]) -> None:
        cudnn.enabled = False

    def go_back(_norm: nn.Module, _inputs: tuple[Any, ...], _output: object) -> None:
        cudnn.enabled = before

    norms = [m for m in model.modules() if isinstance(m, _BatchNorm) and device.type == "cuda"]
    with ExitStack() as hooks:
        for norm in norms:
            hooks.enter_context(norm.register_forward_pre_hook(leave))
            hooks.enter_context(norm.register_forward_hook(go_back, always_call=True))
        yield


@contextmanager
def laid_out(model: nn.Module, layout: torch.memory_format) -> Iterator[None]:
    """Hold the model's 4-d weights in ``layout`` inside, and in the usual one afterwards."""
    lay_out(model, layout)
    try:
        yield
    finally:
        lay_out(model, torch.contiguous_format)


def lay_out(model: nn.Module, layout: torch.memory_format) -> None:
    """Hold the model's 4-d weights in ``layout``."""
    model.to(memory_format=layout)  # pyright: ignore[reportCallIssue]


def on_stream(stream: torch.cuda.Stream | None) -> AbstractContextManager[object]:
    """Return the context that sends CUDA work to ``stream``; nothing where there is none."""
    return nullcontext() if stream is None else torch.cuda.stream(stream)
