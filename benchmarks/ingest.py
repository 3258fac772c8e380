"""Measure how much slower an exactly-once ingest from S3 is than the engine's own import.

python benchmarks/ingest.py
"""

from __future__ import annotations

import gzip
import json
import os
import random
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import boto3
from report import print_table

from torchperf_ci.places import open_place
from torchperf_ci.store.ingest import ingest_place
from torchperf_ci.store.migrations import open_store

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))  # the server that the tests use

from seaweedfs import ACCESS_KEY, BUCKET, SECRET_KEY, running_seaweedfs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torchperf_ci.store.client import Store

OBJECTS, RECORDS = 2000, 60
"""A busy day of a large project: so many jobs, so many records in the object of each."""
REPEATS = 7
COLUMNS = """timestamp, schema_version, name, repo, head_branch, head_sha, workflow_id, run_attempt, job_id,
    servicelab_experiment_id, servicelab_trial_id, runners, benchmark, model, inputs, dependencies, metric"""


def body(job: int) -> bytes:
    """The records of one job, in the form in which uploaders send them."""
    draw = random.Random(job)
    return gzip.compress("\n".join(record(job, number, draw) for number in range(RECORDS)).encode(), 6)


def record(job: int, number: int, draw: random.Random) -> str:
    fields = {
        "timestamp": 1_780_000_000 + job * 60,
        "schema_version": "v3",
        "name": "nightly",
        "repo": "pytorch/pytorch",
        "head_branch": "refs/heads/main",
        "head_sha": f"{job // 8:040x}",
        "workflow_id": 10_000_000_000 + job // 8,
        "run_attempt": 1,
        "job_id": 40_000_000_000 + job,
        "runners": [
            {
                "name": "cuda",
                "type": "NVIDIA H100 80GB HBM3",
                "cpu_info": "x86_64",
                "cpu_count": 192,
                "avail_mem_in_gb": 1999,
                "gpu_info": "NVIDIA H100 80GB HBM3",
                "gpu_count": 1,
                "avail_gpu_mem_in_gb": 79,
                "extra_info": {"hostname": f"runner-{job % 40}"},
            }
        ],
        "benchmark": {
            "name": "nightly",
            "mode": "inference",
            "dtype": "bf16",
            "extra_info": {"device": "cuda", "batch_size": 32, "processes": 3},
        },
        "model": {
            "name": f"vision/model{number // 3}",
            "type": "vision",
            "backend": "inductor",
            "origins": ["torch"],
        },
        "dependencies": {"torch": {"repo": "pytorch/pytorch", "branch": "main", "sha": f"{job // 8:040x}"}},
        "metric": {
            "name": ("latency(ms)", "throughput(samples/s)", "peak_memory(MiB)")[number % 3],
            "benchmark_values": [round(draw.lognormvariate(3, 0.02), 4) for _ in range(3)],
            "extra_info": {
                "samples": [round(draw.lognormvariate(3, 0.02), 4) for _ in range(30)],
                "unit": "ms",
            },
        },
    }
    return json.dumps(fields)


def fill() -> None:
    client = boto3.client("s3")
    with ThreadPoolExecutor(8) as pool:
        list(
            pool.map(
                lambda job: client.put_object(Bucket=BUCKET, Key=f"v3/{job}.json", Body=body(job)),
                range(OBJECTS),
            )
        )


def alone(store: Store, endpoint: str) -> None:
    """All objects in one statement, without asking whether one is there already, or is any good."""
    structure = ", ".join(
        f"{name} {kind}"
        for name, kind in store.rows(
            "SELECT name, type FROM system.columns "
            "WHERE database = currentDatabase() AND table = 'oss_ci_benchmark_v3' AND name != '_meta'"
        )
    )
    store.run(
        f"INSERT INTO oss_ci_benchmark_v3 ({COLUMNS}, _meta) SELECT {COLUMNS}, (splitByChar('/', _path)[1], _file) "
        "FROM s3({url:String}, {id:String}, {secret:String}, 'JSONEachRow', {structure:String}, 'gzip')",
        {"url": f"{endpoint}/{BUCKET}/v3/*", "id": ACCESS_KEY, "secret": SECRET_KEY, "structure": structure},
    )


def ours(store: Store) -> None:
    outcome = ingest_place(store, open_place(f"s3://{BUCKET}/v3"))
    assert outcome.records == OBJECTS * RECORDS, outcome


def again(store: Store) -> None:
    outcome = ingest_place(store, open_place(f"s3://{BUCKET}/v3"))
    assert outcome.known == OBJECTS, outcome


def seconds(store: Store, take: Callable[[Store], None], *, empty: bool = True) -> float:
    if empty:
        for table in ("oss_ci_benchmark_v3", "torchperf_ingested"):
            store.run(f"TRUNCATE TABLE {table}")
    start = time.perf_counter()
    take(store)
    taken = time.perf_counter() - start
    rows = store.rows("SELECT count() FROM oss_ci_benchmark_v3")[0][0]
    assert rows == OBJECTS * RECORDS, rows
    return taken


def main() -> None:
    with tempfile.TemporaryDirectory() as name, running_seaweedfs(Path(name)) as server:
        os.environ.update(server.environment)
        fill()
        engine = partial(alone, endpoint=server.endpoint)
        with open_store(f"chdb://{name}/store") as store:
            seconds(store, engine)  # warms up both sides
            runs = [
                (seconds(store, engine), seconds(store, ours), seconds(store, again, empty=False))
                for _ in range(REPEATS)
            ]
    print_table(
        f"{OBJECTS} objects of {RECORDS} records out of SeaweedFS on the same machine, medians of {REPEATS} runs",
        ("how", "wall", "records/s", "of the engine's speed"),
        rows_of(runs),
    )


def rows_of(runs: Sequence[Sequence[float]]) -> Iterator[list[str]]:
    """A row for each way. Speeds are compared within each run, since the machine may change between two."""
    names = ("the engine's own insert", "torchperf ingest", "torchperf ingest, all of it known")
    for name, times in zip(names, zip(*runs, strict=True), strict=True):
        share = median(run[0] / taken for run, taken in zip(runs, times, strict=True))
        speed = OBJECTS * RECORDS / median(times)
        yield [name, f"{median(times):.2f} s", f"{speed:,.0f}", f"{share:.2f}"]


if __name__ == "__main__":
    main()
