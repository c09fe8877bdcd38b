"""Owns the way from a name, a folder or a data set to splits; refuses to guess a layout.

A source is ``fashion-mnist-small`` (shipped, the default), a folder that holds CIFAR-10, CIFAR-100
or TinyImageNet in an official layout or ``train/ val/`` with a folder a class, or a pair of your
own ``torch.utils.data.Dataset``: (train, test).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from triprune.errors import DataError, InputError
from triprune.learning.datasets import cifar, embedded, folders
from triprune.learning.datasets.sources import Parts, Source
from triprune.learning.datasets.torch_datasets import torch_datasets
from triprune.learning.images import Splits
from triprune.learning.loading import Reading, load_splits

DataSource = str | Path | tuple[Dataset[Any], Dataset[Any]]


def load_data(
    source: DataSource = embedded.NAME,
    reading: Reading | None = None,
    *,
    validation: float | str = 0.1,
    seed: int = 0,
) -> Splits:
    """Return train, validation and sealed test; validation is cut from train, class by class.

    ``validation`` is the fraction of train to hold out, or ``"test:2000"``: so many images of the
    test part, which then leave the sealed test. That is for weights from elsewhere, which have
    been trained on all of train. Where the data set brings a validation part of its own
    (``train/ val/ test/``), that is used.
    """
    parts = _parts(source)
    _check_classes(parts.train, "the training part", fewest=2)
    _check_classes(parts.test, "the test part", fewest=1)
    if isinstance(validation, str):
        return _validated_on_test(parts, reading or Reading(), validation, seed)
    if parts.validation is None:
        kept, held_out = stratified(parts.train.labels, validation, seed=seed)
        parts = Parts(parts.train.take(kept), parts.test, parts.train.take(held_out))
    return load_splits(parts, reading or Reading())


def _validated_on_test(parts: Parts, reading: Reading, validation: str, seed: int) -> Splits:
    """Return the splits whose validation images were taken out of the test part."""
    asked = f"validation = {validation!r}"
    if parts.validation is not None:
        raise DataError(asked, "the data has a validation part of its own", "leave the setting out")
    part, _, count = validation.partition(":")
    images, classes = len(parts.test.labels), len(parts.test.classes)
    if part != "test" or not count.isdecimal() or not classes <= int(count) < images:
        raise InputError(
            asked,
            "it is neither a fraction of the training images nor a number of test images",
            f"give 0.1, for example, or test:N with {classes} to {images - 1} images",
        )
    kept, held_out = stratified(parts.test.labels, int(count) / images, seed=seed)
    cut = Parts(parts.train, parts.test.take(kept), parts.test.take(held_out))
    note = (
        f"validation: {len(held_out):,} images taken out of the test part by seed {seed}; "
        f"test accuracies are of the other {len(kept):,}"
    )
    loaded = load_splits(cut, reading)
    return replace(loaded, notes=(note, *loaded.notes))


def stratified(labels: Tensor, fraction: float, *, seed: int) -> tuple[Tensor, Tensor]:
    """Return the indices to keep and to hold out: ``fraction`` of every class, at least one image.

    A class keeps at least one image too. The same seed gives the same cut on every machine.
    """
    if isinstance(fraction, bool) or not 0 < fraction < 1:
        raise InputError(
            f"validation = {fraction!r}",
            "it lies outside (0, 1)",
            "give the fraction of the training images to hold out, for example 0.1",
        )
    generator = torch.Generator().manual_seed(seed)
    held_out = torch.zeros(len(labels), dtype=torch.bool)
    for number in labels.unique():
        members = (labels == number).nonzero().view(-1)
        count = min(max(1, round(fraction * len(members))), len(members) - 1)
        held_out[members[torch.randperm(len(members), generator=generator)[:count]]] = True
    return (~held_out).nonzero().view(-1), held_out.nonzero().view(-1)


def find_layouts(folder: Path) -> dict[str, Callable[[], Parts]]:
    """Return a reader for each data set that ``folder`` holds, by the name of its layout."""
    found: dict[str, Callable[[], Parts]] = {}
    for name, layouts in cifar.LAYOUTS.items():
        for layout in layouts:
            home = layout.home(folder)
            if home is not None:
                kind = "binary" if layout.binary else "python"
                found[f"{name} ({kind}, {home})"] = partial(cifar.read_cifar, home, layout)
    for home in (folder, folder / "tiny-imagenet-200"):
        if (home / "wnids.txt").is_file() and (home / "val" / "val_annotations.txt").is_file():
            found[f"tiny-imagenet ({home})"] = partial(folders.tiny_imagenet, home)
    if not found and (folder / "train").is_dir():
        found[f"an image folder ({folder})"] = partial(folders.image_folder, folder)
    return found


def _parts(source: DataSource) -> Parts:
    if isinstance(source, tuple):
        if len(source) != 2:
            raise DataError(f"a tuple of {len(source)}", "it is no pair", "give (train, test)")
        return torch_datasets(*source)
    if source == embedded.NAME:
        return embedded.fashion_mnist_small()
    if not isinstance(source, (str, Path)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DataError(
            f"data of type {type(source).__name__}",
            "it is neither a pair of data sets nor the path of a folder",
            "give (train, test), two torch Datasets, or a path",
        )
    folder = Path(source).expanduser()
    if not folder.is_dir():
        fetch = (
            f"fetch it with: triprune data {source} DIR, then give DIR"
            if (source in ("cifar10", "cifar100"))
            else f"give a folder, or {embedded.NAME}"
        )
        raise DataError(f"the data {source}", "there is no such folder", fetch)
    found = find_layouts(folder)
    if len(found) > 1:
        raise DataError(
            f"the data in {folder}", f"it holds {', '.join(found)}", "name the folder of one"
        )
    if not found:
        raise DataError(
            f"the data in {folder}",
            "it holds no official layout of CIFAR-10, CIFAR-100 or TinyImageNet, and no train/",
            "lay images out as train/CLASS/*.jpg and val/CLASS/*.jpg",
        )
    return next(iter(found.values()))()


def _check_classes(source: Source, asked: str, *, fewest: int) -> None:
    counts = torch.bincount(source.labels, minlength=len(source.classes)).tolist()
    short = [name for name, count in zip(source.classes, counts, strict=True) if count < fewest]
    if short:
        listed = ", ".join(short[:3]) + (f" and {len(short) - 3} more" if len(short) > 3 else "")
        raise DataError(
            asked,
            f"fewer than {fewest} images of the class{'es' if len(short) > 1 else ''} {listed}",
            "add images, or leave the class out of every part",
        )
