import pickle

import numpy as np
import pytest
import torch

from triprune.errors import DataError
from triprune.learning.datasets.cifar import CIFAR10_CLASSES, LAYOUTS, read_cifar

COUNT = 20


def records(number, classes):
    generator = np.random.default_rng(number)
    pixels = generator.integers(0, 256, (COUNT, 3072), dtype=np.uint8)
    labels = (np.arange(COUNT) + number) % classes
    return pixels, labels.astype(np.uint8)


def write_binary(home, name, number, classes):
    pixels, labels = records(number, classes)
    columns = [labels[:, None]] if classes == 10 else [labels[:, None] // 5, labels[:, None]]
    np.concatenate([*columns, pixels], axis=1).tofile(home / name)


def write_python(home, name, number, classes):
    pixels, labels = records(number, classes)
    content = {
        b"batch_label": b"training batch 1 of 5",
        (b"labels" if classes == 10 else b"fine_labels"): [int(label) for label in labels],
        b"data": pixels,
        b"filenames": [f"{n}.png".encode() for n in range(COUNT)],
    }
    (home / name).write_bytes(pickle.dumps(content, protocol=2))


@pytest.fixture(params=[(name, layout) for name in LAYOUTS for layout in LAYOUTS[name]], ids=str)
def written(request, tmp_path):
    _, layout = request.param
    home = tmp_path / layout.folder
    home.mkdir()
    write = write_binary if layout.binary else write_python
    for number, name in enumerate((*layout.train, layout.test)):
        write(home, name, number, layout.classes)
    return tmp_path, layout


def test_images_and_labels_arrive_to_the_byte(written):
    folder, layout = written
    home = layout.home(folder)
    assert home == folder / layout.folder
    parts = read_cifar(home, layout)
    pixels, labels = records(len(layout.train), layout.classes)
    assert torch.equal(parts.test.images.reshape(COUNT, -1), torch.from_numpy(pixels))
    assert parts.test.labels.tolist() == labels.tolist()
    assert len(parts.train.labels) == COUNT * len(layout.train)
    assert parts.train.images.shape[1:] == (3, 32, 32)
    assert len(parts.train.classes) == layout.classes


def test_the_folder_itself_will_do(written):
    folder, layout = written
    assert layout.home(folder / layout.folder) == folder / layout.folder
    assert layout.home(folder / "elsewhere") is None


def test_class_names_come_from_the_files(tmp_path):
    layout = LAYOUTS["cifar100"][0]
    for number, name in enumerate((*layout.train, layout.test)):
        write_binary(tmp_path, name, number, 100)
    assert read_cifar(tmp_path, layout).train.classes[:2] == ("0", "1")
    names = [f"class{n}" for n in range(100)]
    (tmp_path / "fine_label_names.txt").write_text("\n".join(names) + "\n")
    assert read_cifar(tmp_path, layout).train.classes == tuple(names)


def test_python_meta_names(tmp_path):
    layout = LAYOUTS["cifar10"][1]
    for number, name in enumerate((*layout.train, layout.test)):
        write_python(tmp_path, name, number, 10)
    assert read_cifar(tmp_path, layout).train.classes == CIFAR10_CLASSES
    names = [f"class{n}".encode() for n in range(10)]
    (tmp_path / "batches.meta").write_bytes(pickle.dumps({b"label_names": names}, protocol=2))
    assert read_cifar(tmp_path, layout).train.classes[3] == "class3"


def test_a_missing_file_is_named(written):
    folder, layout = written
    (folder / layout.folder / layout.test).unlink()
    with pytest.raises(DataError, match=f"missing {layout.test}"):
        read_cifar(folder / layout.folder, layout)


def test_a_truncated_file_is_named(written):
    folder, layout = written
    file = folder / layout.folder / layout.test
    file.write_bytes(file.read_bytes()[:-7])
    with pytest.raises(DataError, match=str(file)):
        read_cifar(folder / layout.folder, layout)


def test_labels_out_of_range_are_refused(tmp_path):
    layout = LAYOUTS["cifar10"][0]
    for number, name in enumerate((*layout.train, layout.test)):
        write_binary(tmp_path, name, number, 10)
    spoiled = bytearray((tmp_path / "test_batch.bin").read_bytes())
    spoiled[0] = 11
    (tmp_path / "test_batch.bin").write_bytes(spoiled)
    with pytest.raises(DataError, match="labels from 0 to 11"):
        read_cifar(tmp_path, layout)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({b"data": b"no array"}, "its data is not N × 3072 bytes"),
        ({b"data": np.zeros((3, 100), np.uint8)}, "its data is not N × 3072 bytes"),
        ({b"labels": [1, 2]}, "no whole number an image"),
        ({b"labels": [0.5] * COUNT}, "no whole number an image"),
        ({b"labels": None}, "no whole number an image"),
    ],
)
def test_python_files_with_other_content_are_refused(tmp_path, change, said):
    layout = LAYOUTS["cifar10"][1]
    for number, name in enumerate((*layout.train, layout.test)):
        write_python(tmp_path, name, number, 10)
    pixels, labels = records(0, 10)
    content = {b"data": pixels, b"labels": labels.tolist(), **change}
    (tmp_path / "test_batch").write_bytes(pickle.dumps(content, protocol=2))
    with pytest.raises(DataError, match=said):
        read_cifar(tmp_path, layout)
