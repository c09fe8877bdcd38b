import os
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from triprune.errors import ArtifactError, InputError, RunChangedError, RunError, RunLockedError
from triprune.run.store import Store


@dataclass
class Thing:
    number: float
    tensor: Tensor

    def to_parts(self):
        return {"number": self.number}, {"tensor": self.tensor}

    @classmethod
    def from_parts(cls, values: dict[str, Any], tensors: dict[str, Tensor]):
        return cls(values["number"], tensors["tensor"])


class Other(Thing):
    pass


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "run")
    store.write("a/thing", Thing(0.1, torch.arange(5.0)))
    return store


def test_an_artifact_comes_back_bit_by_bit(store):
    thing = store.read("a/thing", Thing)
    assert thing.number == 0.1
    assert torch.equal(thing.tensor, torch.arange(5.0))


def test_a_stored_artifact_is_not_made_again(store):
    def never():
        raise AssertionError

    assert store.once("a/thing", Thing, never).number == 0.1


@pytest.mark.parametrize("ending", ["json", "safetensors"])
def test_every_flipped_bit_is_found(store, ending):
    path = store.folder / f"a/thing.{ending}"
    whole = path.read_bytes()
    for place in range(len(whole)):
        spoiled = bytearray(whole)
        spoiled[place] ^= 1 << place % 8
        path.write_bytes(spoiled)
        with pytest.raises(ArtifactError, match=f"thing.{ending}: its checksum does not fit"):
            store.read("a/thing", Thing)


@pytest.mark.parametrize("ending", ["json", "safetensors"])
def test_truncated_and_missing_files_are_named(store, ending):
    path = store.folder / f"a/thing.{ending}"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ArtifactError, match="checksum"):
        store.read("a/thing", Thing)
    path.unlink()
    with pytest.raises(ArtifactError, match="No such file"):
        store.read("a/thing", Thing)


def test_an_artifact_of_another_kind_is_refused(store):
    with pytest.raises(ArtifactError, match="it is a Thing"):
        store.read("a/thing", Other)


def test_a_second_writer_is_refused_by_name(store):
    with store.locked():
        assert store.worker().startswith(f"process {os.getpid()} on ")
        told = f"process {os.getpid()} on .* is working on it"
        with pytest.raises(RunLockedError, match=told), Store(store.folder).locked():
            pass
    assert store.worker() is None
    with store.locked():
        pass


def test_what_killed_writers_left_is_swept(store):
    left = store.folder / "a" / ".thing.json.x1y2"
    left.write_text("half")
    with store.locked():
        assert not left.exists()
    assert store.has("a/thing")


def test_changed_facts_are_refused_by_name(tmp_path):
    store = Store(tmp_path)
    store.begin({"model": "m", "settings": {"rounds": 4, "recipe": {"rate": 0.1}}})
    store.begin({"model": "m", "settings": {"rounds": 4, "recipe": {"rate": 0.1}}})
    before = (tmp_path / "run.json").read_bytes()
    with pytest.raises(RunChangedError, match=r"another settings: rate was 0\.1, is 0\.2"):
        store.begin({"model": "m", "settings": {"rounds": 4, "recipe": {"rate": 0.2}}})
    with pytest.raises(RunChangedError, match="another model: model was m, is n"):
        store.begin({"model": "n", "settings": {"rounds": 4, "recipe": {"rate": 0.1}}})
    assert (tmp_path / "run.json").read_bytes() == before


def test_a_folder_without_a_run_and_one_that_is_a_file(tmp_path):
    with pytest.raises(RunError, match="there is none"):
        Store(tmp_path).facts()
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(InputError, match="cannot be made a folder"),
        Store(tmp_path / "file").locked(),
    ):
        pass
