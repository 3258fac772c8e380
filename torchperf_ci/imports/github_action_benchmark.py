"""Read the custom formats of github-action-benchmark, ``customSmallerIsBetter`` and ``customBiggerIsBetter``.

Both are lists of ``{"name", "unit", "value"}`` and look the same, so the user must say which one a file is.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from torchperf_ci.imports.imported_case import (
    MILLISECONDS,
    TIME,
    ImportedCase,
    ImportedFile,
    UnfitResultError,
    cases_of,
    facts,
    members,
    name_of,
    number,
)
from torchperf_ci.metrics import DOWN, UP
from torchperf_ci.records.record import Metric

if TYPE_CHECKING:
    from collections.abc import Sequence

TOOL = "github-action-benchmark"
DIRECTIONS = {"customSmallerIsBetter": DOWN, "customBiggerIsBetter": UP}
_NEEDED = {"name", "unit", "value"}
_LONGEST_UNIT = 40


def recognises(value: object) -> bool:
    """Whether a JSON document is a file in one of these formats."""
    if not isinstance(value, list):
        return False
    objects = [entry for entry in value if isinstance(entry, dict)]
    return any(entry.keys() >= _NEEDED for entry in objects) and not any(
        "metric" in entry for entry in objects
    )


def read(value: Sequence[object], given: str) -> ImportedFile:
    """Return the cases of a file in the format ``given``. Raises :class:`UnfitResultError` if that is empty."""
    if given not in DIRECTIONS:
        reason = (
            "looks like the input of github-action-benchmark, which does not say whether smaller or bigger is better; "
            f"give --format {' or --format '.join(DIRECTIONS)}"
        )
        raise UnfitResultError(reason)
    return ImportedFile(TOOL, cases_of(value, "$", partial(_case, DIRECTIONS[given])))


def _case(direction: str, entry: object, path: str) -> ImportedCase:
    result = members(entry, "a result", path)
    name = name_of(result.get("name"), f"{path}.name")
    value, unit = number(result.get("value"), f"{path}.value"), _unit(result.get("unit"), path)
    about = {**facts({key: result.get(key) for key in ("range", "extra")}), "direction": direction}
    if direction == DOWN and unit in MILLISECONDS:
        metric = Metric(TIME, [value * MILLISECONDS[unit]], about)
    else:
        metric = Metric(f"value({unit})" if unit else "value", [value], about)
    return ImportedCase(path, entry, name, [metric])


def _unit(value: object, path: str) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST_UNIT:
        reason = f"is not a unit of at most {_LONGEST_UNIT} characters"
        raise UnfitResultError(reason, f"{path}.unit")
    return value.strip()
