"""Owns what the last convolution of each finished model sees on the same few images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from triprune.learning.evaluation import Inputs, evaluating
from triprune.learning.images import ImageSet, ImageStream, resize
from triprune.run.artifacts import Parts
from triprune.run.sample import pixels_of
from triprune.run.trainer import Task

_SHOWN = 6
_COMPARED = 64
_SHOWN_PX = 96


@dataclass(frozen=True, slots=True, eq=False)
class FeatureMaps:
    """The mean absolute activation over channels (Wang et al. 2021, Figure 6), by model.

    ``images`` is uint8, n×c×h×w, with the name of each one's class in ``labels``; ``maps`` are
    n×h×w. ``likeness`` is the mean correlation of a model's maps with the original's, over
    ``compared`` validation images. All are empty where there are no images.
    """

    images: Tensor = field(default_factory=lambda: torch.zeros(0, 1, 1, 1, dtype=torch.uint8))
    labels: tuple[str, ...] = ()
    maps: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    likeness: dict[str, float] = field(default_factory=dict[str, float])
    compared: int = 0

    def to_parts(self) -> Parts:
        """Return labels and likeness as plain values, and pictures and maps as tensors."""
        values = {"labels": self.labels, "likeness": self.likeness, "compared": self.compared}
        return values, {"images": self.images} | {f"map/{n}": m for n, m in self.maps.items()}

    @classmethod
    def from_parts(cls, values: dict[str, Any], tensors: dict[str, Tensor]) -> FeatureMaps:
        """Rebuild the maps."""
        maps = {n[4:]: tensor for n, tensor in tensors.items() if n.startswith("map/")}
        ordered = {name: maps[name] for name in values["likeness"]}
        labels = tuple(values["labels"])
        return cls(tensors["images"], labels, ordered, values["likeness"], values["compared"])


def feature_maps(tasks: Mapping[str, Task], images: ImageSet | ImageStream) -> FeatureMaps:
    """Look at the same validation images with every model; the first task is the original's."""
    # Spread over the set, which may be sorted by class.
    spread = torch.linspace(0, len(images) - 1, min(_COMPARED, len(images)))
    compared = images.take(spread.long())
    seen = {name: _last_maps(task, compared) for name, task in tasks.items()}
    original = next(iter(seen.values()))
    pixels, labels = pixels_of(compared)
    shown = _one_a_class(labels)
    return FeatureMaps(
        images=resize(pixels[shown], min(_SHOWN_PX, compared.resolution_px)),
        labels=tuple(images.classes[int(label)] for label in labels[shown]),
        maps={name: found[shown] for name, found in seen.items()},
        likeness={name: _likeness(found, original) for name, found in seen.items()},
        compared=len(compared),
    )


@torch.no_grad()
def _last_maps(task: Task, images: ImageSet | ImageStream) -> Tensor:
    """Return what the convolution that runs last puts out, n×h×w."""
    last: list[Tensor] = []

    def note(_module: nn.Module, _inputs: Any, output: Tensor) -> None:
        # A classifier may be a convolution too; on a map of one pixel there is nothing to see.
        if not last or output.shape[-1] > 1:
            last[:] = [output]

    convolutions = [m for m in task.model.modules() if isinstance(m, nn.Conv2d)]
    hooks = [each.register_forward_hook(note) for each in convolutions]
    found: list[Tensor] = []
    try:
        with evaluating(task.model):
            for batch, _ in Inputs(task.model, images, resolution_px=task.resolution_px):
                last.clear()
                task.model(batch)
                found.append(last[0].float().abs().mean(1).cpu())
    finally:
        for hook in hooks:
            hook.remove()
    return torch.cat(found)


def _one_a_class(labels: Tensor) -> Tensor:
    """Return the places of the first image of each of the first classes that come up."""
    places = {int(label): place for place, label in reversed(list(enumerate(labels)))}
    return torch.tensor(sorted(places.values())[:_SHOWN])


def _likeness(maps: Tensor, original: Tensor) -> float:
    """Return the mean over images of the correlation of two maps, at the original's size."""
    size = original.shape[-2:]
    grown = functional.interpolate(maps[:, None], size=size, mode="bilinear", align_corners=False)
    a, b = (each.reshape(len(maps), -1) for each in (grown[:, 0], original))
    a, b = a - a.mean(1, keepdim=True), b - b.mean(1, keepdim=True)
    return float(functional.cosine_similarity(a, b, dim=1).mean())
