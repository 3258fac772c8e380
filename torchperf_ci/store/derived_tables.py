"""``torchperf_values``, the table that answers: it follows from the results, and is made again where it differs.

A materialized view fills it. Nothing ties the two: a kill may fall between. So rows are counted by day, and the days
that differ are made again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchperf_ci.store.client import CHANGING, statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchperf_ci.store.client import Store

_DAY = 86_400
_ROWS_AT_ONCE = 250_000
"""Of results: what a statement takes, so that memory is bounded."""
_LATEST = 2**64 - 1
_DELETE = "DELETE FROM torchperf_values WHERE timestamp BETWEEN {start:UInt64} AND {last:UInt64}"


@dataclass(frozen=True)
class _Days:
    """Days in a row that differ, by their numbers from 1970 on, and how many results they have."""

    first: int
    last: int
    results: int
    has_rows: bool

    def bounds(self) -> dict[str, int]:
        """Their first and last second."""
        return {"start": self.first * _DAY, "last": min((self.last + 1) * _DAY - 1, _LATEST)}

    def and_next(self, other: _Days) -> _Days | None:
        """Both as one, where they are alike, lie side by side and are not too many rows."""
        alike = (self.last + 1, self.has_rows) == (other.first, other.has_rows)
        if not alike or self.results + other.results > _ROWS_AT_ONCE:
            return None
        return _Days(self.first, other.last, self.results + other.results, self.has_rows)


def refresh(store: Store) -> None:
    """Make the days again of which values and results differ; what agrees is only counted.

    Raises :class:`StoreError` or :class:`StoreUnreachableError`.
    """
    with store.held(), CHANGING:
        if _counts_agree(store):
            return
        for days in list(_together(_differing_days(store))):
            if days.has_rows:
                store.run(_DELETE, days.bounds())
            if days.results:
                store.run(statement("fill_values"), days.bounds())


def _counts_agree(store: Store) -> bool:
    """Of whole tables, which the engine knows by heart: a kill leaves fewer rows, and none too many elsewhere."""
    results = store.rows("SELECT count() FROM oss_ci_benchmark_v3")
    return store.rows("SELECT count() FROM torchperf_values") == results


def _differing_days(store: Store) -> Iterator[_Days]:
    for day, results, values in store.rows(statement("differing_days")):
        yield _Days(day, day, results, bool(values))


def _together(days: Iterable[_Days]) -> Iterator[_Days]:
    before: _Days | None = None
    for next_days in days:
        both = before.and_next(next_days) if before else next_days
        if before and not both:
            yield before
        before = both or next_days
    if before:
        yield before
