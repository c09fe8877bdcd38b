"""Owns at which width a task trains; refuses to change the width of a training under way."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import torch
from torch import nn

from triprune.learning.checkpoint import read_state
from triprune.learning.recipe import Precision
from triprune.network.plan import Plan
from triprune.network.widening import Widening, widening_of
from triprune.places import place

if TYPE_CHECKING:
    from triprune.run.trainer import Task

_MULTIPLE = 8  # in 16 bits cuDNN copies any other count of channels into padded tensors
_WIDENED: tuple[Precision, ...] = ("fp16", "bf16")

# Seeds share a plan. What was found holds no tensors, and goes with its original.
_TRIED: WeakKeyDictionary[nn.Module, dict[tuple[str, int], Plan | None]] = WeakKeyDictionary()


def suiting_multiple(device: torch.device, precision: Precision) -> int:
    """Return the multiple of channels at which ``device`` trains best in a resolved precision.

    In TF32 the wider networks were slower (docs/adr/0096).
    """
    return _MULTIPLE if device.type == "cuda" and precision in _WIDENED else 1


def widening_for(task: Task, multiple: int) -> Widening | None:
    """Return how to train the task's model at multiples of channels, or None: as it is.

    A training that was begun at one width, on another device perhaps, goes on at it.
    """
    if task.plan is None or task.original is None:
        return None
    if task.checkpoint is not None and place(task.checkpoint).exists():
        began_wide = multiple if multiple > 1 else _MULTIPLE
        multiple = 1 if _is_saved_narrow(task) else began_wide
    return None if multiple == 1 else _proven(task.original, task.plan, multiple)


def _proven(original: nn.Module, plan: Plan, multiple: int) -> Widening | None:
    tried = _TRIED.setdefault(original, {})
    key = plan.to_json(), multiple
    if key not in tried:
        found = widening_of(original, plan, multiple)
        tried[key] = None if found is None else found.wide
    wide = tried[key]
    return None if wide is None else Widening(original, plan, wide)


def _is_saved_narrow(task: Task) -> bool:
    assert task.checkpoint is not None
    saved = read_state(task.checkpoint).tensors
    own = {f"model/{name}": tensor.shape for name, tensor in task.model.state_dict().items()}
    return all(name in saved and saved[name].shape == shape for name, shape in own.items())
