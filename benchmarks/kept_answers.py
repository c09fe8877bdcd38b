"""Owns a teacher's answers on disk, for calls that follow one another on the same machine."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from triprune.learning.images import ImageSet
from triprune.learning.recipe import Recipe
from triprune.learning.teaching import Answers, Memory


class KeptMemory(Memory):
    """Remembers what other processes asked, too: a file for each teacher, images and way to ask."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def ask(
        self, teacher: nn.Module, images: ImageSet, recipe: Recipe, device: torch.device
    ) -> Answers:
        """Return what is on disk, or ask and write it down."""
        file = self._folder / f"{name_of(teacher, images, recipe)}.safetensors"
        if file.exists():
            return Answers(load_file(file, device=str(device))["table"])
        answers = super().ask(teacher, images, recipe, device)
        self._folder.mkdir(parents=True, exist_ok=True)
        begun = file.with_suffix(f".{os.getpid()}")
        save_file({"table": answers.table}, begun)
        begun.rename(file)
        return answers


def name_of(teacher: nn.Module, images: ImageSet, recipe: Recipe) -> str:
    """Return a name for these answers: by images, recipe, what the teacher prints and holds.

    Other code may give other answers: empty the folder when it changes.
    """
    asked = recipe.augment, recipe.padding, recipe.precision, recipe.layout, recipe.kernels
    found = hashlib.sha256(json.dumps([images.digest(), *asked, repr(teacher)]).encode())
    for name, tensor in teacher.state_dict().items():
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        numbers = tensor.detach().cpu().contiguous().reshape(-1)
        found.update(numbers.view(torch.uint8).numpy().tobytes())
    return found.hexdigest()[:16]
