"""Owns the trainer that most people write: a DataLoader with workers, fp32, one step at a time.

It is the yardstick, so it is written fairly: several workers, pinned memory, copies that do not
block, cuDNN's search, PyTorch's own default of TF32 convolutions, and no loss read at every step.
"""

from __future__ import annotations

import time

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from triprune.learning.images import ImageSet
from triprune.learning.recipe import Recipe

WARM_UP_STEPS = 10


class AugmentedImages(Dataset[tuple[Tensor, int]]):
    """One image at a time: zero padding, random crop, random flip, normalisation."""

    def __init__(self, images: ImageSet) -> None:
        self._pixels = images.images.numpy()
        self._labels = images.labels.tolist()
        self._mean = np.asarray(images.mean, np.float32).reshape(-1, 1, 1)
        self._std = np.asarray(images.std, np.float32).reshape(-1, 1, 1)

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        size = self._pixels.shape[-1]
        padded = np.pad(self._pixels[index], ((0, 0), (4, 4), (4, 4)))
        top, left = torch.randint(0, 9, (2,)).tolist()
        crop = padded[:, top : top + size, left : left + size]
        if torch.rand(()) < 0.5:
            crop = crop[:, :, ::-1]
        normal = (crop.astype(np.float32) / 255 - self._mean) / self._std
        return torch.from_numpy(normal), self._labels[index]


def ordinary_images_per_second(
    model: nn.Module, images: ImageSet, recipe: Recipe, *, device: torch.device, workers: int
) -> tuple[float, int]:
    """Train for ``recipe.epochs``; return images per second after warming up, and their number."""
    loader = DataLoader(
        AugmentedImages(images),
        batch_size=recipe.batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        pin_memory=device.type == "cuda",
        persistent_workers=workers > 0,
    )
    model = model.to(device).train()
    criterion = nn.CrossEntropyLoss()
    optimiser = torch.optim.SGD(
        model.parameters(),
        lr=recipe.rate,
        momentum=recipe.momentum,
        weight_decay=recipe.weight_decay,
    )
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    started, seen, steps = 0.0, 0, 0
    for _ in range(recipe.epochs):
        for inputs, labels in loader:
            if steps == WARM_UP_STEPS:
                started, seen = _now(device), 0
            inputs = inputs.to(device, non_blocking=True)
            labels = labels.to(device, non_blocking=True)
            optimiser.zero_grad()
            criterion(model(inputs), labels).backward()
            optimiser.step()
            seen += len(labels)
            steps += 1
    torch.backends.cudnn.benchmark = before
    return seen / (_now(device) - started), seen


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
