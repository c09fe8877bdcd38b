import numpy as np
import pytest
from PIL import Image

from triprune.errors import DataError, InputError
from triprune.learning.datasets import official


@pytest.fixture
def folder(tmp_path):
    for part in ("train", "val"):
        for name in ("cat", "dog"):
            (tmp_path / part / name).mkdir(parents=True)
            for number in range(3):
                Image.fromarray(np.full((4, 4, 3), number, np.uint8)).save(
                    tmp_path / part / name / f"{number}.png"
                )
    return tmp_path


def test_a_good_folder_is_counted(triprune, folder):
    told = triprune("data", "folder", folder)
    assert "Every image can be read" in told
    assert [line.split()[:3] for line in told.splitlines()[1:3]] == [
        ["train", "6", "2"],
        ["test", "6", "2"],
    ]


def test_every_unreadable_image_is_named(triprune, folder):
    (folder / "train" / "cat" / "1.png").write_bytes(b"")
    (folder / "val" / "dog" / "2.png").write_bytes(b"nothing")
    with pytest.raises(DataError, match="2 cannot be read"):
        triprune("data", "folder", folder)


def test_missing_data_say_what_to_put_where(triprune, tmp_path):
    with pytest.raises(DataError, match=r"tar xzf cifar-10-binary\.tar\.gz -C"):
        triprune("data", "cifar10", tmp_path, "--no-fetch")
    with pytest.raises(DataError, match="cifar-100-binary"):
        triprune("data", "cifar100", tmp_path, "--no-fetch")
    with pytest.raises(DataError, match=r"tiny-imagenet-200\.zip"):
        triprune("data", "tiny-imagenet", tmp_path)


def test_a_network_that_is_not_there(triprune, tmp_path, monkeypatch):
    nowhere = official.Archive("http://127.0.0.1:9/archive.tar.gz", "0" * 32)
    monkeypatch.setattr(official, "ARCHIVES", {**official.ARCHIVES, "cifar10": nowhere})
    with pytest.raises(DataError, match="the network gave no answer to use"):
        triprune("data", "cifar10", tmp_path)


def test_damaged_cifar_is_named_and_left_alone(triprune, tmp_path):
    file = tmp_path / "cifar-10-batches-bin" / "data_batch_1.bin"
    file.parent.mkdir()
    file.write_bytes(b"something else")
    with pytest.raises(DataError, match=r"damaged data_batch_1\.bin, missing data_batch_2\.bin"):
        triprune("data", "cifar10", tmp_path)
    assert file.read_bytes() == b"something else"


def test_a_part_of_tiny_imagenet_is_not_taken_for_the_whole(triprune, folder):
    (folder / "wnids.txt").write_text("cat\ndog\n")
    (folder / "val" / "images").mkdir()
    for name in ("cat", "dog"):
        (folder / "val" / name / "0.png").rename(folder / "val" / "images" / f"{name}.png")
    (folder / "val" / "val_annotations.txt").write_text("cat.png\tcat\t0\ndog.png\tdog\t0\n")
    with pytest.raises(DataError, match="not 100,000 training"):
        triprune("data", "tiny-imagenet", folder)


def test_an_unknown_name(triprune, tmp_path):
    with pytest.raises(InputError, match="name cifar10, cifar100, tiny-imagenet, folder"):
        triprune("data", "mnist", tmp_path)
