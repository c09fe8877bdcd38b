import pytest
import torch

from triprune.errors import DataError
from triprune.learning.datasets.folders import image_folder as read_image_folder
from triprune.learning.datasets.folders import tiny_imagenet as read_tiny_imagenet


def test_an_image_folder(image_folder):
    (image_folder / "train" / "cat" / "notes.txt").write_text("no image")
    parts = read_image_folder(image_folder)
    assert parts.train.classes == ("cat", "dog")
    assert torch.bincount(parts.train.labels).tolist() == [10, 10]
    assert torch.bincount(parts.test.labels).tolist() == [4, 4]
    assert parts.validation is None


def test_three_parts(image_folder, picture):
    for name in ("cat", "dog"):
        picture(image_folder / "test" / name / "0.jpg")
    parts = read_image_folder(image_folder)
    assert len(parts.test.labels) == 2
    assert len(parts.validation.labels) == 8


def test_unlabelled_test_images_are_no_test_part(image_folder, picture):
    picture(image_folder / "test" / "0.jpg")
    assert len(read_image_folder(image_folder).test.labels) == 8


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda f: rename(f / "val" / "dog", "fox"), "it lacks dog; train/ lacks fox"),
        (lambda f: remove(f / "val" / "dog"), "it lacks dog"),
        (lambda f: empty(f / "train" / "dog"), "no images of dog"),
        (lambda f: remove(f / "val"), "neither val/ nor test/"),
        (lambda f: remove(f / "train"), "train has no folder a class"),
    ],
)
def test_a_folder_with_a_fault_is_explained(image_folder, spoil, said):
    spoil(image_folder)
    with pytest.raises(DataError, match=said):
        read_image_folder(image_folder)


def rename(folder, name):
    folder.rename(folder.with_name(name))


def empty(folder):
    for file in folder.iterdir():
        file.unlink()


def remove(folder):
    for file in sorted(folder.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    folder.rmdir()


def test_tiny_imagenet(tiny_imagenet):
    parts = read_tiny_imagenet(tiny_imagenet / "tiny-imagenet-200")
    assert parts.train.classes == ("n01443537", "n01629819", "n01641577")
    assert torch.bincount(parts.train.labels).tolist() == [6, 6, 6]
    assert parts.test.labels.tolist() == [0, 1, 2, 0, 1, 2]
    assert parts.test.files[1].name == "val_1.JPEG"


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda h: (h / "val" / "images" / "val_3.JPEG").unlink(), "missing .*val_3.JPEG"),
        (lambda h: annotate(h, "val_0.JPEG\tn99999999\n"), "annotated as 'n99999999'"),
        (lambda h: annotate(h, "val_0.JPEG\n"), "line 7 names no image and class"),
        (lambda h: annotate(h, "../../secret\tn01443537\n"), "line 7 names no image and class"),
        (lambda h: (h / "val" / "val_annotations.txt").unlink(), "there is no .*val_annotations"),
        (lambda h: (h / "wnids.txt").write_text("n01443537\n"), "differ in n01629819, n01641577"),
        (lambda h: empty(h / "train" / "n01443537" / "images"), "no images of n01443537"),
    ],
)
def test_tiny_imagenet_with_a_fault_is_explained(tiny_imagenet, spoil, said):
    home = tiny_imagenet / "tiny-imagenet-200"
    spoil(home)
    with pytest.raises(DataError, match=said):
        read_tiny_imagenet(home)


def annotate(home, line):
    with (home / "val" / "val_annotations.txt").open("a") as stream:
        stream.write(line)
