"""Owns the data set that ships in the package, so that everything runs without a download.

``fashion-mnist-small``: the first 1,000 training and 200 test images of each of the ten classes of
Fashion-MNIST (Xiao et al. 2017; © 2017 Zalando SE, MIT licence in the notice beside the file).
"""

from __future__ import annotations

from importlib import resources

import numpy as np
import torch

from triprune.learning.datasets.sources import Parts, TensorSource

NAME = "fashion-mnist-small"

CLASSES = (
    "T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag",
    "ankle boot",
)  # fmt: skip


def fashion_mnist_small() -> Parts:
    """Return 10,000 images to train on and 2,000 to test on, 28 px, grey."""
    file = resources.files("triprune.learning.datasets") / "fashion_mnist_small.npz"
    with file.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
        train, test = (
            TensorSource(
                torch.from_numpy(arrays[f"{part}_images"])[:, None],
                torch.from_numpy(arrays[f"{part}_labels"]).long(),
                CLASSES,
            )
            for part in ("train", "test")
        )
    return Parts(train, test)
