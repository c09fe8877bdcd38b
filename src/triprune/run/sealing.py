"""Owns the seal on stored results: JSON that begins with its own checksum; refuses damage."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from triprune.errors import ArtifactError
from triprune.places import Place

_PREFIX, _HEX = b'{"checksum":"', 64


def sealed(body: Mapping[str, Any]) -> bytes:
    """Return JSON that begins with the checksum of all that follows it."""
    text = json.dumps(body, indent=1).encode()
    return _PREFIX + hashlib.sha256(text).hexdigest().encode() + b'",' + text[1:] + b"\n"


def opened(path: Place) -> dict[str, Any]:
    """Read what ``sealed`` made; any changed bit is found and named."""
    data = _bytes(path)
    start = len(_PREFIX) + _HEX
    text = b"{" + data[start + 2 : -1]
    told = data[len(_PREFIX) : start].decode(errors="replace")
    whole = data.startswith(_PREFIX) and data[start : start + 2] == b'",' and data[-1:] == b"\n"
    if not whole or hashlib.sha256(text).hexdigest() != told:
        raise _damaged(path)
    return json.loads(text)


def packed_tensors(path: Place, body: Mapping[str, Any]) -> bytes:
    """Return the tensors beside an artifact, as they were written."""
    again = f"delete {path.name} beside it: the command that began the run makes both again"
    packed = _bytes(path.with_suffix(".safetensors"), again)
    if hashlib.sha256(packed).hexdigest() != body["tensors"]:
        raise _damaged(path.with_suffix(".safetensors"))
    return packed


def _bytes(path: Place, otherwise: str = "begin another run") -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ArtifactError(
            f"reading {path}",
            error.strerror or "there is no such file",
            f"restore it from a copy, or {otherwise}",
        ) from error


def _damaged(path: Place) -> ArtifactError:
    return ArtifactError(
        f"reading {path}",
        "its checksum does not fit: it was damaged or changed",
        "restore it from a copy, or delete it with all that was made from it; nothing was changed",
    )
