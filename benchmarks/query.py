"""Measure how long queries take on the results themselves and on the tables derived from them.

python benchmarks/query.py [--rows 10000000]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from statistics import median
from typing import TYPE_CHECKING

from filled_store import DAY, END, fill
from report import print_table

from torchperf_ci.series.from_store import groups_of_store, points_of_store
from torchperf_ci.store.command import StoreQuery, run_query
from torchperf_ci.store.migrations import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torchperf_ci.store.client import Store

REPEATS = 3


def questions(store: Store) -> Mapping[str, Callable[[], object]]:
    """What is asked, by what it is for."""
    one = {"models": ["model7"], "metrics": ["latency(ms)"]}
    since = END - 60 * DAY

    def points(**asked: object) -> int:
        return sum(piece.count(b"\n") for piece in run_query(store, StoreQuery(**asked)))  # type: ignore[arg-type]  # each as it is named

    return {
        "`query`: one series, 60 days": lambda: points(**one, start=since, branch="main", arch="H100"),
        "`query`: one series, a year": lambda: points(**one),
        "`query`: all of a day": lambda: points(start=END - DAY),
        "`check`: which kinds of machines": lambda: groups_of_store(store),
        "`check`: the newest 200 points of 1,000 series": lambda: points_of_store(
            store, branch="main", last=200
        ),
        "`history`: 60 days of 1,000 series": lambda: points_of_store(store, since=since),
        "`plan`: what cases cost": lambda: store.rows(
            store.statement("costs"), {"benchmark": "nightly", "since": since, "last": 5}
        ),
    }


def seconds(ask: Callable[[], object]) -> tuple[float, float]:
    """Wall and processor time of one answer, the median of some after a first."""
    taken = []
    for _ in range(1 + REPEATS):
        start = time.perf_counter(), time.process_time()
        ask()
        taken.append((time.perf_counter() - start[0], time.process_time() - start[1]))
    wall, processor = zip(*taken[1:], strict=True)
    return median(wall), median(processor)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000_000)
    rows = parser.parse_args().rows
    with (
        tempfile.TemporaryDirectory() as folder,
        open_store(f"chdb://{folder}/store") as store,
        store.keep_open(),
    ):
        fill(store, rows)
        after = {name: seconds(ask) for name, ask in questions(store).items()}
        store.read_results_alone()
        before = {name: seconds(ask) for name, ask in questions(store).items()}
        sizes = store.rows(
            "SELECT table, sum(bytes_on_disk) FROM system.parts "
            "WHERE active AND database = currentDatabase() GROUP BY table ORDER BY 2 DESC LIMIT 4"
        )
    table = [[name, *(f"{part:.2f} s" for part in (*before[name], *after[name]))] for name in before]
    header = ("query", "from the results: wall", "CPU", "from the tables: wall", "CPU")
    print_table(
        f"{rows:,} results of 1,000 series in a year, embedded engine, medians of {REPEATS}", header, table
    )
    print_table("On disk", ("table", "MB"), [[name, f"{size / 1e6:,.0f}"] for name, size in sizes])


if __name__ == "__main__":
    main()
