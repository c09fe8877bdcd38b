"""Owns following channels through one forward pass; refuses to change the model it follows.

A dispatch mode sees every tensor operator, whatever Python the model is written in, so control
flow, functional calls and shared modules need no tracing of their own. Modules without parameters
that treat channels in a way no rule can follow (a zero-padded shortcut, a channel shuffle, a local
response norm) are *opaque*: they will run at their full width, see ``placing``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from triprune.network.channels.layers import LAYERS
from triprune.network.channels.ledger import Grid, Labels, Ledger
from triprune.network.channels.operators import KEEPS_GRIDS, POINTWISE, RULES, Dims, pointwise


class MakeOpaqueError(Exception):
    """A module without parameters does something with channels that no rule can follow."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class ChannelFlow(TorchDispatchMode):
    """Labels of every tensor of ``model``, learnt from the forward passes run inside ``follow``."""

    def __init__(self, model: nn.Module, opaque: frozenset[str] = frozenset()) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.tensors: dict[str, Dims] = {}
        self.inputs: dict[str, Labels] = {}
        self.channel_dim: dict[str, int] = {}
        self.placed: dict[str, tuple[Labels, Labels]] = {}
        self.used: set[str] = set()
        self._model = model
        self._opaque = opaque
        self._running: list[str] = []
        self._paused = 0
        # The tensors are held so that no id is given twice.
        self._labelled: dict[int, tuple[torch.Tensor, Dims]] = {}
        self._grids: dict[int, tuple[torch.Tensor, Grid]] = {}
        self._names: dict[int, str] = {}
        self._modules = dict(model.named_modules(remove_duplicate=False))
        for name, tensor in _stored_tensors(model):
            if id(tensor) not in self._labelled:
                owner = self._modules[name.rpartition(".")[0]]
                self._names[id(tensor)] = name
                self._labelled[id(tensor)] = (tensor, self._fresh_dims(owner, tensor))
            self.tensors[name] = self._labelled[id(tensor)][1]

    def _fresh_dims(self, owner: nn.Module, tensor: torch.Tensor) -> Dims:
        sizes = list(tensor.shape)
        if isinstance(owner, _ConvNd) and tensor.dim() > 2:
            sizes[2:] = [1] * (tensor.dim() - 2)
            if owner.groups > 1:
                sizes[1] = 1  # shared by the groups; the input's own labels tell what is read
        alone = tensor.dim() == 1
        return tuple(self.ledger.fresh(n) if n > 1 or alone else None for n in sizes)

    def dims(self, tensor: torch.Tensor) -> Dims:
        """Return the labels of each dimension: None where its size is not a number of channels."""
        found = self._labelled.get(id(tensor))
        return found[1] if found else (None,) * tensor.dim()

    def set(self, tensor: torch.Tensor, dims: Dims) -> None:
        """Give a result its labels."""
        self._labelled[id(tensor)] = (tensor, dims)

    def grid(self, tensor: torch.Tensor) -> Grid | None:
        """Return the channels that a reshape has cut up, if it has."""
        found = self._grids.get(id(tensor))
        return found[1] if found else None

    def set_grid(self, tensor: torch.Tensor, grid: Grid) -> None:
        """Note that channels lie over several dimensions of a result."""
        self._grids[id(tensor)] = (tensor, grid)

    def cut_up(self, tensor: torch.Tensor, grid: Grid) -> None:
        """Follow channels that a reshape cuts up: a shuffle, if they are put together again."""
        self._make_opaque()
        self.ledger.shuffled.append(grid.labels.reshape(-1))
        self.set_grid(tensor, grid)

    def counts_channels(self) -> None:
        """Note that the running operator's result depends on how many channels there are."""
        self.ledger.counted_in.append(self._running[-1] if self._running else "")

    def meet(self, first: Labels | None, second: Labels | None) -> None:
        """Tie two dimensions; one that meets a fixed size is pinned."""
        if first is not None and second is not None:
            self.ledger.tie(first, second)
        elif first is not None or second is not None:
            self.ledger.pin(first if second is None else second)  # pyright: ignore[reportArgumentType]

    def block(self, labels: Labels | None, reason: str) -> None:
        """Pin channels that cannot be followed further, unless a module can be made opaque."""
        if labels is None:
            return
        self._make_opaque()
        self.ledger.pin(labels, f"{reason} in {self.where()}")

    def _make_opaque(self) -> None:
        for name in self._running:
            if name and not self._modules[name].state_dict():
                raise MakeOpaqueError(name)

    def where(self) -> str:
        """Return the name of the innermost module that is running."""
        return (self._running[-1] if self._running else "") or "the model itself"

    def inside(self, kind: type[nn.Module]) -> bool:
        """Tell whether the running operator belongs to a layer of this kind."""
        return bool(self._running) and isinstance(self._modules[self._running[-1]], kind)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run the operator, then hand labels on."""
        del types
        result = func(*args, **(kwargs or {}))
        if not self._paused:
            self._hand_on(func, args, kwargs or {}, result)
        return result

    def _hand_on(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        operands = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        self.used.update(self._names[id(t)] for t in operands if id(t) in self._names)
        tracked = [t for t in operands if self.grid(t) or any(d is not None for d in self.dims(t))]
        if not tracked:
            return
        name = func.overloadpacket.__name__
        plain = name.rstrip("_") if name.endswith("_") and not name.startswith("__") else name
        for grid in map(self.grid, tracked):
            if grid is not None and plain not in KEEPS_GRIDS:
                self.block(grid.labels.reshape(-1), "are cut up by a reshape")
        rule = RULES.get(plain)
        if rule is not None:
            schema = func._schema.arguments
            named = dict(zip((a.name for a in schema), args, strict=False)) | kwargs
            rule(self, named, result)
        elif torch.Tag.pointwise in func.tags or plain in POINTWISE:
            for each in tree_leaves(result):
                if isinstance(each, torch.Tensor):
                    pointwise(self, operands, each)
        elif any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves(result)):
            for tensor in tracked:
                for labels in self.dims(tensor):
                    self.block(labels, f"enter the operator {name}")

    @contextmanager
    def _hooked(self) -> Iterator[None]:
        handles = []
        for name, module in self._model.named_modules():
            handles += [
                module.register_forward_pre_hook(lambda m, x, n=name: self._enter(n, m, x)),
                module.register_forward_hook(lambda m, x, y, n=name: self._leave(n, m, x, y)),
            ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def follow(self, *inputs: torch.Tensor) -> Any:
        """Run one forward pass and learn from it; the outputs' channels are pinned."""
        with torch.random.fork_rng(devices=[]), torch.no_grad(), self._hooked(), self:
            outputs = self._model(*inputs)
        for each in tree_leaves(outputs):
            if isinstance(each, torch.Tensor):
                for labels in self.dims(each):
                    if labels is not None:
                        self.ledger.pin(labels)
        return outputs

    def _enter(self, name: str, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        self._running.append(name)
        if name in self._opaque:
            self._paused += 1
        elif isinstance(module, LAYERS) and inputs and isinstance(inputs[0], torch.Tensor):
            self._read(name, module, self.dims(inputs[0]))

    def _read(self, name: str, layer: nn.Module, dims: Dims) -> None:
        """Note which labels a layer takes for its channels: tokens may carry labels too."""
        labelled = [place for place, labels in enumerate(dims) if labels is not None]
        if len(labelled) > 1:
            usual = len(dims) - 1 if isinstance(layer, (nn.Linear, nn.LayerNorm)) else 1
            labelled = [place for place in labelled if place == usual]
        for place in labelled:
            labels = dims[place]
            self.channel_dim[name] = place
            self.meet(self.inputs.setdefault(name, labels), labels)  # pyright: ignore

    def _leave(self, name: str, module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        self._running.pop()
        if name not in self._opaque:
            return
        if not self._paused - 1:
            self._pass_opaque(name, module, inputs, output)
        self._paused -= 1

    def _pass_opaque(self, name: str, module: nn.Module, inputs: Any, output: Any) -> None:
        tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
        single = len(tensors) == 1 and isinstance(output, torch.Tensor) and output.dim() > 1
        dims: Dims = self.dims(tensors[0]) if tensors else ()
        if not single or any(d is not None for k, d in enumerate(dims) if k != 1):
            for labels in (each for x in tensors for each in self.dims(x)):
                if labels is not None:
                    self.ledger.pin(labels, f"enter {name}, which takes more than one tensor")
            return
        into = self.dims(tensors[0])[1]
        if into is None:
            return
        out = self.ledger.fresh(output.shape[1])
        sources = _sources(module, tensors[0])
        if sources is not None:
            out = np.where(sources >= 0, into[sources], out)
        elif len(out) == len(into):
            out = into
        first = self.placed.setdefault(name, (into, out))
        self.meet(first[0], into)
        self.meet(first[1], out)
        self.set(output, (None, out, *[None] * (output.dim() - 2)))


def _sources(module: nn.Module, x: torch.Tensor) -> Labels | None:
    """Return which input channel each output channel copies, -1 for zeros; None if it does more."""
    channels = x.shape[1]
    ramp = torch.arange(1.0, channels + 1).reshape(1, -1, *[1] * (x.dim() - 2)).expand_as(x)
    answer, twice = module(ramp.clone()), module(2 * ramp)
    planes = answer.transpose(0, 1).reshape(answer.shape[1], -1)
    found = planes[:, 0].round().long()
    copies = (planes == found[:, None]).all() and ((found >= 0) & (found <= channels)).all()
    if not copies or not torch.equal(twice, 2 * answer):
        return None
    return found.numpy().astype(np.int64) - 1


def _stored_tensors(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    yield from model.named_parameters(remove_duplicate=False)
    yield from model.named_buffers(remove_duplicate=False)
