"""Owns how a network is trained: one frozen recipe, its presets and its learning rates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from itertools import pairwise
from typing import Literal, get_args

from triprune.core.scale import finite_number
from triprune.errors import InputError

Schedule = Literal["multi-step", "cosine"]
Precision = Literal["auto", "fp32", "tf32", "bf16", "bf16conv", "fp16"]
Layout = Literal["auto", "nchw", "nhwc"]
Padding = Literal["zero", "reflect"]
Kernels = Literal["own", "torch"]
FINE_TUNING_RATE = 0.1  # of the rate from scratch: the paper says only "a small learning rate"


def refuse_unknown(given: Mapping[str, object], known: set[str], asked: str) -> None:
    """Refuse settings that do not exist, by name, and tell those that do."""
    unknown = sorted(set(given) - known)
    if unknown:
        raise InputError(
            f"{asked} with {', '.join(unknown)}",
            "there are no such settings",
            f"use {', '.join(sorted(known))}",
        )


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to train: SGD with momentum; the defaults are the paper's for CIFAR-10.

    The presets add a warm-up, without which ResNet-56 loses a point (docs/adr/0060).

    ``milestones`` are fractions of the training at which the multi-step rate is divided by ten,
    so that they keep their meaning when ``epochs`` changes. ``distillation`` is the weight of the
    original model's soft answers in the loss of every fine-tuning. ``round_rate`` begins the
    fine-tuning after a round, a tenth of ``rate`` if None; ``final_rate`` begins the final one, as
    a round if None. ``padding`` fills the border of the random crops: black pixels, as in the
    published trainings, or the image mirrored. ``precision`` and ``layout`` "auto" are the fastest
    that were shown to keep accuracy on the device at hand (docs/results/engine.md); "bf16conv"
    rounds what convolutions and linear layers multiply, and leaves all else in fp32. ``kernels``
    are our own on a GPU with Triton, wherever they suit the network (docs/adr/0101), or torch's.
    """

    epochs: int = 160
    batch_size: int = 128
    rate: float = 0.1
    schedule: Schedule = "multi-step"
    milestones: tuple[float, ...] = (0.5, 0.75)
    warmup_epochs: float = 0.0
    momentum: float = 0.9
    weight_decay: float = 1e-4
    label_smoothing: float = 0.0
    distillation: float = 0.0
    temperature: float = 4.0
    augment: bool = True
    padding: Padding = "zero"
    precision: Precision = "auto"
    layout: Layout = "auto"
    round_epochs: int = 40
    final_epochs: int = 80
    final_rate: float | None = None
    round_rate: float | None = None
    kernels: Kernels = "own"

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "round_epochs", "final_epochs"):
            _whole(getattr(self, name), name)
        for name, (low, high) in _BOUNDS.items():
            _between(getattr(self, name), name, low, high)
        for name in ("rate", "final_rate", "round_rate"):
            if getattr(self, name) is not None:
                _between(getattr(self, name), name, *_BOUNDS["rate"])
            if getattr(self, name) == 0:
                raise InputError(f"{name} = 0", "nothing would be learned", "give a positive rate")
        _one_of(self.schedule, "schedule", get_args(Schedule))
        _one_of(self.precision, "precision", get_args(Precision))
        _one_of(self.layout, "layout", get_args(Layout))
        _one_of(self.padding, "padding", get_args(Padding))
        _one_of(self.kernels, "kernels", get_args(Kernels))
        if not isinstance(self.milestones, (tuple, list)):
            raise InputError(
                f"milestones = {self.milestones!r}", "it is no list", "give one, as [0.5, 0.75]"
            )
        object.__setattr__(self, "milestones", tuple(self.milestones))
        for milestone in self.milestones:
            _between(milestone, "milestones", 0.0, 1.0)
        if list(self.milestones) != sorted(self.milestones):
            raise InputError(
                f"milestones = {self.milestones}", "they do not rise", "sort them, as 0.5, 0.75"
            )
        if self.warmup_epochs >= self.epochs:
            raise InputError(
                f"warmup_epochs = {self.warmup_epochs:g} of {self.epochs} epochs",
                "the training would be all warm-up",
                "warm up for less, or train for longer",
            )

    @classmethod
    def preset(cls, name: str) -> Recipe:
        """Return the recipe called ``name``: cifar10, tiny-imagenet, imagenet or demo."""
        if name not in PRESETS:
            raise InputError(
                f"recipe {name!r}", "there is no such preset", f"name one of {', '.join(PRESETS)}"
            )
        return PRESETS[name]

    @classmethod
    def from_mapping(cls, values: Mapping[str, object]) -> Recipe:
        """Return the recipe with ``values``, as ``asdict`` or a TOML table gives them."""
        refuse_unknown(values, {field.name for field in fields(cls)}, "a recipe")
        given = dict(values)
        milestones = given.get("milestones")
        if isinstance(milestones, list):
            given["milestones"] = tuple(milestones)
        return cls(**given)  # pyright: ignore[reportArgumentType]

    def to_mapping(self) -> dict[str, object]:
        """Return the settings as plain values for JSON or TOML.

        A setting that came later is told only where it is not the default, so that runs and
        trainings begun before it go on.
        """
        told = {**asdict(self), "milestones": list(self.milestones)}
        return {name: told[name] for name in told if told[name] != _LATER.get(name, ...)}

    def fine_tuning(self, *, final: bool = False) -> Recipe:
        """Return the recipe for after a pruning round, or for the ``final`` training."""
        epochs = self.final_epochs if final else self.round_epochs
        warmup = min(self.warmup_epochs, epochs / 10)
        rate = self.rate * FINE_TUNING_RATE if self.round_rate is None else self.round_rate
        if final and self.final_rate is not None:
            rate = self.final_rate
        return replace(self, epochs=epochs, rate=rate, warmup_epochs=warmup)

    def from_scratch(self) -> Recipe:
        """Return the recipe for a training that has no original to learn from."""
        return replace(self, distillation=0.0)

    def rate_at(self, progress: float) -> float:
        """Return the learning rate after ``progress`` epochs (a fraction inside an epoch)."""
        if progress < self.warmup_epochs:
            return self.rate * progress / self.warmup_epochs
        done = progress / self.epochs
        if self.schedule == "cosine":
            rest = self.epochs - self.warmup_epochs
            turn = (progress - self.warmup_epochs) / rest
            return self.rate * 0.5 * (1 + math.cos(math.pi * min(1.0, turn)))
        return self.rate * 0.1 ** sum(done >= milestone - 1e-9 for milestone in self.milestones)

    def rates(self, epoch: int, steps: int) -> list[float]:
        """Return the rate of each of the ``steps`` of ``epoch``, counted from 0.

        Warm-up and cosine follow every step: a warm-up from the end of the step, so that the first
        one already learns, a cosine from its beginning, so that the last one still does.
        Milestones fall between epochs.
        """
        smooth = self.schedule == "cosine" or epoch < self.warmup_epochs
        if not smooth:
            return [self.rate_at(epoch)] * steps
        edges = [epoch + step / steps for step in range(steps + 1)]
        return [
            self.rate_at(max(begun, min(ended, self.warmup_epochs)))
            for begun, ended in pairwise(edges)
        ]


_LATER = {"round_rate": None, "kernels": "own"}
_BOUNDS = {
    "rate": (0.0, math.inf),
    "warmup_epochs": (0.0, math.inf),
    "momentum": (0.0, 0.9999),
    "weight_decay": (0.0, 1.0),
    "label_smoothing": (0.0, 0.9),
    "distillation": (0.0, 1.0),
    "temperature": (0.1, 100.0),
}


def _whole(value: object, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"{name} = {value!r}", "it is not a whole number above 0", "give one")


def _between(value: object, name: str, low: float, high: float) -> None:
    number = finite_number(value, name)
    if not low <= number <= high:
        bounds = f"{low:g} or more" if high == math.inf else f"{low:g} to {high:g}"
        raise InputError(f"{name} = {value!r}", "it is out of bounds", f"give {bounds}")


def _one_of(value: object, name: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InputError(
            f"{name} = {value!r}", "there is no such choice", f"give one of {', '.join(choices)}"
        )


_IMAGENETS = Recipe(
    epochs=100,
    batch_size=256,
    milestones=(0.3, 0.6, 0.9),
    warmup_epochs=1.0,
    round_epochs=30,
    final_epochs=60,
)
PRESETS: dict[str, Recipe] = {
    "cifar10": Recipe(warmup_epochs=1.0),
    "tiny-imagenet": _IMAGENETS,
    "imagenet": _IMAGENETS,
    "demo": Recipe(epochs=5, schedule="cosine", warmup_epochs=0.5, round_epochs=1, final_epochs=2),
}
