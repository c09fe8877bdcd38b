import functools
import hashlib
import io
import os
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from triprune.errors import DataError
from triprune.learning.datasets import official
from triprune.learning.datasets.cifar import LAYOUTS

LAYOUT = LAYOUTS["cifar10"][0]
CONTENT = {name: name.encode() * 100 for name in (*LAYOUT.train, LAYOUT.test)}


def md5(content):
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


@pytest.fixture(scope="module")
def archive():
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        extra = {LAYOUT.names: b"airplane\n", "../../escaped.txt": b"no", "readme.html": b"hello"}
        for name, content in {**CONTENT, **extra}.items():
            member = tarfile.TarInfo(f"{LAYOUT.folder}/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


class Handler(BaseHTTPRequestHandler):
    content = b""

    def do_GET(self):
        self.send_response(200 if self.path == "/archive.tar.gz" else 404)
        self.send_header("Content-Length", str(len(self.content)))
        self.end_headers()
        self.wfile.write(self.content)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(archive, monkeypatch):
    handler = type("Serving", (Handler,), {"content": archive})
    http = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=http.serve_forever)
    thread.start()
    use = functools.partial(point_at, monkeypatch, f"http://127.0.0.1:{http.server_port}")
    use("/archive.tar.gz", md5(archive))
    checksums = {f"{LAYOUT.folder}/{name}": md5(content) for name, content in CONTENT.items()}
    monkeypatch.setattr(official, "FILE_MD5", {**official.FILE_MD5, **checksums})
    yield use
    http.shutdown()
    thread.join()
    http.server_close()


def point_at(monkeypatch, host, path, checksum):
    archives = {**official.ARCHIVES, "cifar10": official.Archive(host + path, checksum)}
    monkeypatch.setattr(official, "ARCHIVES", archives)


def ignore(_so_far, _total):
    pass


def test_what_is_fetched_verifies(server, archive, tmp_path):
    seen = []
    official.fetch("cifar10", tmp_path, lambda so_far, total: seen.append((so_far, total)))
    assert seen[-1] == (len(archive), len(archive))
    found = official.verify("cifar10", tmp_path)
    assert found.home == tmp_path / LAYOUT.folder
    assert len(found.files("whole")) == 6
    written = {file.name for file in tmp_path.rglob("*") if file.is_file()}
    assert written == {*CONTENT, LAYOUT.names}


def test_damage_and_loss_are_told_apart(server, tmp_path):
    official.fetch("cifar10", tmp_path, ignore)
    (tmp_path / LAYOUT.folder / "test_batch.bin").write_bytes(b"something else")
    (tmp_path / LAYOUT.folder / "data_batch_3.bin").unlink()
    found = official.verify("cifar10", tmp_path)
    assert found.files("damaged") == ["test_batch.bin"]
    assert found.files("missing") == ["data_batch_3.bin"]


def test_other_bytes_are_refused_and_nothing_is_written(server, tmp_path):
    server("/archive.tar.gz", "0" * 32)
    with pytest.raises(DataError, match="its MD5 is not 0000"):
        official.fetch("cifar10", tmp_path, ignore)
    assert not list(tmp_path.iterdir())


def test_no_answer_says_what_to_put_where(server, tmp_path):
    server("/nowhere", "0" * 32)
    with pytest.raises(DataError, match="404") as caught:
        official.fetch("cifar10", tmp_path, ignore)
    assert "data_batch_1.bin is there" in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_nothing_there_is_no_verification(tmp_path):
    assert official.verify("cifar10", tmp_path) is None


def test_every_official_file_has_a_checksum():
    wanted = {
        f"{layout.folder}/{file}"
        for layouts in LAYOUTS.values()
        for layout in layouts
        for file in (*layout.train, layout.test)
    }
    assert wanted == set(official.FILE_MD5)


@pytest.mark.data
def test_the_real_cifar10_has_its_official_checksums():
    folder = os.environ.get("TRIPRUNE_CIFAR10") or os.environ.get("TRIPRUNE_DATA")
    if not folder:
        pytest.skip("NOT RUN: set TRIPRUNE_CIFAR10 to the folder of CIFAR-10")
    found = official.verify("cifar10", Path(folder))
    assert found is not None
    assert len(found.files("whole")) == 6
