"""Owns reading observations from a CSV file; refuses a malformed one by file, line and reason."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from triprune.core.observation import Observation
from triprune.core.scale import AXES, Scale
from triprune.errors import FileFormatError, InputError

_REQUIRED = (*AXES, "accuracy")
_COUNTS = ("macs", "params")
_MOST_ROWS = 100_000
"""Far beyond any collection; more is some other file, and would only fill the memory."""

_LONGEST_LINE = 1_000_000
"""Longer lines are read in pieces, so that a file without line ends cannot fill the memory."""

_NOT_UTF_8 = re.compile("[\udc80-\udcff]")


@dataclass(frozen=True, slots=True)
class ObservationFile:
    """What a file held. ``in_percent`` tells that its accuracies were read as percentages."""

    observations: tuple[Observation, ...]
    in_percent: bool

    @property
    def are_fractions(self) -> bool:
        """Whether all accuracies are fractions in [0, 1], not some other score."""
        return all(0.0 <= item.accuracy <= 1.0 for item in self.observations)


def read_observations(path: str | Path) -> ObservationFile:
    """Read a CSV with columns depth, width, resolution, accuracy (and maybe macs, params).

    Accuracies are fractions; where some are above 1 and none is above 100 or below 0, all are
    taken as percentages and divided by 100. Anything else is kept as a score.
    """
    path = Path(path)
    try:
        with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as stream:
            rows = list(_observations(path, _rows(path, stream)))
    except OSError as error:
        raise FileFormatError(
            f"reading {path}", f"{error.strerror or error}", "name a CSV file of observations"
        ) from error
    accuracies = [row.accuracy for row in rows]
    lowest, highest = min(accuracies), max(accuracies)
    in_percent = 1.0 < highest <= 100.0 and lowest >= 0.0
    if in_percent and 0.0 < lowest <= 1.0:
        raise FileFormatError(
            f"{path}",
            f"accuracies of {lowest:g} and {highest:g} are both fractions and percentages",
            "write all of them as fractions",
        )
    if in_percent:
        rows = [replace(row, accuracy=row.accuracy / 100.0) for row in rows]
    return ObservationFile(tuple(rows), in_percent)


def _lines(path: Path, stream: TextIO) -> Iterator[str]:
    pieces = iter(lambda: stream.readline(_LONGEST_LINE), "")
    for number, line in enumerate(pieces, start=1):
        if _NOT_UTF_8.search(line):
            raise FileFormatError(
                f"{path}, line {number}", "it is not text in UTF-8", "save it as CSV in UTF-8"
            )
        yield line


def _rows(path: Path, stream: TextIO) -> Iterator[tuple[str, list[str]]]:
    """Yield where each row stands, and its cells."""
    reader = csv.reader(_lines(path, stream), strict=True)
    try:
        for cells in reader:
            yield f"{path}, line {reader.line_num}", cells
    except csv.Error as error:
        raise FileFormatError(
            f"{path}, line {reader.line_num}", f"it is not CSV ({error})", "save it as CSV in UTF-8"
        ) from error


def _observations(path: Path, rows: Iterator[tuple[str, list[str]]]) -> Iterator[Observation]:
    _, first = next(rows, ("", list[str]()))
    header = _header(path, first)
    count = 0
    for where, cells in rows:
        if not any(cell.strip() for cell in cells):
            continue
        count += 1
        if count > _MOST_ROWS:
            raise FileFormatError(
                where,
                f"there are more than {_MOST_ROWS:,} observations",
                "a collection has a few dozen; check that this is the right file",
            )
        yield _observation(where, header, cells)
    if not count:
        raise FileFormatError(f"{path}", "it has no observations", "add a row for each model")


def _header(path: Path, cells: Sequence[str]) -> list[str]:
    header = [name.strip().lower() for name in cells]
    missing = [name for name in _REQUIRED if name not in header]
    repeated = [name for name in (*_REQUIRED, *_COUNTS) if header.count(name) > 1]
    if missing or repeated:
        wrong = f"{', '.join(missing or repeated)} are {'missing' if missing else 'repeated'}"
        raise FileFormatError(
            f"{path}, line 1",
            f"the columns {wrong} (found: {', '.join(header)[:80] or 'none'})",
            f"give it a header with {', '.join(_REQUIRED)}, separated by commas",
        )
    return header


def _observation(where: str, header: Sequence[str], row: Sequence[str]) -> Observation:
    columns = len(header)
    if len(row) < columns or any(cell.strip() for cell in row[columns:]):
        raise FileFormatError(
            where,
            f"{len(row)} values for {columns} columns",
            "give one for each, with decimal points and no decimal commas",
        )
    cells = dict(zip(header, row, strict=False))
    try:
        scale = Scale(*(_number(cells[axis], axis) for axis in AXES))
        macs, params = (_count(cells.get(name, ""), name) for name in _COUNTS)
        return Observation(scale, _number(cells["accuracy"], "accuracy"), macs, params)
    except InputError as error:
        raise FileFormatError(where, f"{error.asked}: {error.found}", error.remedy) from error


def _number(text: str, name: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{name} = {text!r}", "it is not a number", "write one, as 0.75") from None


def _count(text: str, name: str) -> int | None:
    if not text.strip():
        return None
    number = _number(text, name)
    if not number.is_integer():
        raise InputError(f"{name} = {text!r}", "it is not a count", "write an integer, or nothing")
    return int(number)
