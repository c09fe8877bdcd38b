"""Other images make another run: in memory, on disk and in the sealed test, unopened."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from triprune import Reading, load_data
from triprune.errors import RunChangedError
from triprune.learning.images import SealedTest
from triprune.learning.loading import Normalisation
from triprune.run.image_facts import differing, facts_of, trained_on
from triprune.run.store import Store

FIXED: Normalisation = ((0.5,) * 3, (0.2,) * 3)  # so that statistics tell nothing


def draw(folder, seed):
    generator = np.random.default_rng(seed)
    for part in ("train", "val"):
        for name in ("a", "b"):
            (folder / part / name).mkdir(parents=True, exist_ok=True)
            for number in range(12):
                pixels = generator.integers(0, 255, (16, 16, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / part / name / f"{number}.png")


@pytest.fixture
def streamed(tmp_path):
    def read(seed=0, folder=tmp_path / "images"):
        return load_data(folder, Reading(in_memory=False, normalisation=FIXED), seed=seed)

    draw(tmp_path / "images", 0)
    return read


@pytest.fixture
def begun(tmp_path, streamed):
    store = Store(tmp_path / "run")
    store.begin(facts_of(streamed()))
    return store


def test_the_same_images_are_known_elsewhere(streamed, begun, tmp_path):
    shutil.copytree(tmp_path / "images", tmp_path / "moved")
    begun.begin(facts_of(streamed(folder=tmp_path / "moved")))


def test_streamed_images_that_were_rewritten_are_refused(streamed, begun, tmp_path):
    sizes = [file.stat().st_size for file in sorted((tmp_path / "images").rglob("*.png"))]
    draw(tmp_path / "images", 1)
    assert sizes == [f.stat().st_size for f in sorted((tmp_path / "images").rglob("*.png"))]
    with pytest.raises(RunChangedError, match=r"its image_files changed: train was .*; validation"):
        begun.begin(facts_of(streamed()))


def test_a_streamed_file_of_another_size_or_class_is_noticed(streamed, tmp_path):
    before = facts_of(streamed())
    train = tmp_path / "images" / "train"
    with (train / "a" / "3.png").open("ab") as file:
        file.write(b"\0")
    larger = facts_of(streamed())
    assert larger["image_files"] != before["image_files"]
    (train / "a" / "3.png").rename(train / "moved.png")
    (train / "b" / "4.png").rename(train / "a" / "3.png")
    (train / "moved.png").rename(train / "b" / "4.png")
    assert facts_of(streamed())["image_files"] not in (before["image_files"], larger["image_files"])


def test_weights_tell_streamed_images_apart(streamed):
    mine, others = (trained_on(streamed(seed).train) for seed in (0, 1))
    assert mine["trained_on"] == others["trained_on"]
    assert differing(mine, others) == ["trained_on_files"]
    assert differing(mine, mine) == []
    assert differing({"trained_on": mine["trained_on"]}, others) == []  # noted by an older version


def test_a_test_split_is_told_from_others_unopened(small, tmp_path):
    parts = small.splits()
    swapped = replace(parts, test=SealedTest(parts.train.take(torch.arange(len(parts.test)))))
    before, now = facts_of(parts), facts_of(swapped)
    assert before["data"] == now["data"]
    store = Store(tmp_path)
    store.begin(before)
    with pytest.raises(RunChangedError, match="its test_images changed"):
        store.begin(now)
    assert (parts.test.openings, swapped.test.openings) == (0, 0)


def test_a_run_that_noted_less_goes_on(streamed, small, tmp_path):
    for number, splits in enumerate((streamed(), small.splits())):
        store, now = Store(tmp_path / f"{number}"), facts_of(splits)
        store.begin({"data": now["data"]})
        store.begin(now)
        assert store.facts() == json.loads(json.dumps({"data": now["data"]}))


@pytest.mark.parametrize("in_memory", [True, False])
def test_images_of_data_sets_are_told_apart_by_what_is_at_hand(in_memory):
    class Own(torch.utils.data.Dataset):
        targets = [0, 1] * 6

        def __len__(self):
            return 12

        def __getitem__(self, index):
            return torch.full((3, 8, 8), index, dtype=torch.uint8), self.targets[index]

    reading = Reading(in_memory=in_memory, normalisation=FIXED)
    one, same, other = (
        facts_of(load_data((Own(), Own()), reading, seed=seed)) for seed in (0, 0, 5)
    )
    assert one == same
    assert one != other
    shipped = Reading(in_memory=in_memory, normalisation=FIXED)
    a, b = (facts_of(load_data(reading=shipped, seed=seed)) for seed in (0, 1))
    assert a != b
    assert a["test_images"] == b["test_images"]
