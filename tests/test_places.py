import pickle
import re
from pathlib import Path

import fsspec
import pytest

from triprune.errors import InputError, MissingExtraError
from triprune.files import copy_files, write_atomically
from triprune.places import RemotePath, files_in, place


@pytest.fixture(params=["memory", "shared", "local"])
def folder(request, tmp_path, behind_fsspec):
    """Return an object store, a file system behind fsspec, and a plain folder."""
    if request.param == "memory":
        yield place(f"memory://{tmp_path.name}")
        fsspec.filesystem("memory").store.clear()
    else:
        yield place(f"shared://{tmp_path}") if request.param == "shared" else tmp_path


def test_what_is_written_is_read_found_and_removed(folder):
    home = folder / "a"
    if isinstance(home, Path):
        home.mkdir()
    file = home / "b-1.json"
    assert not file.exists()
    write_atomically(file, b"one")
    write_atomically(file, "two")
    write_atomically(file.with_suffix(".safetensors"), b"")
    assert file.read_bytes() == b"two"
    assert file.read_text() == "two"
    assert file.is_file()
    assert files_in(folder, "a/b-*.json") == ["a/b-1.json"]
    assert files_in(folder, "*.json") == []
    assert files_in(folder / "nothing", "*") == []
    assert [path.name for path in folder.rglob("b-?.json")] == ["b-1.json"]
    assert (file.stem, file.parent.name) == ("b-1", "a")
    file.unlink(missing_ok=True)
    file.unlink(missing_ok=True)
    assert files_in(folder, "a/*") == ["a/b-1.safetensors"]
    with pytest.raises(FileNotFoundError):
        file.read_bytes()


def test_nothing_is_left_beside_a_file_behind_fsspec(tmp_path, behind_fsspec):
    write_atomically(place(f"shared://{tmp_path}") / "deep" / "file", b"x")
    assert [path.name for path in tmp_path.rglob("*")] == ["deep", "file"]


def test_a_file_behind_fsspec_is_written_aside_under_a_name_of_ours(
    tmp_path, behind_fsspec, monkeypatch
):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(fsspec.get_filesystem_class("shared"), "mv", full)
    with pytest.raises(InputError, match="No space left"):
        write_atomically(place(f"shared://{tmp_path}") / "file", b"x")
    (left,) = tmp_path.iterdir()
    assert re.fullmatch(r"\.file\.\w+\.triprune-part", left.name)


def test_a_copy_that_is_cut_short_lacks_the_file_that_vouches_for_it(folder, tmp_path, monkeypatch):
    source = tmp_path / "source"
    source.mkdir()
    for name in ("plan", "weights", "about"):
        (source / name).write_text(f"new {name}")
    target = folder / "target"
    if isinstance(target, Path):
        target.mkdir()
    for name in ("plan", "weights"):
        write_atomically(target / name, "old")
    kind = Path if isinstance(target, Path) else RemotePath
    step = "replace" if kind is Path else "write_whole"
    whole, arrived = getattr(kind, step), []

    def cut_short(path, content):
        if len(arrived) == 2:
            raise SystemExit
        arrived.append(whole(path, content))

    monkeypatch.setattr(kind, step, cut_short)
    with pytest.raises(SystemExit):
        copy_files(source, target, last="plan")
    monkeypatch.undo()
    assert files_in(target, "*") == ["about", "weights"]
    copy_files(source, target, last="plan")
    assert {name: (target / name).read_text() for name in files_in(target, "*")} == {
        name: f"new {name}" for name in ("about", "plan", "weights")
    }


def test_a_whole_folder_is_removed(folder):
    if isinstance(folder, RemotePath):
        write_atomically(folder / "a" / "b" / "c", b"")
        (folder / "a").remove_folder()
        (folder / "a").remove_folder()
        assert folder.files() == []


def test_paths_and_urls_are_told_apart():
    assert place("runs/r50") == Path("runs/r50")
    assert place("file:///tmp/with%20space") == Path("/tmp/with space")
    assert str(place("s3://bucket/run/")) == "s3://bucket/run"
    assert str(place(Path("s3://bucket/run"))) == "s3://bucket/run"
    assert pickle.loads(pickle.dumps(place("memory://x/y"))).name == "y"  # noqa: S301


@pytest.mark.parametrize("name", ["", " "])
def test_no_name_is_not_the_folder_one_is_in(name):
    with pytest.raises(InputError, match="a folder without a name"):
        place(name)


def test_a_folder_that_cannot_be_reached_is_named():
    with pytest.raises(InputError, match=r"nosuch://x.*a URL that fsspec knows"):
        place("nosuch://x").exists()
    with pytest.raises(MissingExtraError, match=r"gdrive://x/y"):
        place("gdrive://x/y").read_bytes()
    with pytest.raises(InputError, match=r"writing ftp://.*check the address"):
        place("ftp://127.0.0.1:9/x").write_whole(b"")
