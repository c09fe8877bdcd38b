"""Owns touching the user's model safely: copying it, and running it on an example.

It refuses what cannot be copied or run, before any surgery starts.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from triprune.errors import InputError
from triprune.network.structure.tracing import eval_mode

_LAZY = (UninitializedParameter, UninitializedBuffer)

Example = torch.Tensor | tuple[Any, ...]


def working_copy(model: nn.Module) -> nn.Module:
    """Return a deep copy of a model that surgery can work on, or explain why there is none."""
    asked = f"surgery on a {type(model).__name__}"
    if isinstance(model, torch.jit.ScriptModule) or hasattr(model, "_orig_mod"):
        raise InputError(
            asked,
            "it is compiled or scripted, so its layers are out of reach",
            "give the plain module, and compile what comes back",
        )
    if isinstance(model, nn.Module) and any(isinstance(t, _LAZY) for t in _tensors(model)):
        raise InputError(
            asked,
            "it has lazy layers that do not know their shapes yet",
            "run the model once on an example first",
        )
    return deep_copy(model, asked)


def deep_copy(model: nn.Module, asked: str) -> nn.Module:
    """Return a deep copy, so that nothing done to it reaches the user's model."""
    if not isinstance(model, nn.Module):
        raise InputError(asked, "it is not a torch.nn.Module", "give the model itself")
    try:
        return copy.deepcopy(model)
    except Exception as error:
        raise InputError(
            asked,
            f"copying it raised {type(error).__name__}: {error}",
            "make copy.deepcopy(model) work; weight_norm, for one, must be removed first",
        ) from error


def run_example(model: nn.Module, example_input: Example) -> Any:
    """Run the model in eval mode, without gradients, on the example moved to its device.

    What it draws at random is given back: the caller's random numbers stay as they were.
    """
    inputs = example_input if isinstance(example_input, tuple) else (example_input,)
    reference = next((p for p in model.parameters() if p.is_floating_point()), None)
    if reference is not None:
        inputs = tuple(_like(value, reference) for value in inputs)
    try:
        with eval_mode(model), torch.no_grad(), torch.random.fork_rng(devices=[]):
            return model(*inputs)
    except Exception as error:
        shapes = ", ".join(str(tuple(v.shape)) for v in inputs if isinstance(v, torch.Tensor))
        raise InputError(
            f"running {type(model).__name__} on an example input of shape {shapes or 'unknown'}",
            f"it raised {type(error).__name__}: {error}",
            "give an example input that the model accepts, for example torch.randn(1, 3, 224, 224)",
        ) from error


def output_tensors(output: Any) -> list[torch.Tensor]:
    """Return every floating-point tensor in an output, whatever it is wrapped in."""
    if isinstance(output, torch.Tensor):
        return [output] if output.is_floating_point() else []
    if isinstance(output, Mapping):
        output = list(output.values())
    elif dataclasses.is_dataclass(output):
        output = list(vars(output).values())
    if isinstance(output, (list, tuple)):
        return [tensor for item in output for tensor in output_tensors(item)]
    return []


def all_finite(tensor: torch.Tensor) -> bool:
    """Tell whether a tensor holds neither NaN nor infinity; a finite sum proves it at once."""
    return bool(tensor.sum().isfinite()) or bool(tensor.isfinite().all())


def _like(value: Any, reference: torch.Tensor) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return value.to(reference.device, reference.dtype if value.is_floating_point() else None)


def _tensors(model: nn.Module) -> list[torch.Tensor]:
    return [*model.parameters(), *model.buffers()]
