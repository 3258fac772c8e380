"""Values of many results as columns of short numbers: as many digits as somebody reads, and not one more."""

from __future__ import annotations

from itertools import groupby
from math import floor
from typing import TYPE_CHECKING

from torchperf_ci.series.outcomes import outcome_word, passed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchperf_ci.series.points import Point, Series

SHOWN_DIGITS = 4
"""As many as the pages show."""
_WHOLE, _LARGE = 1000, 10**6
"""Between them the pages show whole numbers."""
_SMALLEST_UNIT = -307


def value_columns(results: Sequence[tuple[Series, Point]], digits: int) -> dict[str, object]:
    """Return a list for each column. ``value`` is None where there is no number, and ``why`` says why, by place.

    ``n`` counts the repetitions. Their extremes are those that the pages show, told by how far ``below`` and ``above``
    the value they lie, in units of its fourth digit: nearly always small whole numbers.
    """
    values = [short_number(point.value, digits) for _, point in results]
    told = [*zip(values, (point.repetitions for _, point in results), strict=True)]
    return {
        "value": values,
        "below": [_units(value, min(row, default=None), -1) for value, row in told],
        "above": [_units(value, max(row, default=None), 1) for value, row in told],
        "n": [len(row) for _, row in told],
        "why": {
            place: why
            for place, (series, point) in enumerate(results)
            if (why := why_without_number(series, point))
        },
    }


def short_number(value: float | None, digits: int) -> float | None:
    """Return a value with so many significant digits; with six where the pages would show another number."""
    if value is None:
        return None
    fine, short = float(f"{value:.6g}"), float(f"{value:.{digits}g}")
    return _whole(short if _shown(short) == _shown(fine) else fine)


def _shown(value: float) -> str:
    """Return a value as ``dom.js`` shows it."""
    if value.is_integer() or _WHOLE <= abs(value) < _LARGE:
        return f"{value:.0f}"
    return f"{value:#.{SHOWN_DIGITS}g}"


def why_without_number(series: Series, point: Point) -> str:
    """Return why a point has no number, in words; empty where it has one."""
    if point.value is not None:
        return ""
    reason = point.info.get("reason", "")
    word = outcome_word(point) if passed(point) is not None or "status" in point.info else "no number"
    return f"{word}: {reason}" if reason else word or series.metric


def ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return numbers as ranges of successive ones, each by its first and how many they are."""
    runs = [list(run) for _, run in groupby(enumerate(numbers), lambda item: item[1] - item[0])]
    return [(run[0][1], len(run)) for run in runs]


def _units(value: float | None, extreme: float | None, way: int) -> float | None:
    """Return how many units of the fourth digit of a value an extreme is away; ``data.js`` computes the way back."""
    short = short_number(extreme, SHOWN_DIGITS)
    if value is None or short is None:
        return None
    unit = float(f"1e{max(int(f'{value:e}'.partition('e')[2]) - 3, _SMALLEST_UNIT)}")
    away = way * (short / unit - floor(value / unit + 0.5))
    return _whole(float(f"{away:.12g}"))


def _whole(number: float) -> float:
    """Return the same number, written without a fraction where it has none."""
    return int(number) if number.is_integer() and abs(number) < 1e15 else number
