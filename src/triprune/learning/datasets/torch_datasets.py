"""Owns reading a user's own ``torch.utils.data.Dataset``; refuses pixels that were normalised."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from triprune.errors import DataError
from triprune.learning.datasets.image_files import pixels
from triprune.learning.datasets.sources import Parts, Size, fit


class DatasetSource:
    """A map-style data set of (image, class) pairs.

    An image is a Pillow image, uint8 or float in [0, 1], channels first (tensor) or last (array).
    It is read once, so a random transform inside the data set is frozen: augmentation is ours.
    """

    def __init__(self, dataset: Dataset[Any], labels: Tensor, classes: tuple[str, ...]) -> None:
        self._dataset = dataset
        self._places = torch.arange(len(labels))
        self.labels = labels
        self.classes = classes

    def name(self, index: int) -> str:
        """Return what to call an image in a message."""
        return f"item {int(self._places[index])} of {type(self._dataset).__name__}"

    def size(self, index: int) -> Size:
        """Return the stored size of an image."""
        image = self._image(index)
        if isinstance(image, Tensor):
            return image.shape[-2], image.shape[-1]
        return image.height, image.width

    def read(self, index: int, size: Size, channels: int) -> Tensor:
        """Return one image as uint8, ``channels``×height×width."""
        image = self._image(index)
        if isinstance(image, Tensor):
            return fit(image, size, channels)
        return pixels(image, size, channels)

    def mark(self, index: int, *, whole: bool) -> bytes:
        """Return the item's place: read twice, an image may come out of a random transform."""
        del whole
        return self.name(index).encode()

    def take(self, indices: Tensor) -> DatasetSource:
        """Return the source of the images at ``indices``, in that order."""
        part = DatasetSource(self._dataset, self.labels[indices], self.classes)
        part._places = self._places[indices]
        return part

    def _image(self, index: int) -> Any:
        image = self._dataset[int(self._places[index])][0]
        if isinstance(image, np.ndarray):
            array = image if image.ndim == 3 else image[:, :, None]
            return _as_bytes(torch.from_numpy(np.ascontiguousarray(array)).permute(2, 0, 1))
        if isinstance(image, Tensor):
            return _as_bytes(image if image.dim() == 3 else image[None])
        if hasattr(image, "convert"):
            return image
        raise TypeError(f"its image is a {type(image).__name__}")


def torch_datasets(train: Dataset[Any], test: Dataset[Any]) -> Parts:
    """Return two data sets of the user as the training and the test part."""
    labels = [_labels(dataset, name) for dataset, name in ((train, "train"), (test, "test"))]
    count = int(max(part.max() for part in labels)) + 1
    named = getattr(train, "classes", None)
    known = isinstance(named, (list, tuple)) and len(named) >= count
    classes = tuple(map(str, cast("list[Any]", named))) if known else tuple(map(str, range(count)))
    return Parts(DatasetSource(train, labels[0], classes), DatasetSource(test, labels[1], classes))


def _labels(dataset: Dataset[Any], part: str) -> Tensor:
    asked = f"the {part} data set ({type(dataset).__name__})"
    if not isinstance(dataset, Sized) or not hasattr(dataset, "__getitem__"):
        raise DataError(
            asked, "it has no length or no items", "give a map-style Dataset of (image, class)"
        )
    if not len(dataset):
        raise DataError(asked, "it is empty", "give at least one image a class")
    stored = getattr(dataset, "targets", None)
    if stored is None or len(stored) != len(dataset):
        stored = [_label(dataset, index, asked) for index in range(len(dataset))]
    labels = torch.as_tensor(stored)
    if labels.is_floating_point() or labels.dim() != 1 or int(labels.min()) < 0:
        raise DataError(asked, "its classes are not whole numbers from 0", "number them 0, 1, 2")
    return labels.long()


def _label(dataset: Dataset[Any], index: int, asked: str) -> int:
    try:
        _image, label = dataset[index]
        return int(label)
    except Exception as error:
        raise DataError(
            asked,
            f"item {index} gave no (image, class) pair ({type(error).__name__}: {error})",
            "return an image and a whole number, or set .targets to a list of them",
        ) from error


def _as_bytes(image: Tensor) -> Tensor:
    if image.dtype == torch.uint8:
        return image
    if not image.is_floating_point() or image.numel() == 0:
        raise TypeError(f"its pixels are {image.dtype}")
    low, high = float(image.min()), float(image.max())
    if not (low >= 0.0 and high <= 1.0):
        raise ValueError(
            f"its pixels lie in [{low:.3g}, {high:.3g}], not in [0, 1]: leave out Normalize"
        )
    return (image * 255).round_().to(torch.uint8)
