"""How long do questions take, asked of the results as they lie there and of the tables that answer?

python benchmarks/query.py [--rows 10000000]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from statistics import median
from typing import TYPE_CHECKING

from report import print_table

from torchperf_ci.series.from_store import groups_of_store, points_of_store
from torchperf_ci.store.client import statement
from torchperf_ci.store.command import StoreQuery, run_query
from torchperf_ci.store.derived_tables import refresh
from torchperf_ci.store.migrations import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torchperf_ci.store.client import Store

MODELS, METRICS = 250, 4
RUN = MODELS * METRICS
"""Results of one run of the benchmark."""
DAY = 86_400
DAYS = 365
START = 1_767_225_600
END = START + DAYS * DAY
REPEATS = 3
FILL = """
INSERT INTO oss_ci_benchmark_v3 (
    timestamp, name, repo, head_branch, head_sha, workflow_id, run_attempt, job_id, _meta, runners, benchmark, model,
    dependencies, metric
)
WITH intDiv(number, {run:UInt64}) AS run, hex(SHA1(toString(run))) AS sha, 40000000000 + intDiv(number, 100) AS job
SELECT
    {start:UInt64} + intDiv(number * {span:UInt64}, {rows:UInt64}), 'nightly', 'pytorch/pytorch', 'refs/heads/main',
    sha, 10000000000 + run, 1, job,
    ('records', concat('v3/pytorch/pytorch/', toString(10000000000 + run), '/', toString(job), '/nightly.json')),
    [CAST(
        (
            'cuda', 'NVIDIA H100 80GB HBM3', 'x86_64', 192, '', 1999, 'H100', 1, '', 79,
            map('hostname', toString(job % 40))
        ),
        'Tuple(name String, type String, cpu_info String, cpu_count UInt32, mem_info String, avail_mem_in_gb UInt32,
            gpu_info String, gpu_count UInt32, gpu_mem_info String, avail_gpu_mem_in_gb UInt32,
            extra_info Map(String, String))'
    )],
    ('nightly', 'inference', 'bf16', map('device', 'cuda', 'batch_size', '32')),
    (
        concat('model', toString(intDiv(number, {metrics:UInt64}) % {models:UInt64})), 'vision', 'inductor', ['torch'],
        map()
    ),
    map('torch', ('pytorch/pytorch', 'main', sha, '2.13.0', map())),
    (
        ['latency(ms)', 'throughput(samples/s)', 'peak_memory(MiB)', 'compile_time(s)'][1 + number % {metrics:UInt64}],
        arrayMap(i -> 20 + cityHash64(number, i) % 1000 / 1000, range(3)), 0,
        map('samples', toString(arrayMap(i -> 20 + cityHash64(number, i) % 1000 / 1000, range(3, 30))))
    )
FROM numbers({first:UInt64}, {count:UInt64})
"""


SPARKLINES = """
SELECT series, groupArray((day, value))
FROM (SELECT series, intDiv(timestamp, 86400) AS day, median(value) AS value FROM /* points */ GROUP BY series, day)
WHERE day >= {since:UInt64}
GROUP BY series
"""
OF_DAYS = (
    "SELECT series, groupArray((day, value)) FROM torchperf_days WHERE day >= {since:UInt64} GROUP BY series"
)


def fill(store: Store, rows: int) -> None:
    """Spread the rows evenly over the year, in pieces, as they come in real life."""
    pieces = 10
    sizes = {
        "rows": rows,
        "run": RUN,
        "models": MODELS,
        "metrics": METRICS,
        "start": START,
        "span": DAYS * DAY,
    }
    for piece in range(pieces):
        count = rows // pieces
        store.run(FILL, {**sizes, "first": piece * count, "count": count})
    refresh(store)
    for table in ("oss_ci_benchmark_v3", "torchperf_values", "torchperf_days"):
        store.run(f"OPTIMIZE TABLE {table} FINAL")


def questions(store: Store) -> Mapping[str, Callable[[], object]]:
    """What is asked, by what it is for."""
    one = {"models": ["model7"], "metrics": ["latency(ms)"]}
    since = END - 60 * DAY

    def points(**asked: object) -> int:
        return sum(piece.count(b"\n") for piece in run_query(store, StoreQuery(**asked)))  # type: ignore[arg-type]

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
    with tempfile.TemporaryDirectory() as folder, open_store(f"chdb://{folder}/store") as store, store.held():
        fill(store, rows)
        after = {name: seconds(ask) for name, ask in questions(store).items()}
        since = {"since": END - 60 * DAY}
        sparklines = seconds(lambda: store.rows(OF_DAYS, since))
        store.read_results_alone()
        before = {name: seconds(ask) for name, ask in questions(store).items()}
        name = "sparklines of 1,000 series, 60 days"
        in_days = {"since": since["since"] // DAY}
        asked = SPARKLINES.replace("/* points */", f"({statement('points')})")
        before[name], after[name] = seconds(lambda: store.rows(asked, in_days)), sparklines
        sizes = store.rows(
            "SELECT table, sum(bytes_on_disk) FROM system.parts "
            "WHERE active AND database = currentDatabase() GROUP BY table ORDER BY 2 DESC LIMIT 4"
        )
    table = [[name, *(f"{part:.2f} s" for part in (*before[name], *after[name]))] for name in before]
    header = ("question", "the results: wall", "processor", "the tables: wall", "processor")
    print_table(
        f"{rows:,} results of 1,000 series in a year, embedded engine, medians of {REPEATS}", header, table
    )
    print_table("On disk", ("table", "MB"), [[name, f"{size / 1e6:,.0f}"] for name, size in sizes])


if __name__ == "__main__":
    main()
