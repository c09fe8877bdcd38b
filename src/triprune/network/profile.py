"""Owns a model's profile: macs and params, in all and by layer; never touches the model itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from triprune.errors import InputError
from triprune.network.counting import MacCounter
from triprune.network.running import deep_copy

# Pixels of a square image, (height, width), or the whole shape (channels, height, width).
InputSize = int | tuple[int, ...]

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


@dataclass(frozen=True, slots=True)
class LayerProfile:
    """A module that owns parameters or macs; a parameter shared by two belongs to the first."""

    name: str
    kind: str
    output_shape: tuple[int, ...]
    macs: int
    params: int


@dataclass(frozen=True, slots=True)
class Profile:
    """Cost of one input of ``input_shape``; ``uncounted`` names products that no rule counts."""

    input_shape: tuple[int, ...]
    macs: int
    params: int
    layers: tuple[LayerProfile, ...]
    uncounted: tuple[str, ...] = ()


def profile(model: nn.Module, input_size: InputSize) -> Profile:
    """Count macs and params by running one input through a copy of ``model`` in eval mode.

    ``triprune.network.counting`` defines what a mac is. ``input_size`` is the side of a square
    image in pixels, (height, width) or (channels, height, width); channels that are left out are
    those of the model's first convolution. Layers come in the order in which they first ran.
    """
    twin = deep_copy(model, f"the profile of a {type(model).__name__}").eval()
    shape = input_shape(twin, input_size)
    macs: dict[str, int] = defaultdict(int)
    outputs: dict[str, tuple[int, ...]] = {}
    uncounted: dict[str, None] = {}
    with current_module(twin, outputs) as current:

        def add(count: int) -> None:
            macs[current[-1]] += count

        def name_it(operator: str) -> None:
            uncounted[f"{operator} in {current[-1] or 'the model itself'}"] = None

        with MacCounter(add, name_it):
            run_once(twin, example_input(twin, shape))
    params = _own_params(twin)
    kinds = {name: type(module).__name__ for name, module in twin.named_modules()}
    names = dict.fromkeys([*outputs, *macs, *params])
    layers = tuple(
        LayerProfile(
            name, kinds[name], outputs.get(name, ()), macs.get(name, 0), params.get(name, 0)
        )
        for name in names
        if macs.get(name) or params.get(name)
    )
    return Profile(shape, sum(macs.values()), sum(params.values()), layers, tuple(uncounted))


def input_shape(model: nn.Module, input_size: InputSize) -> tuple[int, ...]:
    """Return ``input_size`` as (channels, height, width), or explain why it cannot be meant."""
    square = not isinstance(input_size, (tuple, list, torch.Size))
    sizes: tuple[Any, ...] = (input_size, input_size) if square else tuple(input_size)
    whole = all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in sizes)
    if not whole or len(sizes) < 2:
        raise InputError(
            f"input_size={input_size!r}",
            "it is not a size of an image",
            "give pixels, (height, width) or (channels, height, width), as positive integers",
        )
    return sizes if len(sizes) > 2 else (_image_channels(model), *sizes)


def example_input(model: nn.Module, shape: tuple[int, ...], *, batch_size: int = 1) -> torch.Tensor:
    """Return random images on the model's own device, in its own precision."""
    like = next((p for p in model.parameters() if p.is_floating_point()), torch.empty(0))
    generator = torch.Generator().manual_seed(0)
    images = torch.randn((batch_size, *shape), generator=generator)
    return images.to(like.device, like.dtype)


def run_once(model: nn.Module, images: torch.Tensor) -> None:
    """Run ``images`` through ``model``; a forward that fails says at which size."""
    try:
        with torch.no_grad(), _plain_attention():
            model(images)
    except Exception as error:
        size = "×".join(str(n) for n in images.shape[1:])
        raise InputError(
            f"running {type(model).__name__} on an input of {size}",
            f"its forward raised {type(error).__name__}: {error}",
            "give the input size that the model expects",
        ) from error


@contextmanager
def _plain_attention() -> Iterator[None]:
    # The fused inference path hides all of attention's products in one operator.
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


@contextmanager
def current_module(twin: nn.Module, outputs: dict[str, tuple[int, ...]]) -> Iterator[list[str]]:
    """Yield the stack of modules being run, innermost last; note the shape each returns."""
    stack: list[str] = [""]

    def enter(name: str) -> Any:
        def hook(*_: Any) -> None:
            outputs.setdefault(name, ())
            stack.append(name)

        return hook

    def leave(name: str) -> Any:
        def hook(_module: nn.Module, _inputs: Any, output: Any) -> None:
            stack.pop()
            if isinstance(output, torch.Tensor):
                outputs[name] = tuple(output.shape[1:])

        return hook

    hooks = []
    for name, module in twin.named_modules():
        if isinstance(module, torch.jit.ScriptModule):  # takes no hooks; its parent answers for it
            continue
        hooks.append(module.register_forward_pre_hook(enter(name)))
        hooks.append(module.register_forward_hook(leave(name)))
    try:
        yield stack
    finally:
        for hook in hooks:
            hook.remove()


def _own_params(model: nn.Module) -> dict[str, int]:
    seen: set[nn.Parameter] = set()
    counts: dict[str, int] = {}
    for name, module in model.named_modules():
        own = {p for p in module.parameters(recurse=False) if p not in seen}
        seen |= own
        if own:
            counts[name] = sum(p.numel() for p in own)
    return counts


def _image_channels(model: nn.Module) -> int:
    first = next((m for m in model.modules() if isinstance(m, _CONVOLUTIONS)), None)
    return first.in_channels if first is not None and first.in_channels > 0 else 3
