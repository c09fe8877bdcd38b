"""Owns judging the text of a plan before any of it is used; refuses all that the schema refuses."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from triprune.errors import PlanError, PlanVersionError, TruncatedFileError

VERSION = 1
LARGEST = 1 << 20
"""No network has a layer this wide or a picture this large."""
LONGEST_TEXT = 1 << 28

_ASKED = "reading a plan"
_REMEDY = "make the plan again with triprune.prune"
_FIELDS = frozenset(
    {
        *("version", "fingerprint", "input_size", "resolution_px", "asked", "realised"),
        *("removed_blocks", "layers", "tensors", "placed", "notes"),
    }
)


def read_plan(text: str) -> dict[str, Any]:
    """Return the document, checked field by field."""
    document = _parse(text)
    if not isinstance(document, dict):
        raise _malformed("it is not a JSON object")
    version = document.get("version")
    if isinstance(version, int) and not isinstance(version, bool) and version > VERSION:
        raise PlanVersionError(
            _ASKED,
            f"it has version {version}, and this triprune reads up to {VERSION}",
            "install a newer triprune",
        )
    if version != VERSION or isinstance(version, bool):
        raise _malformed(f"its version is {version!r}")
    _same_keys("the plan", document, _FIELDS)
    _check_heading(document)
    _check_cuts(document)
    return document


def _parse(text: str) -> Any:
    if len(text) > LONGEST_TEXT:
        raise _malformed(f"it is longer than {LONGEST_TEXT} characters")
    try:
        return json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        if error.pos >= len(text.rstrip()) - 1 or error.msg.startswith("Unterminated"):
            raise TruncatedFileError(
                _ASKED, "its text ends in the middle", "copy or save it again, whole"
            ) from error
        raise _malformed(f"it is not JSON ({error})") from error
    except PlanError:  # of _no_constant
        raise
    except ValueError as error:
        raise _malformed("it holds a number of absurd length") from error
    except RecursionError as error:
        raise _malformed("it is nested too deeply") from error


def _no_constant(name: str) -> float:
    raise _malformed(f"it holds {name}")


def _check_heading(document: dict[str, Any]) -> None:
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", _text("fingerprint", document["fingerprint"])):
        raise _malformed("its fingerprint is not a sha256")
    size = document["input_size"]
    if not isinstance(size, list) or not 1 <= len(size) <= 8:
        raise _malformed("its input_size is not a list of sizes")
    for each in [*size, document["resolution_px"]]:
        _count("input_size or resolution_px", each, 1, LARGEST)
    for key in ("asked", "realised"):
        scale = document[key]
        if not isinstance(scale, list) or len(scale) != 3 or not all(map(_fraction, scale)):
            raise _malformed(f"{key} is not three kept fractions in (0, 1]")
    for key in ("removed_blocks", "notes"):
        if not isinstance(document[key], list):
            raise _malformed(f"{key} is not a list")
        for each in document[key]:
            _text(key, each)
    if len(set(document["removed_blocks"])) != len(document["removed_blocks"]):
        raise _malformed("it removes a block twice")


def _check_cuts(document: dict[str, Any]) -> None:
    for name, cut in _object("layers", document["layers"]).items():
        _same_keys(name, cut, frozenset(("out", "in")), required=frozenset())
        for index in cut.values():
            _index(name, index)
    for name, dims in _object("tensors", document["tensors"]).items():
        _same_keys(name, dims, frozenset("01234567"), required=frozenset())
        for index in dims.values():
            _index(name, index)
    for name, cut in _object("placed", document["placed"]).items():
        _same_keys(name, cut, frozenset(("width", "out", "in")))
        _count(f"the width of {name}", cut["width"], 1, LARGEST)
        _index(name, cut["out"])
        _index(name, cut["in"])


def _same_keys(
    what: str, value: Any, allowed: frozenset[str], *, required: frozenset[str] | None = None
) -> None:
    keys = _object(what, value).keys()
    missing = sorted((allowed if required is None else required) - keys)
    unknown = sorted(keys - allowed)
    if missing or unknown:
        found = f"{what} lacks {missing}" if missing else f"{what} has unknown {unknown[:3]}"
        raise _malformed(found)


def _object(what: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _malformed(f"{what} is not an object")
    return value


def _text(what: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _malformed(f"{what} is not text")
    return value


def _count(what: str, value: Any, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise _malformed(f"{what} is not an integer from {low} to {high}")


def _index(what: str, index: Any) -> None:
    if not isinstance(index, list) or not index:
        raise _malformed(f"{what} has no list of kept channels")
    for each in index:
        _count(f"a kept channel of {what}", each, 0, LARGEST - 1)
    if len(set(index)) != len(index):
        raise _malformed(f"{what} keeps a channel twice")


def _fraction(value: Any) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and math.isfinite(value) and 0.0 < value <= 1.0


def _malformed(found: str) -> PlanError:
    return PlanError(_ASKED, found, _REMEDY)
