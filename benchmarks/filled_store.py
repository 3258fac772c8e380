"""A store of many results, made by the engine itself: a year of runs of 1,000 series on each kind of machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchperf_ci.store.client import Store

MODELS, METRICS = 250, 4
RUN = MODELS * METRICS
"""Results of one run of the benchmark on one machine, which are as many series."""
DAY = 86_400
DAYS = 365
START = 1_767_225_600
END = START + DAYS * DAY
_PIECE = 500_000
_FILL = """
INSERT INTO oss_ci_benchmark_v3 (
    timestamp, name, repo, head_branch, head_sha, workflow_id, run_attempt, job_id, _meta, runners, benchmark, model,
    dependencies, metric
)
WITH
    intDiv(number, {run:UInt64}) % {machines:UInt64} AS machine, number % {run:UInt64} AS place,
    intDiv(number, {run:UInt64} * {machines:UInt64}) AS run, hex(SHA1(toString(run))) AS sha,
    40000000000 + intDiv(number, 100) AS job,
    cityHash64(machine, place) AS series, 4 + series % 40 AS level,
    -- One series in fifty is 12% slower from some run on.
    if(series % 50 = 0 AND run >= (20 + series % 60) * {runs:UInt64} / 100, 1.12, 1) AS step,
    ['latency(ms)', 'throughput(samples/s)', 'peak_memory(MiB)', 'status'][1 + place % {metrics:UInt64}] AS metric_name,
    -- Runs differ by 1%, repetitions by 0.3%.
    (i -> (cityHash64(number, i) % 1000 + cityHash64(i, number) % 1000) / 1000 - 1) AS noise,
    level * step * (1 + 0.025 * noise(100)) AS run_level,
    if(
        metric_name = 'status', ([1], 0, map('status', 'pass')),
        (
            arrayMap(i -> run_level * (1 + 0.007 * noise(i)), range(3)), 0,
            map('samples', toString(arrayMap(i -> 20 + cityHash64(number, i) % 1000 / 1000, range(3, 30))))
        )
    ) AS told
SELECT
    {start:UInt64} + intDiv(run * {span:UInt64}, {runs:UInt64}) + intDiv(place, 100), 'nightly', 'pytorch/pytorch',
    'refs/heads/main', sha, 10000000000 + run, 1, job,
    ('records', concat('v3/pytorch/pytorch/', toString(10000000000 + run), '/', toString(job), '/nightly.json')),
    [CAST(
        (
            'cuda', concat('H100 no. ', toString(machine)), 'x86_64', 192, '', 1999, 'H100', 1, '', 79,
            map(
                'hostname', toString(job % 40), 'fingerprint', concat('f', toString(machine)),
                'fingerprint_of', 'driver,gpu', 'driver', '560.35', 'gpu', concat('H100 no. ', toString(machine))
            )
        ),
        'Tuple(name String, type String, cpu_info String, cpu_count UInt32, mem_info String, avail_mem_in_gb UInt32,
            gpu_info String, gpu_count UInt32, gpu_mem_info String, avail_gpu_mem_in_gb UInt32,
            extra_info Map(String, String))'
    )],
    ('nightly', 'inference', 'bf16', map('device', 'cuda', 'batch_size', '32')),
    (concat('model', toString(intDiv(place, {metrics:UInt64}))), 'vision', 'inductor', ['torch'], map()),
    map('torch', ('pytorch/pytorch', 'main', sha, '2.13.0', map())),
    (metric_name, told.1, told.2, told.3)
FROM numbers({first:UInt64}, {count:UInt64})
"""


def fill(store: Store, rows: int, machines: int = 1) -> None:
    """Bring in the results in the order of time, in pieces; the tables are merged afterwards."""
    sizes = {"run": RUN, "machines": machines, "runs": rows // (RUN * machines), "metrics": METRICS}
    for first in range(0, rows, _PIECE):
        count = min(_PIECE, rows - first)
        store.run(_FILL, {**sizes, "start": START, "span": DAYS * DAY, "first": first, "count": count})
    for table in ("oss_ci_benchmark_v3", "torchperf_values"):
        store.run(f"OPTIMIZE TABLE {table} FINAL")
