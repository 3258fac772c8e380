"""Columns of short numbers: values with only as many digits as the pages show, and numbers that stand for IDs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, groupby
from math import floor, isclose, isfinite
from typing import TYPE_CHECKING

from torchperf_ci.metrics import rounded
from torchperf_ci.series.outcomes import number_of, why_without_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from torchperf_ci.series.points import Point, Series
    from torchperf_ci.stats.effect import Effect

SHOWN_DIGITS = 4
"""Significant digits that the pages show."""
_WHOLE, _LARGE = 1000, 10**6
"""Range in which the pages show whole numbers."""
_MIN_UNIT_EXPONENT = -307


def value_columns(results: Sequence[tuple[Series, Point]], digits: int) -> dict[str, object]:
    """Return one list per column. ``value`` is None where there is no number; ``why`` gives the reason, by index.

    An outcome told as a word is 1 or 0, and ``why`` is the word of a failure. ``n`` is the number of repetitions. Their
    extremes, as the pages show them, are stored as distances ``below`` and ``above`` the value, in units of its fourth
    digit: nearly always small whole numbers.
    """
    values = [short_number(number_of(series, point), digits) for series, point in results]
    repeated = [*zip(values, (point.repetitions for _, point in results), strict=True)]
    return {
        "value": values,
        "below": [_units(value, min(row, default=None), -1) for value, row in repeated],
        "above": [_units(value, max(row, default=None), 1) for value, row in repeated],
        "n": [len(row) for _, row in repeated],
        "why": {
            place: why
            for place, (series, point) in enumerate(results)
            if not values[place] and (why := why_without_number(series, point))
        },
    }


def short_number(value: float | None, digits: int) -> float | None:
    """Round a value to this many significant digits, or to six if the pages would otherwise show another number."""
    if value is None:
        return None
    fine, short = rounded(value), float(f"{value:.{digits}g}")
    return _whole(short if _shown(short) == _shown(fine) else fine)


def rounded_effect(effect: Effect | None) -> tuple[float | None, float | None, float | None]:
    """Return the ratio and its interval, rounded; None where there is no ratio, or an end is open."""
    if not effect:
        return None, None, None
    ratio, low, high = (rounded(end) for end in (effect.ratio, effect.low, effect.high))
    return ratio, low or None, high if isfinite(high) else None


def _shown(value: float) -> str:
    """Format a value as ``dom.js`` does."""
    if value.is_integer() or _WHOLE <= abs(value) < _LARGE:
        return f"{value:.0f}"
    return f"{value:#.{SHOWN_DIGITS}g}"


def ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return numbers as ranges of successive ones, each as its first number and its length."""
    runs = [list(run) for _, run in groupby(enumerate(numbers), lambda item: item[1] - item[0])]
    return [(run[0][1], len(run)) for run in runs]


@dataclass(frozen=True)
class Numbering:
    """IDs of ten hexadecimal digits, each of which documents refer to by its place, from 0."""

    ids: Sequence[str]

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """The numbers of the IDs."""
        return {series_id: number for number, series_id in enumerate(self.ids)}

    def checksum(self, numbers: Iterable[int]) -> int:
        """Return a checksum of the IDs up to the highest of ``numbers``; ``data.js`` computes the same.

        IDs that come after it do not change it, so that a new run changes only the documents that refer to it.
        """
        return self._sums[max(numbers, default=-1) + 1]

    @cached_property
    def _sums(self) -> Sequence[int]:
        """The checksums of the first 0, 1, 2, … IDs."""
        return [*accumulate(self.ids, lambda total, one: (31 * total + int(one, 16)) % 2**32, initial=0)]


def _units(value: float | None, extreme: float | None, way: int) -> float | None:
    """Return the distance of an extreme in units of the value's fourth digit; ``data.js`` inverts this."""
    short = short_number(extreme, SHOWN_DIGITS)
    if value is None or short is None:
        return None
    unit = float(f"1e{max(int(f'{value:e}'.partition('e')[2]) - 3, _MIN_UNIT_EXPONENT)}")
    there, here = short / unit, floor(value / unit + 0.5)
    return 0 if isclose(there, here) else _whole(float(f"{way * (there - here):.12g}"))


def _whole(number: float) -> float:
    """Return the same number, as an integer if it has no fraction, which is shorter in JSON."""
    return int(number) if number.is_integer() and abs(number) < 1e15 else number
