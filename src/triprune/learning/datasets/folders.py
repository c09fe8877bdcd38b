"""Owns data sets laid out as folders of image files; refuses classes that one part lacks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch

from triprune.errors import DataError
from triprune.learning.datasets.image_files import EXTENSIONS, FileSource
from triprune.learning.datasets.sources import Parts

_LAYOUT = "lay it out as train/CLASS/*.jpg and val/CLASS/*.jpg"


def image_folder(folder: Path) -> Parts:
    """Read ``train/`` and ``val/``, a folder a class, as ImageNet is laid out.

    ``val/`` is the test part, since its labels are the last ones there are; where ``test/`` has
    classes too, that is the test part and ``val/`` the validation part.
    """
    asked = f"the image folder {folder}"
    train = _one_folder_a_class(folder / "train", asked)
    held_out = {
        name: _one_folder_a_class(folder / name, asked)
        for name in ("val", "test")
        if (folder / name).is_dir() and _class_folders(folder / name)
    }
    if not held_out:
        raise DataError(asked, "it has neither val/ nor test/ with a folder a class", _LAYOUT)
    for name, part in held_out.items():
        _same_classes(train, part, f"{asked}, {name}/")
    if len(held_out) == 2:
        return Parts(train, held_out["test"], validation=held_out["val"])
    return Parts(train, *held_out.values())


def tiny_imagenet(folder: Path) -> Parts:
    """Read TinyImageNet in its official layout; its labelled ``val/`` is the test part."""
    asked = f"TinyImageNet in {folder}"
    classes = tuple((folder / "wnids.txt").read_text().split())
    train = _one_folder_a_class(folder / "train", asked)
    if set(train.classes) != set(classes):
        odd = sorted(set(train.classes) ^ set(classes))
        raise DataError(
            asked, f"wnids.txt and train/ differ in {_few(odd)}", "unpack the archive again"
        )
    files: list[Path] = []
    labels: list[int] = []
    numbers = {name: number for number, name in enumerate(train.classes)}
    for file, name in _annotations(folder / "val" / "val_annotations.txt", asked):
        if name not in numbers:
            raise DataError(
                asked, f"{file} is annotated as {name!r}, no class of it", "unpack it again"
            )
        files.append(folder / "val" / "images" / file)
        labels.append(numbers[name])
    absent = [str(file) for file in files if not file.is_file()]
    if absent:
        raise DataError(asked, f"missing {_few(absent)}", "unpack the archive again")
    test = FileSource(tuple(files), torch.tensor(labels, dtype=torch.int64), train.classes)
    _every_class_has_images(test, f"{asked}, val/")
    return Parts(train, test)


def _annotations(file: Path, asked: str) -> Iterator[tuple[str, str]]:
    if not file.is_file():
        raise DataError(asked, f"there is no {file}", "unpack the archive again")
    for number, line in enumerate(file.read_text().splitlines(), start=1):
        fields = line.split("\t")
        if len(fields) < 2 or Path(fields[0]).name != fields[0]:
            raise DataError(
                asked, f"{file}, line {number} names no image and class", "unpack it again"
            )
        yield fields[0], fields[1]


def _one_folder_a_class(folder: Path, asked: str) -> FileSource:
    found = _class_folders(folder)
    if not found:
        raise DataError(asked, f"{folder} has no folder a class", _LAYOUT)
    files: list[Path] = []
    labels: list[int] = []
    for number, class_folder in enumerate(found):
        images = sorted(f for f in class_folder.rglob("*") if f.suffix.lower() in EXTENSIONS)
        files += images
        labels += [number] * len(images)
    classes = tuple(class_folder.name for class_folder in found)
    source = FileSource(tuple(files), torch.tensor(labels, dtype=torch.int64), classes)
    _every_class_has_images(source, f"{asked}, {folder.name}/")
    return source


def _class_folders(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(f for f in folder.iterdir() if f.is_dir() and not f.name.startswith("."))


def _every_class_has_images(source: FileSource, asked: str) -> None:
    counts = torch.bincount(source.labels, minlength=len(source.classes))
    empty = [name for name, count in zip(source.classes, counts, strict=True) if not count]
    if empty:
        raise DataError(asked, f"no images of {_few(empty)}", "add some, or remove the class")


def _same_classes(train: FileSource, other: FileSource, asked: str) -> None:
    missing = sorted(set(train.classes) - set(other.classes))
    unknown = sorted(set(other.classes) - set(train.classes))
    if missing or unknown:
        faults = [f"it lacks {_few(missing)}"] if missing else []
        faults += [f"train/ lacks {_few(unknown)}"] if unknown else []
        raise DataError(asked, "; ".join(faults), "give every part the same classes")


def _few(names: list[str]) -> str:
    more = len(names) - 3
    return ", ".join(names[:3]) + (f" and {more} more" if more > 0 else "")
