"""A series out of a CSV file with two columns, ``index,value``, oldest first; a header line may be there."""

from __future__ import annotations

import csv
from math import isnan
from typing import TYPE_CHECKING

from torchperf_ci.errors import RecordsError
from torchperf_ci.series.series import Point

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


def points_of_csv(path: Path) -> list[Point]:
    """One point a line, whose ``run`` is what the first column says. An empty value or NaN is a run without a number.

    Raises :class:`RecordsError`, with the line, for whatever is no positive number, and for a file without a line.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            found = list(_points(path, file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        msg = f"{path}: cannot be read as CSV: {error}"
        raise RecordsError(msg) from error
    if not found:
        msg = f"{path}: has no line with a value; give one line a run, `index,value`"
        raise RecordsError(msg)
    return found


def _points(path: Path, file: Iterable[str]) -> Iterator[Point]:
    lines = csv.reader(file, strict=True, skipinitialspace=True)
    first = True
    for cells in lines:
        number = lines.line_num
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != 2:
            msg = f"{path}:{number}: {len(cells)} columns where `index,value` are expected"
            raise RecordsError(msg)
        index, value = (cell.strip() for cell in cells)
        if not (first and _is_header(value)):
            yield Point(_number(path, number, value), run=index)
        first = False


def _is_header(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return value != ""
    return False


def _number(path: Path, line: int, value: str) -> float | None:
    try:
        number = float(value) if value else float("nan")
    except ValueError:
        number = 0.0
    if isnan(number):
        return None
    if not 0 < number < float("inf"):
        msg = f"{path}:{line}: {value!r} is no positive number; leave the value empty where a run has none"
        raise RecordsError(msg)
    return number
