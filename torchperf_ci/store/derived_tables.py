"""The tables that answer questions. They follow from the results alone, and are made again where they differ.

``torchperf_values`` is filled by a materialized view, ``torchperf_days`` and ``torchperf_runs`` here. Nothing ties them
to the results: a kill may fall between. So rows are counted by day, and the days that differ are made again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchperf_ci.metrics import is_positive
from torchperf_ci.store.client import CHANGING, statement

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from torchperf_ci.store.client import Store

_DAY = 86_400
_ROWS_AT_ONCE = 250_000
"""Of results: what a statement takes, so that memory is bounded."""
_LATEST = 2**64 - 1


@dataclass(frozen=True)
class _Days:
    """Days in a row, by their numbers from 1970 on, of which tables differ from the results in the same way."""

    first: int
    last: int
    results: int
    tables: tuple[str, ...]
    has_rows: bool

    def bounds(self) -> dict[str, int]:
        """Their first and last second."""
        return {"start": self.first * _DAY, "last": min((self.last + 1) * _DAY - 1, _LATEST)}

    def and_next(self, other: _Days) -> _Days | None:
        """Both as one, where they are alike, lie side by side and are not too many rows."""
        alike = (self.last + 1, self.tables, self.has_rows) == (other.first, other.tables, other.has_rows)
        if not alike or self.results + other.results > _ROWS_AT_ONCE:
            return None
        return _Days(self.first, other.last, self.results + other.results, self.tables, self.has_rows)


VALUES = ("torchperf_values",)
"""All that points need."""
ANSWERS = (*VALUES, "torchperf_days", "torchperf_runs")
_COUNT, _SUM = "SELECT count() FROM {table:Identifier}", "SELECT sum(rows) FROM {table:Identifier}"


def refresh(store: Store, tables: Collection[str] = ANSWERS) -> None:
    """Make the days again of which ``tables`` and the results differ; what agrees is only counted.

    Raises :class:`StoreError` or :class:`StoreUnreachableError`.
    """
    with store.held(), CHANGING:
        if _counts_agree(store, tables):
            return
        differing = list(_together(_differing_days(store, tables)))
        metrics = [name for (name,) in store.rows("SELECT DISTINCT metric.name FROM oss_ci_benchmark_v3")]
        positive = list(filter(is_positive, metrics))
        for days in differing:
            for table in days.tables:
                _make_again(store, table, days, positive)


def _counts_agree(store: Store, tables: Collection[str]) -> bool:
    """Of whole tables, which the engine knows by heart: a kill leaves fewer rows, and none too many elsewhere."""
    results = store.rows("SELECT count() FROM oss_ci_benchmark_v3")
    return all(
        store.rows(_COUNT if table in VALUES else _SUM, {"table": table}) == results for table in tables
    )


def _differing_days(store: Store, asked: Collection[str]) -> Iterator[_Days]:
    for day, results, *is_whole, has_rows in store.rows(statement("differing_days")):
        whole = dict(zip(ANSWERS, is_whole, strict=True))
        if tables := tuple(table for table in asked if not whole[table]):
            yield _Days(day, day, results, tables, bool(has_rows))


def _together(days: Iterable[_Days]) -> Iterator[_Days]:
    before: _Days | None = None
    for next_days in days:
        both = before.and_next(next_days) if before else next_days
        if before and not both:
            yield before
        before = both or next_days
    if before:
        yield before


def _make_again(store: Store, table: str, days: _Days, positive: Sequence[str]) -> None:
    column = "timestamp" if table in VALUES else "day"
    if days.has_rows:
        where = "DELETE FROM {table:Identifier} WHERE {column:Identifier} BETWEEN {start:UInt64} AND {last:UInt64}"
        store.run(where, {"table": table, "column": column, **days.bounds()})
    if days.results:
        sql = statement(table.replace("torchperf", "fill"))
        store.run(sql, days.bounds() if table in VALUES else {**days.bounds(), "positive": positive})
