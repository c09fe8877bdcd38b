from __future__ import annotations

import os
import re

import pytest

from triprune.errors import InputError
from triprune.files import write_atomically


def test_text_and_bytes_are_written_whole(tmp_path):
    assert write_atomically(tmp_path / "a.txt", "π").read_bytes() == "π".encode()
    assert write_atomically(tmp_path / "b.bin", b"\x00\x01").read_bytes() == b"\x00\x01"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.txt", "b.bin"]


def test_a_write_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    path = write_atomically(tmp_path / "a.txt", "old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="No space left"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_a_file_is_written_aside_under_a_name_of_ours(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(os, "fsync", lambda _: seen.append([p.name for p in tmp_path.iterdir()]))
    write_atomically(tmp_path / "a.txt", "new")
    assert re.fullmatch(r"\.a\.txt\.\w+\.triprune-part", seen[0][0])


def test_an_interruption_leaves_no_temporary_file(tmp_path, monkeypatch):
    def interrupt(descriptor):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "a.txt", "new")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match="missing"):
        write_atomically(tmp_path / "missing" / "a.txt", "new")


def test_the_file_gets_ordinary_permissions(tmp_path):
    path = write_atomically(tmp_path / "a.txt", "new")
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask
