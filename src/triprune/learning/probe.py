"""Owns linear-probe importance of blocks (DBP): what each adds; refuses to train or to prune.

A linear classifier reads the pooled features that enter and leave every block. The importance of
a block is the accuracy that its features gain over those before it (Wang et al. 2021, Sec. 3.3,
following DBP). One pass over the data collects all features; all classifiers are then fitted
together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from triprune.errors import InputError
from triprune.learning.evaluation import Inputs, device_of, evaluating
from triprune.learning.images import ImageSet, ImageStream
from triprune.learning.linear import fit_linear, linear_accuracy
from triprune.learning.precision import switches

MOST_IMAGES = 50_000  # a linear classifier gains nothing from more


@dataclass(frozen=True, slots=True)
class BlockProbe:
    """Validation accuracy of linear classifiers on the features before and after one block."""

    before: float
    after: float

    @property
    def gain(self) -> float:
        """What the block adds: its importance."""
        return self.after - self.before


def probe_blocks(
    model: nn.Module,
    blocks: Sequence[str],
    *,
    train: ImageSet | ImageStream,
    validation: ImageSet | ImageStream,
    resolution_px: int | None = None,
) -> dict[str, BlockProbe]:
    """Measure what every block of ``blocks`` (module names) adds; the model stays as it is."""
    modules = _modules(model, blocks)
    generator = torch.Generator().manual_seed(0)
    chosen = torch.randperm(len(train), generator=generator)[:MOST_IMAGES]
    learn = _features(model, modules, train.take(chosen), resolution_px)
    judge = _features(model, modules, validation, resolution_px)
    accuracy: dict[str, float] = {}
    for names in learn.by_width():
        weights = fit_linear(learn.stacked(names), learn.labels, len(train.classes))
        scores = linear_accuracy(judge.stacked(names), judge.labels, weights).tolist()
        accuracy |= dict(zip(names, scores, strict=True))
    return {
        name: BlockProbe(accuracy[before], accuracy[after])
        for name, (before, after) in learn.ends.items()
    }


def block_scores(probes: dict[str, BlockProbe]) -> dict[str, float]:
    """Return the importance of every block, as ``prune(block_scores=...)`` takes it."""
    return {name: probe.gain for name, probe in probes.items()}


def _modules(model: nn.Module, blocks: Sequence[str]) -> dict[str, nn.Module]:
    known = dict(model.named_modules())
    missing = [name for name in blocks if name not in known]
    if missing or not blocks:
        found = f"the model has no module {missing[0]!r}" if missing else "no block was named"
        raise InputError("probing blocks", found, "name modules as model.named_modules() does")
    return {name: known[name] for name in blocks}


@dataclass(frozen=True, slots=True, eq=False)
class _Features:
    """Pooled features N×C by name, which of them enter and leave every block, and the labels."""

    pooled: dict[str, Tensor]
    ends: dict[str, tuple[str, str]]
    labels: Tensor

    def by_width(self) -> Iterator[list[str]]:
        for width in sorted({tensor.shape[1] for tensor in self.pooled.values()}):
            yield [name for name, tensor in self.pooled.items() if tensor.shape[1] == width]

    def stacked(self, names: Sequence[str]) -> Tensor:
        return torch.stack([self.pooled[name] for name in names])


@torch.no_grad()
def _features(
    model: nn.Module,
    modules: dict[str, nn.Module],
    images: ImageSet | ImageStream,
    resolution_px: int | None,
) -> _Features:
    parts: dict[str, list[Tensor]] = {}
    labels: list[Tensor] = []
    ends: dict[str, tuple[str, str]] = {}
    device = device_of(model)
    with evaluating(model), switches("fp32", device, search=False), watched(modules) as seen:
        for inputs, answers in Inputs(model, images, resolution_px=resolution_px):
            seen.clear()
            model(inputs)
            labels.append(answers)
            for name, tensor in seen.pooled.items():
                parts.setdefault(name, []).append(tensor)
            ends = dict(seen.ends)
    silent = [name for name in modules if name not in ends]
    if silent:
        raise InputError("probing blocks", f"{silent[0]!r} was never run", "leave it out")
    features = {name: torch.cat(tensors) for name, tensors in parts.items()}
    return _Features(features, ends, torch.cat(labels))


class _Sightings:
    """The features of one batch. A tensor that leaves one block and enters the next counts once."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.pooled: dict[str, Tensor] = {}
        self.ends: dict[str, tuple[str, str]] = {}
        self._known: dict[tuple[int, int], str] = {}
        self._alive: list[Tensor] = []  # an id means nothing once its tensor is gone

    def hook(self, name: str) -> Callable[[nn.Module, tuple[object, ...], object], None]:
        def note(_: nn.Module, inputs: tuple[object, ...], output: object) -> None:
            entering = inputs[0] if inputs else None
            if not isinstance(entering, Tensor) or not isinstance(output, Tensor):
                found = f"{name!r} does not turn one tensor into another"
                raise InputError("probing blocks", found, "leave it out")
            before = self._name(entering, f"{name} in")
            if entering.shape[1] == output.shape[1] or entering.shape[2:] != output.shape[2:]:
                after = self._name(output, f"{name} out")
            else:
                # A dense layer adds channels beside those it reads: after it, both are known.
                after = f"{name} both"
                self.pooled[after] = torch.cat([pooled(entering), pooled(output)], 1)
            self.ends[name] = before, after

        return note

    def _name(self, tensor: Tensor, name: str) -> str:
        key = id(tensor), tensor._version
        if key not in self._known:
            self._known[key] = name
            self._alive.append(tensor)
            self.pooled[name] = pooled(tensor)
        return self._known[key]


@contextmanager
def watched(modules: dict[str, nn.Module]) -> Iterator[_Sightings]:
    """Note the features around ``modules`` inside; hooks are gone afterwards."""
    seen = _Sightings()
    with ExitStack() as hooks:
        for name, module in modules.items():
            hooks.enter_context(module.register_forward_hook(seen.hook(name)))
        yield seen


def pooled(tensor: Tensor) -> Tensor:
    """Return N×C features: the mean over pixels of N×C×H×W, or over tokens of N×L×C."""
    if tensor.ndim == 4:
        return tensor.float().mean((2, 3))
    if tensor.ndim == 3:
        return tensor.float().mean(1)
    return tensor.float().flatten(1)
