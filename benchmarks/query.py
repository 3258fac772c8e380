"""How long does a question about 60 days of one series take, where the table holds 10 million results?

python benchmarks/query.py
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import asdict
from statistics import median
from typing import TYPE_CHECKING

from report import print_table

from torchperf_ci.store.client import statement
from torchperf_ci.store.command import StoreQuery, run_query
from torchperf_ci.store.migrations import open_store

if TYPE_CHECKING:
    from torchperf_ci.store.client import Store

ROWS = 10_000_000
MODELS, METRICS = 250, 4
RUN = MODELS * METRICS
"""Results of one run of the benchmark."""
DAY = 86_400
START = 1_767_225_600
REPEATS = 5
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


def fill(store: Store, days: int) -> None:
    """Spread the rows evenly over ``days``, in pieces, as they come in real life."""
    store.run("TRUNCATE TABLE oss_ci_benchmark_v3")
    pieces = 10
    sizes = {
        "rows": ROWS,
        "run": RUN,
        "models": MODELS,
        "metrics": METRICS,
        "start": START,
        "span": days * DAY,
    }
    for piece in range(pieces):
        count = ROWS // pieces
        store.run(FILL, {**sizes, "first": piece * count, "count": count})
    store.run("OPTIMIZE TABLE oss_ci_benchmark_v3 FINAL")


def measure(store: Store, days: int) -> list[str]:
    end = START + days * DAY
    question = StoreQuery(
        repo="pytorch/pytorch",
        benchmark="nightly",
        start=end - 60 * DAY,
        stop=end,
        models=["model7"],
        metrics=["latency(ms)"],
        device="cuda",
        arch="H100",
        branch="main",
    )
    times = []
    for _ in range(1 + REPEATS):
        start = time.perf_counter()
        points = sum(piece.count(b"\n") for piece in run_query(store, question))
        times.append(time.perf_counter() - start)
    read = sum(row[3] for row in store.rows(f"EXPLAIN ESTIMATE {statement('series')}", asdict(question)))
    return [f"{days} days", f"{read:,}", f"{points:,}", f"{times[0]:.2f} s", f"{median(times[1:]):.2f} s"]


def main() -> None:
    rows = []
    with tempfile.TemporaryDirectory() as folder, open_store(f"chdb://{folder}/store") as store:
        for days in (60, 365):
            fill(store, days)
            rows.append(measure(store, days))
    header = ("the rows span", "rows read", "points", "first time", f"median of {REPEATS} more")
    print_table(f"60 days of one series out of {ROWS:,} rows, embedded engine", header, rows)


if __name__ == "__main__":
    main()
