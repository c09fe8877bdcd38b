import fcntl
import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from threading import Timer
from typing import Any

import fsspec
import pytest
import torch
from torch import Tensor

from triprune.errors import ArtifactError, InputError, RunChangedError, RunError, RunLockedError
from triprune.files import write_atomically
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


def test_who_only_asks_for_a_run_is_no_run(store):
    (store.folder / "lock").touch()
    with (store.folder / "lock").open() as stream:
        fcntl.flock(stream, fcntl.LOCK_SH)  # as another who asks has it, for an instant
        assert store.worker() is None
        Timer(0.05, fcntl.flock, (stream, fcntl.LOCK_UN)).start()
        with store.locked():
            assert store.worker().startswith(f"process {os.getpid()} on ")


def test_forked_children_do_not_keep_the_lock_of_a_killed_run(store):
    script = """if True:
        import os, sys
        from triprune.run.locks import locked
        from triprune.places import place
        with locked(place(sys.argv[1])):
            os.fork()
            os.write(1, b"up\\n")
            sys.stdin.read()
    """
    command = [sys.executable, "-c", script, str(store.folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as run:
        assert [run.stdout.readline() for _ in "pc"] == [b"up\n", b"up\n"]
        assert store.worker().startswith(f"process {run.pid} on ")
        run.kill()
        run.wait()
        with store.locked():
            pass  # the child lives until its input ends


def test_what_killed_writers_left_is_swept(store):
    left = store.folder / "a" / ".thing.json.x1y2.triprune-part"
    left.write_text("half")
    others = [store.folder / name for name in (".eslintrc.local.js", ".cache.v1.2")]
    others[0].write_text("the user's own")
    for folder in (others[1], store.folder / ".folder.x1y2.triprune-part"):
        folder.mkdir()
    with store.locked():
        assert not left.exists()
    assert store.has("a/thing")
    assert all(path.exists() for path in others)


def test_what_killed_writers_left_is_swept_behind_fsspec(tmp_path, behind_fsspec):
    left = tmp_path / "a" / ".thing.json.x1y2.triprune-part"
    left.parent.mkdir()
    left.write_text("half")
    (tmp_path / ".eslintrc.local.js").write_text("the user's own")
    Store(f"shared://{tmp_path}").recall_workers()
    assert {path.name for path in tmp_path.rglob("*")} == {"a", ".eslintrc.local.js"}


@pytest.mark.parametrize("where", ["store", "remote"])
def test_a_checkpoint_that_a_killed_writer_left_is_not_under_way(where, request):
    store = request.getfixturevalue(where)
    for key in ("chains/depth-1", "chains/depth-2"):
        write_atomically(store.checkpoint(key), b"an epoch")
    left = store.checkpoint("chains/depth-1").read_bytes()
    store.write("chains/depth-1", Thing(0.1, torch.ones(1)))
    write_atomically(store.checkpoint("chains/depth-1"), left)
    assert store.under_way() == ("chains-depth-2",)
    with store.locked():
        assert not store.checkpoint("chains/depth-1").exists()
        assert store.under_way() == ("chains-depth-2",)


def test_changed_facts_are_refused_by_name(tmp_path):
    store = Store(tmp_path)
    store.begin({"model": "m", "settings": {"rounds": 4, "recipe": {"rate": 0.1}}})
    store.begin({"model": "m", "settings": {"rounds": 4, "recipe": {"rate": 0.1}}})
    before = (tmp_path / "run.json").read_bytes()
    with pytest.raises(RunChangedError, match=r"its settings changed: rate was 0\.1, is 0\.2"):
        store.begin({"model": "m", "settings": {"rounds": 4, "recipe": {"rate": 0.2}}})
    with pytest.raises(RunChangedError, match="its model changed: model was m, is n"):
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


@pytest.fixture
def remote(tmp_path):
    yield Store(f"memory://{tmp_path.name}")
    fsspec.filesystem("memory").store.clear()


def test_a_folder_elsewhere_keeps_artifacts_and_finds_damage(remote):
    remote.write("a/thing", Thing(0.1, torch.arange(5.0)))
    assert torch.equal(remote.read("a/thing", Thing).tensor, torch.arange(5.0))
    assert remote.keys("a/*") == ["a/thing"]
    (remote.folder / "a" / "thing.json").write_whole(b"{}")
    with pytest.raises(ArtifactError, match="checksum"):
        remote.read("a/thing", Thing)
    (remote.folder / "a" / "thing.json").unlink()
    with pytest.raises(ArtifactError, match="there is no such file"):
        remote.read("a/thing", Thing)


def test_a_second_run_elsewhere_is_refused_until_the_first_is_gone(remote, monkeypatch):
    with remote.locked():
        assert remote.worker().startswith(f"process {os.getpid()} on ")
        with pytest.raises(RunLockedError, match=r"is working on it\. wait"), remote.locked():
            pass
    assert remote.worker() is None
    assert remote.folder.files() == []
    sign = {"worker": "process 1 on there", "host": "there", "pid": 1, "mine": "x"}
    lock = remote.folder / "lock"
    lock.write_whole(json.dumps(sign | {"beat": time.time() - 30}).encode())
    assert remote.worker() == "process 1 on there"
    lock.write_whole(json.dumps(sign | {"beat": time.time() - 61}).encode())
    with remote.locked():
        assert remote.worker() != "process 1 on there"
    dead = sign | {"host": socket.gethostname(), "pid": 2**22 + 1, "beat": time.time()}
    lock.write_whole(json.dumps(dead).encode())
    assert remote.worker() is None


def test_a_run_elsewhere_gives_signs_of_life(remote, monkeypatch):
    monkeypatch.setattr("triprune.run.locks._BEAT_S", 0.05)
    with remote.locked():
        first = json.loads((remote.folder / "lock").read_bytes())["beat"]
        time.sleep(0.5)
        assert json.loads((remote.folder / "lock").read_bytes())["beat"] > first


def test_of_two_that_begin_at_once_the_later_stays(remote, monkeypatch):
    other = json.dumps({"worker": "other", "host": "h", "pid": 1, "mine": "o", "beat": time.time()})
    monkeypatch.setattr(
        "triprune.run.locks.time.sleep",
        lambda _: (remote.folder / "lock").write_whole(other.encode()),
    )
    with pytest.raises(RunLockedError, match="other is working on it"), remote.locked():
        pass


def test_workers_must_see_the_folder(store, remote, tmp_path):
    seen = store.for_workers()
    seen.require_seen()
    seen.write("b", Thing(0.2, torch.ones(1)))
    later = store.for_workers()
    with pytest.raises(RunError, match="another run has it"):
        seen.write("c", Thing(0.2, torch.ones(1)))
    left = store.folder / ".b.json.x1y2.triprune-part"
    left.write_text("half")
    later.recall_workers()
    assert not left.exists()
    with pytest.raises(RunError, match="it does not see the run's files there"):
        later.require_seen()
    assert not store.has("c")
    with pytest.raises(InputError, match="in the memory of this process alone"):
        remote.for_workers()
