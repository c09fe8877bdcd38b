import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from triprune import Reading, load_data
from triprune.errors import DataError, InputError
from triprune.learning.data import stratified
from triprune.learning.normalisation import IMAGENET


def test_the_shipped_data_set_is_whole_and_balanced():
    splits = load_data()
    assert splits.train.images.shape == (9000, 3, 28, 28)
    assert len(splits.validation) == 1000
    assert len(splits.test) == 2000
    assert torch.bincount(splits.train.labels).tolist() == [900] * 10
    assert torch.bincount(splits.validation.labels).tolist() == [100] * 10
    assert splits.train.classes[9] == "ankle boot"
    assert splits.train.mean[0] == pytest.approx(0.286, abs=0.002)
    assert splits.train.std[0] == pytest.approx(0.353, abs=0.002)
    assert splits.left_out == ()


def test_a_nearest_mean_classifier_shows_that_images_and_labels_belong_together():
    splits = load_data(reading=Reading(channels=1))
    train = splits.train.images.float().flatten(1)
    means = torch.stack([train[splits.train.labels == c].mean(0) for c in range(10)])
    guess = torch.cdist(splits.validation.images.float().flatten(1), means).argmin(1)
    assert (guess == splits.validation.labels).float().mean() > 0.6


def test_validation_never_meets_train_and_follows_the_seed():
    first, again, other = load_data(seed=1), load_data(seed=1), load_data(seed=2)
    assert torch.equal(first.validation.images, again.validation.images)
    assert not torch.equal(first.validation.images, other.validation.images)
    rows = {bytes(image.numpy()) for image in first.train.images}
    shared = sum(bytes(image.numpy()) in rows for image in first.validation.images)
    assert shared <= 2  # Fashion-MNIST itself holds a few duplicates


def test_the_cut_is_stratified_and_whole():
    labels = torch.tensor([0] * 100 + [1] * 10 + [2] * 2)
    kept, held_out = stratified(labels, 0.2, seed=0)
    assert sorted([*kept.tolist(), *held_out.tolist()]) == list(range(112))
    assert torch.bincount(labels[held_out]).tolist() == [20, 2, 1]


@pytest.mark.parametrize("fraction", [0, 1, -0.1, 1.5, True, float("nan")])
def test_a_senseless_fraction_is_refused(fraction):
    with pytest.raises(InputError, match="outside"):
        load_data(validation=fraction)


def test_validation_may_come_from_the_test_images_and_leaves_the_test():
    whole, cut = load_data(), load_data(validation="test:500", seed=3)
    assert len(cut.train) == 10_000
    assert torch.bincount(cut.validation.labels).tolist() == [50] * 10
    assert len(cut.test) == 1500
    everything = whole.test.open_once_for(lambda images: _rows(images.images))
    tested = cut.test.open_once_for(lambda images: _rows(images.images))
    held_out = _rows(cut.validation.images)
    assert sorted(tested + held_out) == sorted(everything)
    assert "500 images taken out of the test part by seed 3" in cut.notes[0]
    assert "the other 1,500" in cut.notes[0]
    assert whole.notes == ()
    again, other = (load_data(validation="test:500", seed=seed) for seed in (3, 4))
    assert torch.equal(again.validation.images, cut.validation.images)
    assert not torch.equal(other.validation.images, cut.validation.images)


def _rows(images):
    return [bytes(image.numpy()) for image in images]


@pytest.mark.parametrize("asked", ["test", "test:", "test:5", "test:2000", "test:-9", "train:0.1"])
def test_a_senseless_cut_is_refused(asked):
    with pytest.raises(InputError, match=r"neither a fraction .* nor a number of test images"):
        load_data(validation=asked)


def test_an_image_folder_at_its_own_size_and_at_another(image_folder):
    splits = load_data(image_folder)
    assert splits.train.images.shape == (18, 3, 8, 8)
    assert len(splits.validation) == 2
    assert len(splits.test) == 8
    small = load_data(str(image_folder), Reading(resolution_px=5, channels=1))
    assert small.train.images.shape == (18, 1, 5, 5)


def test_normalisation_from_the_pixels_or_from_a_card(image_folder):
    splits = load_data(image_folder)
    pixels = splits.train.images.double() / 255
    assert splits.train.mean == pytest.approx(pixels.mean((0, 2, 3)).tolist())
    assert splits.train.std == pytest.approx(pixels.std((0, 2, 3), correction=0).tolist())
    assert splits.validation.mean == splits.train.mean
    card = load_data(image_folder, Reading(normalisation=IMAGENET))
    assert (card.train.mean, card.train.std) == IMAGENET


def test_tiny_imagenet_is_recognised(tiny_imagenet):
    for folder in (tiny_imagenet, tiny_imagenet / "tiny-imagenet-200"):
        splits = load_data(folder, validation=0.2)
        assert splits.train.images.shape == (15, 3, 64, 64)
        assert len(splits.test) == 6


def test_more_images_than_one_worker_takes(tmp_path, picture):
    for name in ("cat", "dog"):
        for number in range(600):
            picture(tmp_path / "train" / name / f"{number:04}.png", number, height=4, width=4)
        picture(tmp_path / "val" / name / "0.png", height=4, width=4)
    before = torch.get_rng_state()
    splits = load_data(tmp_path)
    assert torch.equal(torch.get_rng_state(), before)
    assert len(splits.train) + len(splits.validation) == 1200
    stored = np.asarray(Image.open(tmp_path / "train" / "cat" / "0000.png"))
    seen = {bytes(image.permute(1, 2, 0).contiguous().numpy()) for image in splits.train.images}
    seen |= {bytes(i.permute(1, 2, 0).contiguous().numpy()) for i in splits.validation.images}
    assert stored.tobytes() in seen


@pytest.fixture
def spoiled_folder(image_folder):
    (image_folder / "train" / "cat" / "0.png").write_bytes(b"")
    whole = (image_folder / "train" / "dog" / "1.png").read_bytes()
    (image_folder / "train" / "dog" / "1.png").write_bytes(whole[: len(whole) // 2])
    (image_folder / "val" / "dog" / "2.png").write_bytes(b"this is no image")
    return image_folder


def test_all_unreadable_images_are_named_at_once(spoiled_folder):
    with pytest.raises(DataError) as caught:
        load_data(spoiled_folder)
    message = str(caught.value)
    assert "3 unreadable images" in message
    for name in ("train/cat/0.png", "train/dog/1.png", "val/dog/2.png"):
        assert name in message
    assert 'bad_images="drop"' in message


def test_unreadable_images_may_be_left_out_but_are_named(spoiled_folder):
    splits = load_data(spoiled_folder, Reading(bad_images="drop"))
    assert len(splits.train) + len(splits.validation) == 18
    assert len(splits.test) == 7
    assert len(splits.left_out) == 3
    assert any("val/dog/2.png (cannot identify image file" in name for name in splits.left_out)


def test_a_class_without_one_readable_image_cannot_be_left_out(image_folder):
    for file in (image_folder / "val" / "dog").iterdir():
        file.write_bytes(b"")
    with pytest.raises(DataError, match="no readable image of dog is left in the test part"):
        load_data(image_folder, Reading(bad_images="drop"))


def test_not_one_readable_image(image_folder):
    for file in image_folder.rglob("*.png"):
        file.write_bytes(b"")
    with pytest.raises(DataError, match="18 unreadable images"):
        load_data(image_folder, Reading(resolution_px=8, bad_images="drop"))


def test_unequal_sizes_need_a_size(image_folder, picture):
    picture(image_folder / "train" / "cat" / "3.png", height=30, width=20)
    picture(image_folder / "train" / "dog" / "3.png", height=9, width=40)
    with pytest.raises(DataError, match="sizes differ: 8×8 to 30×20"):
        load_data(image_folder)
    assert load_data(image_folder, Reading(resolution_px=8)).train.resolution_px == 8


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("nowhere/at/all", "give a folder, or fashion-mnist-small"),
        ("cifar10", "triprune data cifar10 DIR"),
        ("cifar100", "triprune data cifar100 DIR"),
    ],
)
def test_a_missing_folder_is_explained(source, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=said):
        load_data(source)


def test_an_empty_folder_and_one_with_two_data_sets(tmp_path, tiny_imagenet):
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(DataError, match="no official layout"):
        load_data(empty)
    (tmp_path / "test_batch.bin").write_bytes(b"")
    with pytest.raises(DataError, match=r"it holds cifar10 .*, tiny-imagenet .*name the folder"):
        load_data(tmp_path)


def test_a_class_with_a_single_image_cannot_be_split(image_folder):
    for number in range(1, 10):
        (image_folder / "train" / "dog" / f"{number}.png").unlink()
    with pytest.raises(DataError, match="the training part: fewer than 2 images of the class dog"):
        load_data(image_folder)


class Own(Dataset):
    def __init__(self, form, count=12, classes=3):
        self.form, self.count, self.number_of_classes = form, count, classes

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if index >= self.count:
            raise IndexError(index)
        array = np.full((6, 7, 3), 20 * index, np.uint8)
        forms = {
            "pillow": lambda: Image.fromarray(array),
            "array": lambda: array,
            "grey array": lambda: array[:, :, 0],
            "bytes": lambda: torch.from_numpy(array).permute(2, 0, 1),
            "floats": lambda: torch.from_numpy(array).permute(2, 0, 1) / 255,
            "normalised": lambda: torch.from_numpy(array).permute(2, 0, 1) / 255 - 0.5,
            "integers": lambda: torch.from_numpy(array).permute(2, 0, 1).int(),
            "text": lambda: "a picture",
        }
        return forms[self.form](), index % self.number_of_classes


@pytest.mark.parametrize("form", ["pillow", "array", "grey array", "bytes", "floats"])
def test_data_sets_of_the_user(form):
    splits = load_data((Own(form), Own(form, count=6)))
    assert splits.train.images.shape == (9, 3, 6, 7)
    assert len(splits.validation) == 3
    assert len(splits.test) == 6
    assert splits.train.classes == ("0", "1", "2")
    index = int(splits.train.images[0, 0, 0, 0]) // 20
    assert splits.train.labels[0] == index % 3
    assert load_data((Own(form), Own(form)), Reading(resolution_px=4)).train.resolution_px == 4


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ("normalised", "leave out Normalize"),
        ("integers", "its pixels are torch.int32"),
        ("text", "its image is a str"),
    ],
)
def test_images_of_the_user_that_cannot_be_meant(form, said):
    with pytest.raises(DataError, match=said):
        load_data((Own(form), Own(form)), Reading(resolution_px=6))


def test_a_tensor_data_set_with_its_own_number_of_channels():
    images = torch.randint(0, 256, (20, 4, 5, 5), dtype=torch.uint8)
    pairs = TensorDataset(images, torch.arange(20) % 2)
    splits = load_data((pairs, pairs), Reading(channels=4))
    assert splits.train.images.shape[1:] == (4, 5, 5)


class Stream(IterableDataset):
    def __iter__(self):
        yield from ()


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        ((Stream(), Stream()), "map-style"),
        ((Own("array", count=0), Own("array")), "it is empty"),
        ((Own("array", classes=3), Own("array", classes=2)), "the test part: fewer than 1"),
        ((TensorDataset(torch.zeros(4, 3, 2, 2)), Own("array")), "gave no .image, class. pair"),
        ((Own("array"),), "it is no pair"),
    ],
)
def test_data_sets_of_the_user_that_cannot_be_meant(pair, said):
    with pytest.raises(DataError, match=said):
        load_data(pair)


@pytest.mark.parametrize(
    "wrong",
    [
        {"resolution_px": 0},
        {"bad_images": "ignore"},
        {"normalisation": ((0.5,), (0.5,))},
        {"normalisation": IMAGENET, "channels": 1},
    ],
)
def test_a_senseless_reading_is_refused(wrong):
    with pytest.raises(InputError):
        Reading(**wrong)
