"""Makes a past for a repository that has only measured once."""

from __future__ import annotations

import gzip
import json
import random
from typing import TYPE_CHECKING, Any

from torchperf_ci.places import open_place

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NIGHTS = 40
"""Enough that a relapse after two slow nights and a good one is proven in its first night, however noisy that is."""
DAY = 86_400
SPREAD = 0.1
"""Of the nights, as a share: where the tests run, one thread of a shared machine differs so much from run to run."""


def remember(repository: Path, measured: bytes, commit: str) -> None:
    """Keep records of the nights before on the data branch: those of a real run, of other days and of ``commit``.

    To take all of them would take half an hour. What is slow in the tests is slow by far more than they differ.
    ``measured`` is what the real run has kept.
    """
    records = [json.loads(line) for line in gzip.decompress(measured).splitlines()]
    chance = random.Random(20261101)
    open_place(f"branch:benchmarks@{repository}").put_all(
        {
            f"v3/octo/perf/{night}/{night}/past.json": _packed(_earlier(records, night, commit, chance))
            for night in range(1, NIGHTS + 1)
        }
    )


def repeat(repository: Path, measured: bytes, commit: str, times: int = 1, slower: float = 1.0) -> None:
    """Keep the records of a real run as ``times`` more right after it, of ``commit``, ``slower`` times as slow."""
    records = [json.loads(line) for line in gzip.decompress(measured).splitlines()]
    for metric in (record["metric"] for record in records):
        if metric["name"] == "latency(ms)":
            metric["benchmark_values"] = [value * slower for value in metric["benchmark_values"]]
    for number in range(1, times + 1):
        ids = {"workflow_id": 900 + number, "head_sha": commit}
        again = [{**record, **ids, "timestamp": record["timestamp"] + number} for record in records]
        place = open_place(f"branch:benchmarks@{repository}")
        place.put_all({f"v3/octo/perf/again/{number}/again.json": _packed(again)})


def _earlier(
    records: Sequence[dict[str, Any]], night: int, commit: str, chance: random.Random
) -> list[dict[str, Any]]:
    """The records as ``night``, which is numbered from the one before on, would have written them."""
    ids = {"workflow_id": night, "job_id": night, "head_sha": commit}
    processes = max(len(record["metric"]["benchmark_values"]) for record in records)
    factors = [chance.uniform(1 - SPREAD, 1 + SPREAD) for _ in range(processes)]
    found = []
    for record in records:
        metric = record["metric"]
        if metric["name"] in ("latency(ms)", "status"):
            values = metric["benchmark_values"]
            if metric["name"] == "latency(ms)":
                values = [value * factor for value, factor in zip(values, factors, strict=True)]
            when = record["timestamp"] - night * DAY
            found.append(
                {**record, **ids, "timestamp": when, "metric": {**metric, "benchmark_values": values}}
            )
    return found


def _packed(records: Sequence[dict[str, Any]]) -> bytes:
    return gzip.compress("\n".join(map(json.dumps, records)).encode())
