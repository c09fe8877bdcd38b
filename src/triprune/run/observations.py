"""Owns reading observations from a CSV file; refuses a malformed one by file, line and reason."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from triprune.core.observation import Observation
from triprune.core.scale import AXES, Scale
from triprune.errors import FileFormatError, InputError

_REQUIRED = (*AXES, "accuracy")
_MOST_ROWS = 100_000
"""Far beyond any collection; more is some other file, and would only fill the memory."""


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
        with path.open(encoding="utf-8-sig", newline="") as stream:
            rows = list(_observations(path, csv.reader(stream, strict=True)))
    except OSError as error:
        raise FileFormatError(
            f"reading {path}", f"{error.strerror or error}", "name a CSV file of observations"
        ) from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise FileFormatError(
            f"reading {path}", f"it is not a CSV text file in UTF-8 ({error})", "save it as one"
        ) from error
    accuracies = [row.accuracy for row in rows]
    in_percent = 1.0 < max(accuracies) <= 100.0 and min(accuracies) >= 0.0
    if in_percent:
        rows = [replace(row, accuracy=row.accuracy / 100.0) for row in rows]
    return ObservationFile(tuple(rows), in_percent)


def _observations(path: Path, lines: Iterator[list[str]]) -> Iterator[Observation]:
    header = [name.strip().lower() for name in next(lines, list[str]())]
    missing = [name for name in _REQUIRED if name not in header]
    if missing:
        raise FileFormatError(
            f"{path}, line 1",
            f"the columns {', '.join(missing)} are missing (found: {', '.join(header) or 'none'})",
            f"give it a header with {', '.join(_REQUIRED)}",
        )
    count = 0
    for number, cells in enumerate(lines, start=2):
        if not any(cell.strip() for cell in cells):
            continue
        count += 1
        if count > _MOST_ROWS:
            raise FileFormatError(
                f"{path}, line {number}",
                f"there are more than {_MOST_ROWS:,} observations",
                "a collection has a few dozen; check that this is the right file",
            )
        yield _observation(path, number, dict(zip(header, cells, strict=False)), len(header))
    if not count:
        raise FileFormatError(f"{path}", "it has no observations", "add a row for each model")


def _observation(path: Path, number: int, cells: dict[str, str], columns: int) -> Observation:
    where = f"{path}, line {number}"
    if len(cells) < columns:
        raise FileFormatError(
            where, f"{len(cells)} values for {columns} columns", "fill in the missing ones"
        )
    try:
        scale = Scale(*(_number(cells[axis], axis) for axis in AXES))
        macs, params = (
            int(_number(cells[name], name)) if cells.get(name, "").strip() else None
            for name in ("macs", "params")
        )
        return Observation(scale, _number(cells["accuracy"], "accuracy"), macs, params)
    except InputError as error:
        raise FileFormatError(where, f"{error.asked}: {error.found}", error.remedy) from error


def _number(text: str, name: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{name} = {text!r}", "it is not a number", "write one, as 0.75") from None
