"""Owns the run folder: typed artifacts, whole and checked; refuses damage and a second writer.

An artifact is a JSON file, with a safetensors file beside it where it has tensors. Tensors are
written first: where the JSON is, the artifact is complete. Finished artifacts *are* the state of
a run: none is ever overwritten but a bench, which is measured anew.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
import socket
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from safetensors.torch import load as parse_tensors
from safetensors.torch import save as pack_tensors
from torch import Tensor

from triprune.errors import ArtifactError, InputError, RunChangedError, RunError
from triprune.files import write_atomically
from triprune.places import UNFINISHED, Place, RemotePath, files_in, place
from triprune.run.differing import difference
from triprune.run.locks import locked, worker_on
from triprune.run.sealing import opened, packed_tensors, sealed

if TYPE_CHECKING:
    from typing_extensions import Self

_FACTS = "run"
_TOKEN = "token"
_UNDER_WAY = "under-way"
# What runs begun by earlier versions did not note: they go on without it.
_NOTED_LATER = frozenset({"test_images", "image_files", "input_size", "final_evaluate"})


class Artifact(Protocol):
    """A value that can be stored: plain values for JSON, and tensors by name."""

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Return what ``from_parts`` needs."""
        ...

    @classmethod
    def from_parts(cls, values: dict[str, Any], tensors: dict[str, Tensor]) -> Self:
        """Rebuild the artifact."""
        ...


Kind = TypeVar("Kind", bound=Artifact)


class Store:
    """A run folder. ``key`` names an artifact by its path in the folder, without its ending."""

    def __init__(self, folder: str | Place, *, token: str | None = None) -> None:
        self.folder = place(folder)
        self._token = token

    def has(self, key: str) -> bool:
        """Whether the artifact is finished."""
        return self._json(key).is_file()

    def keys(self, pattern: str) -> list[str]:
        """Return, in order, the keys of the finished artifacts that fit, as ``chains/depth-*``."""
        return [name[: -len(".json")] for name in files_in(self.folder, f"{pattern}.json")]

    def once(self, key: str, kind: type[Kind], make: Callable[[], Kind]) -> Kind:
        """Return the stored artifact, or make and store it."""
        if not self.has(key):
            self.write(key, make())
        return self.read(key, kind)

    def write(self, key: str, artifact: Artifact) -> None:
        """Store an artifact, whole or not at all, and drop the checkpoint that led to it."""
        self.require_seen()
        values, tensors = artifact.to_parts()
        path = self._json(key)
        _make_folder(path.parent)
        body: dict[str, Any] = {"kind": type(artifact).__name__, "values": values}
        if tensors:
            packed = pack_tensors({name: _plain(tensor) for name, tensor in tensors.items()})
            body["tensors"] = hashlib.sha256(packed).hexdigest()
            write_atomically(path.with_suffix(".safetensors"), packed)
        write_atomically(path, sealed(body))
        self.checkpoint(key).unlink(missing_ok=True)

    def read(self, key: str, kind: type[Kind], *, with_tensors: bool = True) -> Kind:
        """Return a stored artifact; any changed bit of what is read is found and named."""
        path = self._json(key)
        body = opened(path)
        tensors: dict[str, Tensor] = {}
        if "tensors" in body and with_tensors:
            tensors = parse_tensors(packed_tensors(path, body))
        if body["kind"] != kind.__name__:
            raise ArtifactError(f"reading {path}", f"it is a {body['kind']}", "name another")
        return kind.from_parts(body["values"], tensors)

    def verify(self, key: str, *, with_tensors: bool = True, spent: bool = False) -> None:
        """Refuse an artifact with a changed bit, or without its tensors.

        Those of a ``spent`` one, which nothing is made from any more, may have been taken away.
        """
        path = self._json(key)
        body = opened(path)
        gone = not path.with_suffix(".safetensors").is_file()
        if "tensors" not in body or (gone and spent):
            return
        if gone or with_tensors:
            packed_tensors(path, body)

    def checkpoint(self, key: str) -> Place:
        """Return where the training that leads to an artifact keeps its last epoch."""
        _make_folder(self.folder / _UNDER_WAY)
        return self._checkpoint(_flat(key))

    def under_way(self) -> tuple[str, ...]:
        """Return the names of the trainings that have saved an epoch and are not finished."""
        return tuple(sorted(self._checkpoints() - self._finished()))

    def for_workers(self) -> Store:
        """Return the folder as workers elsewhere must see it: with a token in it, new each time.

        A worker that is left over from a run that was killed finds another token, and stops.
        """
        if isinstance(self.folder, RemotePath) and self.folder.protocol == "memory":
            raise InputError(
                f"workers on the run folder {self.folder}",
                "it is in the memory of this process alone",
                "name a folder or an fsspec URL, as s3://…, that every machine reaches",
            )
        token = secrets.token_hex(16)
        write_atomically(self.folder / _TOKEN, token)
        return Store(self.folder.absolute(), token=token)

    def trainers_home(self) -> Place:
        """Return where Ray's trainer may keep a mark of its own; nothing of ours is there."""
        return self.folder / _UNDER_WAY / "ray"

    def recall_workers(self) -> None:
        """Take away the token, and what lost workers and Ray's trainer left."""
        (self.folder / _TOKEN).unlink(missing_ok=True)
        self._sweep()
        home = self.trainers_home()
        if isinstance(home, RemotePath):
            home.remove_folder()
        else:
            shutil.rmtree(home, ignore_errors=True)

    def require_seen(self) -> None:
        """Refuse to work where the folder is not the one of the run that sent the work."""
        if self._token is None:
            return
        try:
            found = (self.folder / _TOKEN).read_text()
        except (OSError, InputError):
            found = None
        if found != self._token:
            told = (
                "it does not see the run's files there" if found is None else "another run has it"
            )
            raise RunError(
                f"the run folder {self.folder} on the worker {socket.gethostname()}",
                told,
                "name a folder or an fsspec URL, as s3://…, that every machine reaches",
            )

    def begin(self, facts: Mapping[str, Any]) -> None:
        """Note what the run is made from, or refuse to go on with anything else."""
        path = self._json(_FACTS)
        now = json.loads(json.dumps(facts))
        if not path.is_file():
            _make_folder(self.folder)
            write_atomically(path, sealed({"kind": _FACTS, "values": now}))
            return
        before = self.facts()
        for name in sorted({*before, *now} - {"spec"} - (_NOTED_LATER - {*before})):
            if before.get(name) != now.get(name):
                raise RunChangedError(
                    f"going on with the run in {self.folder}",
                    f"its {name} changed: {difference(before, now, name)}",
                    "give what it was begun with, or another folder; nothing was changed",
                )

    def facts(self) -> dict[str, Any]:
        """Return what the run was made from."""
        if not self._json(_FACTS).is_file():
            raise RunError(
                f"the run in {self.folder}", "there is none", "name a folder of triprune run"
            )
        return opened(self._json(_FACTS))["values"]

    @contextmanager
    def locked(self) -> Generator[None, None, None]:
        """Keep every other process from writing here; the lock goes with the process."""
        _make_folder(self.folder)
        with locked(self.folder):
            self._sweep()
            yield

    def worker(self) -> str | None:
        """Return which process works on the folder, or None."""
        return worker_on(self.folder)

    def _json(self, key: str) -> Place:
        return self.folder / f"{key}.json"

    def _checkpoint(self, name: str) -> Place:
        return self.folder / _UNDER_WAY / f"{name}.safetensors"

    def _checkpoints(self) -> set[str]:
        found = files_in(self.folder, f"{_UNDER_WAY}/*.safetensors")
        return {PurePosixPath(name).stem for name in found}

    def _finished(self) -> set[str]:
        return {_flat(key) for key in self.keys("*/*")}

    def _sweep(self) -> None:
        """Remove what killed writers left: half a file, and checkpoints of finished trainings."""
        for name in self._checkpoints() & self._finished():
            self._checkpoint(name).unlink(missing_ok=True)
        for path in self.folder.rglob(f".*{UNFINISHED}"):
            if path.is_file():
                path.unlink(missing_ok=True)


def _flat(key: str) -> str:
    return key.replace("/", "-")


def _make_folder(folder: Place) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"a run in {folder}", f"it cannot be made a folder ({error.strerror})", "name another"
        ) from error


def _plain(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().clone().contiguous()
