"""Keep ``torchperf_values``, the table that queries read, consistent with the results from which it is derived.

A materialized view fills it, but not atomically: a kill may leave one without the other. So the rows of both are
counted by day, and days that differ are rebuilt.
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
"""Most results that one statement processes, to bound memory."""
_LATEST = 2**64 - 1
_DELETE = "DELETE FROM torchperf_values WHERE timestamp BETWEEN {start:UInt64} AND {last:UInt64}"


@dataclass(frozen=True)
class _Days:
    """Successive days that differ, numbered from 1970 on; ``has_rows`` says whether they have values already."""

    first: int
    last: int
    results: int
    has_rows: bool

    def bounds(self) -> dict[str, int]:
        """Return the first and the last second of the days."""
        return {"start": self.first * _DAY, "last": min((self.last + 1) * _DAY - 1, _LATEST)}

    def and_next(self, other: _Days) -> _Days | None:
        """Return both merged, or None if they are not adjacent, not alike, or have too many results together."""
        alike = (self.last + 1, self.has_rows) == (other.first, other.has_rows)
        if not alike or self.results + other.results > _ROWS_AT_ONCE:
            return None
        return _Days(self.first, other.last, self.results + other.results, self.has_rows)


def refresh(store: Store) -> None:
    """Rebuild the days on which values and results differ; if the totals agree, nothing else is read.

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
    """Whether both tables have equally many rows, which the engine knows without reading them.

    This suffices, because a kill can only leave rows missing, never too many elsewhere.
    """
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
