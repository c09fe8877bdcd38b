"""Owns telling architectures apart; refuses to look at weights, devices or precision."""

from __future__ import annotations

import hashlib
import json
from itertools import chain

from torch import nn

_SETTINGS = ("kernel_size", "stride", "padding", "dilation", "groups", "num_groups")


def fingerprint(model: nn.Module) -> str:
    """Return a hash of the modules' names, classes, settings and the shapes of their tensors."""
    described = [
        (name, type(module).__qualname__, [_setting(module, key) for key in _SETTINGS])
        for name, module in model.named_modules(remove_duplicate=False)
    ]
    tensors = chain(
        model.named_parameters(remove_duplicate=False), model.named_buffers(remove_duplicate=False)
    )
    shapes = [(name, list(tensor.shape)) for name, tensor in tensors]
    text = json.dumps([described, shapes], sort_keys=True)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def _setting(module: nn.Module, key: str) -> object:
    value = getattr(module, key, None)
    plain = value if not isinstance(value, tuple) else list(value)
    return plain if isinstance(plain, (int, str, list)) else None
