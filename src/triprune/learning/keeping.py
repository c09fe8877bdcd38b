"""Owns leaving a model, and the world around it, as they were before something tried it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn


@contextmanager
def tensors_kept(model: nn.Module) -> Iterator[None]:
    """Give parameters and buffers back the numbers they have now, where they were changed."""
    held = [
        (tensor, tensor.detach().clone(), tensor.requires_grad)
        for tensor in (*model.parameters(), *model.buffers())
    ]
    try:
        yield
    finally:
        for tensor, numbers, learns in held:
            if tensor.requires_grad and not learns:
                tensor.detach_()
            if not torch.equal(tensor, numbers):  # batch norms leave versions as they are
                with torch.no_grad():
                    tensor.copy_(numbers)


@contextmanager
def attributes_kept(model: nn.Module) -> Iterator[None]:
    """Give all modules back the attributes they have now; a trace leaves proxies behind.

    Dictionaries, lists and sets stay the objects they are: handles of hooks point to them.
    """
    held = {
        module: [(name, value, _content(value)) for name, value in vars(module).items()]
        for module in model.modules()
    }
    try:
        yield
    finally:
        for module, attributes in held.items():
            vars(module).clear()
            vars(module).update((name, value) for name, value, _ in attributes)
        for attributes in held.values():
            for _, value, content in attributes:
                if not same_objects(_content(value), content):
                    _refill(value, content)


def _content(value: object) -> list[Any]:
    """Return what a container holds, keys and values in turn."""
    if isinstance(value, dict):
        return [part for item in value.items() for part in item]
    return list(value) if isinstance(value, (list, set)) else []


def _refill(value: Any, content: list[Any]) -> None:
    value.clear()
    if isinstance(value, dict):
        value.update(zip(content[::2], content[1::2], strict=True))
    elif isinstance(value, set):
        value.update(content)
    else:
        value.extend(content)


def state_of(model: nn.Module) -> list[object]:
    """Return the objects that the model's attributes are, and those inside of them."""
    values = [value for module in model.modules() for value in vars(module).values()]
    return [*values, *(part for value in values for part in _content(value))]


def same_objects(one: list[Any], other: list[Any]) -> bool:
    """Whether both lists hold the very same objects."""
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


@contextmanager
def draws_kept() -> Iterator[list[bool]]:
    """Give Python, numpy and torch back their random states; yields a list of whether they drew.

    It is filled at the end.
    """
    drew: list[bool] = []
    plain, numpys = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        torchs = torch.get_rng_state()
        try:
            yield drew
        finally:
            now = np.random.get_state()
            same = str(now) == str(numpys) and random.getstate() == plain
            drew.append(not (same and torch.equal(torch.get_rng_state(), torchs)))
            random.setstate(plain)
            np.random.set_state(numpys)
