"""Owns what goes to a cluster's workers and comes back: the work, and news of it; knows no cluster.

Artifacts never travel: a worker writes them to the run folder, and the run reads them there.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import torch

from triprune import __version__
from triprune.errors import ClusterError
from triprune.learning.models import FILE_MODULE
from triprune.learning.progress import EpochRecord, Watcher, Watchers
from triprune.learning.ranks import current_ranks
from triprune.learning.turns import drive
from triprune.run.executors.inline import Piece
from triprune.run.store import Store

if TYPE_CHECKING:
    from typing_extensions import Self

_KNOCK_S = 10.0
News = tuple[int, str, dict[str, Any]]


class Travelling(Protocol):
    """What all pieces share, and how it looks on a worker."""

    @property
    def store(self) -> Store:
        """The run folder."""
        ...

    @property
    def watchers(self) -> Sequence[Watcher]:
        """Who wants to hear of trainings; they stay at home."""
        ...

    def on_worker(self, store: Store, watchers: Sequence[Watcher], cores: int) -> Self:
        """Return the same for a worker that has ``cores`` cores."""
        ...


Traveller = TypeVar("Traveller", bound=Travelling)


def work(shared: Traveller, piece: Piece[Traveller, Any], teller: Teller, cores: int) -> None:
    """Do a piece on a worker; its results are in the store."""
    torch.set_num_threads(cores)
    shared.store.require_seen()
    if current_ranks().leads:
        teller.begin()
    drive([piece(shared.on_worker(shared.store, [teller], cores))])


def look(store: Store, version: str) -> None:
    """Refuse a worker that cannot see the run folder, or has another version than the run."""
    store.require_seen()
    if version != __version__:
        raise ClusterError(
            f"the worker {socket.gethostname()}",
            f"it has triprune {__version__}, the run has {version}",
            "install the same version on every machine",
        )


def knock(address: str) -> None:
    """Ask whether anybody is at ``host:port``; any other address is taken at its word."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_KNOCK_S).close()


class Teller:
    """Watches the trainings of a piece on its worker, and tells those at home."""

    def __init__(self, piece: int, tell: Callable[[News], object]) -> None:
        self._piece, self._tell = piece, tell

    def begin(self) -> None:
        """Tell that a worker has taken the piece."""
        self._tell((self._piece, "begin", {}))

    def on_step(self, training: str, *, epoch: int, done: float) -> None:
        """Tell of a step."""
        told = {"training": training, "epoch": epoch, "done": done}
        self._tell((self._piece, "on_step", told))

    def on_epoch(self, training: str, record: EpochRecord) -> None:
        """Tell of an epoch."""
        self._tell((self._piece, "on_epoch", {"training": training, "record": record}))

    def on_end(self, training: str, note: str) -> None:
        """Tell of an end."""
        self._tell((self._piece, "on_end", {"training": training, "note": note}))


class Ears:
    """Holds what workers tell until the run asks for it."""

    def __init__(self) -> None:
        self._heard: list[News] = []

    def hear(self, news: News) -> None:
        """Keep a piece of news."""
        self._heard.append(news)

    def take(self) -> list[News]:
        """Return what was heard since the last time."""
        heard, self._heard = self._heard, []
        return heard


class Listener:
    """Passes what workers tell on to the watchers at home, and says when a worker was lost."""

    def __init__(self, watchers: Sequence[Watcher]) -> None:
        self._watchers = watchers
        self._pieces: dict[int, Watchers] = {}
        self._last: dict[int, str] = {}

    def hear(self, news: News) -> None:
        """Pass one piece of news on."""
        piece, event, told = news
        watchers = self._pieces.setdefault(piece, Watchers(self._watchers))
        if event != "begin":
            self._last[piece] = told["training"]
            getattr(watchers, event)(**told)
        elif piece in self._last:
            watchers.on_end(self._last[piece], "its worker was lost; another goes on")
        else:
            self._last[piece] = f"piece {piece + 1}"


def modules_of_model_files() -> Iterator[ModuleType]:
    """Yield the modules that a model named ``path.py:function`` was built from.

    No other machine can import them by name: that file, and its neighbours that it imports. Workers
    have a triprune of their own, wherever the file lies.
    """
    loaded = {
        name: module
        for name, module in sys.modules.items()
        if _file(module) is not None and name.partition(".")[0] != "triprune"
    }
    homes = {_file(m).parent for name, m in loaded.items() if name.startswith(FILE_MODULE)}  # pyright: ignore[reportOptionalMemberAccess]
    for module in loaded.values():
        file = _file(module)
        if file is not None and homes & set(file.parents) and "site-packages" not in file.parts:
            yield module


def _file(module: ModuleType) -> Path | None:
    name = getattr(module, "__file__", None)
    return Path(name).resolve() if isinstance(name, str) else None
