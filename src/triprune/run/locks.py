"""Owns the lock on a run folder: one run at a time; refuses a second by the name of the first.

On a local folder the lock goes with its process: a run has it alone, who asks for the run shares
it for an instant, and forked children let go of it. An object store has no such lock: there a run
leaves a sign of life every few seconds, and is taken for dead when the last one is old.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from threading import Event, Thread
from typing import Any

from triprune.errors import InputError, RunLockedError, TripruneError
from triprune.places import Place, RemotePath

_NAME = "lock"
_BEAT_S = 10.0
_DEAD_AFTER_S = 60.0
_SETTLED_AFTER_S = 0.5
_TRIES, _PAUSE_S = 1000, 0.005
_SOMEBODY = "another process"

_kept: set[FileIO] = set()


def _let_go() -> None:
    """Close the locks in a forked child: an orphan would keep them from the next run."""
    for stream in _kept:
        stream.close()
    _kept.clear()


os.register_at_fork(after_in_child=_let_go)


@contextmanager
def locked(folder: Place) -> Generator[None, None, None]:
    """Keep every other run out of ``folder``, which must be there."""
    lock = _lease(folder / _NAME) if isinstance(folder, RemotePath) else _flock(folder)
    with lock:
        yield


def worker_on(folder: Place) -> str | None:
    """Return which process works on ``folder``, or None."""
    if isinstance(folder, RemotePath):
        held = _held(folder / _NAME)
        return None if held is None else str(held["worker"])
    try:
        with (folder / _NAME).open("rb", buffering=0) as stream:
            return None if _is_free(stream) else _name_in(stream)
    except FileNotFoundError:
        return None


def _refused(folder: object, worker: str, remedy: str) -> RunLockedError:
    return RunLockedError(f"a run in {folder}", f"{worker} is working on it", remedy)


def _this_process() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"


@contextmanager
def _flock(folder: Path) -> Generator[None, None, None]:
    try:
        stream = (folder / _NAME).open("a+b", buffering=0)
    except OSError as error:
        raise InputError(
            f"a run in {folder}", f"it takes no files ({error.strerror})", "name another"
        ) from error
    with stream:
        _kept.add(stream)
        try:
            if not _take(stream):
                remedy = "wait for it, stop it, or name another folder"
                raise _refused(folder, _name_in(stream), remedy)
            stream.truncate(0)
            stream.write(_this_process().encode())
            yield
        finally:
            _kept.discard(stream)


def _take(stream: FileIO) -> bool:
    """Take the lock for a run, unless another run has it; who only asks is waited for."""
    for _ in range(_TRIES):
        if _lock(stream, fcntl.LOCK_EX):
            return True
        if not _is_free(stream):
            return False
        time.sleep(_PAUSE_S)
    return False


def _is_free(stream: FileIO) -> bool:
    """Whether no run has the lock: it can be shared."""
    shared = _lock(stream, fcntl.LOCK_SH)
    if shared:
        fcntl.flock(stream, fcntl.LOCK_UN)  # in a child that was forked just now, too
    return shared


def _lock(stream: FileIO, kind: int) -> bool:
    try:
        fcntl.flock(stream, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _name_in(stream: FileIO) -> str:
    stream.seek(0)
    return stream.read().decode() or _SOMEBODY


@contextmanager
def _lease(file: RemotePath) -> Generator[None, None, None]:
    remedy = f"wait: it is taken for dead {_DEAD_AFTER_S:.0f} s after its last sign of life"
    held = _held(file)
    if held is not None:
        raise _refused(file.parent, held["worker"], remedy)
    mine = secrets.token_hex(8)
    _beat(file, mine)
    time.sleep(_SETTLED_AFTER_S)  # of two that begin at once, the later writer stays
    held = _held(file)
    if held is None or held["mine"] != mine:
        raise _refused(file.parent, held["worker"] if held else _SOMEBODY, remedy)
    over = Event()
    heart = Thread(target=_keep_beating, args=(file, mine, over), daemon=True)
    heart.start()
    try:
        yield
    finally:
        over.set()
        heart.join()
        if (_read(file) or {}).get("mine") == mine:
            file.unlink(missing_ok=True)


def _keep_beating(file: RemotePath, mine: str, over: Event) -> None:
    while not over.wait(_BEAT_S):
        with suppress(TripruneError, OSError):  # a beat that is missed is made up by the next
            if (_read(file) or {}).get("mine") == mine:
                _beat(file, mine)


def _beat(file: RemotePath, mine: str) -> None:
    sign = {
        "worker": _this_process(),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "mine": mine,
        "beat": time.time(),
    }
    file.write_whole(json.dumps(sign).encode())


def _held(file: RemotePath) -> dict[str, Any] | None:
    """Return the sign of a run that lives, or None."""
    sign = _read(file)
    if sign is None or abs(time.time() - sign["beat"]) > _DEAD_AFTER_S:
        return None
    return None if sign["host"] == socket.gethostname() and _gone(sign["pid"]) else sign


def _read(file: RemotePath) -> dict[str, Any] | None:
    try:
        return json.loads(file.read_bytes())
    except (FileNotFoundError, json.JSONDecodeError):
        return None


def _gone(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
