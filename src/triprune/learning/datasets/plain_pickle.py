"""Owns reading CIFAR's python files; refuses every pickle that holds more than plain arrays.

No name that a pickle asks for reaches the real thing: arrays and dtypes are stand-ins of this
module, which take bytes and a shape and nothing else.
"""

from __future__ import annotations

import io
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from triprune.errors import DataError

_LARGEST_BYTES = 400_000_000  # CIFAR-100's training file has 155 MB


class _Bytes:
    """Stands for a numpy array of bytes."""

    __slots__ = ("array",)

    def __setstate__(self, state: Any) -> None:
        _version, shape, dtype, by_columns, content = state
        if not isinstance(dtype, _UnsignedByte) or not isinstance(content, bytes):
            raise pickle.UnpicklingError("it holds an array of something else than bytes")
        if len(content) != math.prod(shape):
            raise pickle.UnpicklingError("it holds an array with too few or too many bytes")
        order = "F" if by_columns else "C"
        self.array = np.frombuffer(content, np.uint8).reshape(shape, order=order)


class _UnsignedByte:
    """Stands for the dtype of bytes, the only one these files use."""

    __slots__ = ()

    def __init__(self, code: Any, *_flags: Any) -> None:
        if code not in ("u1", b"u1"):
            raise pickle.UnpicklingError(f"it holds an array of {code!r}")

    def __setstate__(self, state: Any) -> None:
        """Take what numpy stores beside the code (byte order, fields) and need none of it."""


class _EmptyArray:
    """Stands for the function of numpy that makes the array which the pickle then fills."""

    __slots__ = ()

    def __call__(self, kind: Any, *_start: Any) -> _Bytes:
        if kind is not _Bytes:
            raise pickle.UnpicklingError("it builds something else than an array")
        return _Bytes()


class _Latin1:
    """Stands for ``_codecs.encode``, which is how a pickle of protocol 2 spells bytes."""

    __slots__ = ()

    def __call__(self, text: str, encoding: str) -> bytes:
        if encoding != "latin1":
            raise pickle.UnpicklingError(f"it encodes text as {encoding}")
        return text.encode("latin1")


_STAND_INS: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _Bytes,
    ("numpy", "dtype"): _UnsignedByte,
    ("numpy.core.multiarray", "_reconstruct"): _EmptyArray(),
    ("numpy._core.multiarray", "_reconstruct"): _EmptyArray(),
    ("_codecs", "encode"): _Latin1(),
}


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Return the stand-in for one of the few names that CIFAR's files contain."""
        try:
            return _STAND_INS[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}") from None


def read_plain_pickle(file: Path) -> dict[bytes, Any]:
    """Return the dictionary of byte arrays, lists, bytes and numbers that ``file`` holds."""
    asked = f"the CIFAR file {file}"
    if file.stat().st_size > _LARGEST_BYTES:
        raise DataError(asked, "it is too large to be one", "unpack the official archive again")
    try:
        content = _PlainUnpickler(io.BytesIO(file.read_bytes()), encoding="bytes").load()
    except Exception as error:
        raise DataError(
            asked,
            f"refused, since it is no plain pickle of arrays ({error})",
            "unpack the official archive again, and distrust where this file came from",
        ) from error
    if not isinstance(content, dict):
        raise DataError(asked, "it holds no dictionary", "unpack the official archive again")
    return {k: v.array if isinstance(v, _Bytes) else v for k, v in content.items()}
