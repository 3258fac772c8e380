"""The costs of the last runs, from a real store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from torchperf_ci.errors import StoreError
from torchperf_ci.places import open_place
from torchperf_ci.plan.jobs import REMEMBERED_SECONDS, measured_costs
from torchperf_ci.store.ingest import ingest_place
from torchperf_ci.store.migrations import open_store

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NOW = 1_790_000_000
DAY = 86_400
CASE = "vision-a.inference.fp32.inductor-max-autotune"


def status(seconds: object, day: float, **changes: Any) -> dict[str, Any]:
    """A case's status, so many days ago."""
    return {
        "timestamp": int(NOW - day * DAY),
        "workflow_id": int(1000 - day),
        "run_attempt": 1,
        "job_id": 1,
        "repo": "octo/perf",
        "head_sha": "0" * 40,
        "benchmark": {
            "name": "nightly",
            "mode": "inference",
            "dtype": "fp32",
            "extra_info": {"device": "cpu"},
        },
        "model": {"name": "vision/a", "backend": "inductor:max-autotune"},
        "metric": {"name": "status", "benchmark_values": [1.0], "extra_info": {"seconds": str(seconds)}},
        "runners": [{"name": "cpu", "type": "Xeon"}],
        **changes,
    }


def costs(folder: Path, records: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Of records that the store has twice, as from a bucket and a data branch."""
    (folder / "records").mkdir()
    for name in ("all.json", "again.json"):
        (folder / "records" / name).write_text(json.dumps(records))
    with open_store(f"chdb://{folder}/store") as store:
        ingest_place(store, open_place(str(folder / "records")))
    return {**measured_costs(f"chdb://{folder}/store", "nightly", NOW)}


def test_the_median_of_the_newest_runs_counts(tmp_path: Path) -> None:
    seconds = [900, 800, 11, 12, 10, 14, 100]  # the oldest first; five count
    records = [status(value, len(seconds) - day) for day, value in enumerate(seconds)]
    assert costs(tmp_path, records) == {"cpu": {CASE: 12}}


def test_each_device_and_case_has_its_own(tmp_path: Path) -> None:
    of_cuda = {"name": "nightly", "mode": "training", "dtype": "bf16", "extra_info": {"device": "cuda"}}
    records = [status(3, 1), status(5.5, 1, benchmark=of_cuda, model={"name": "b", "backend": "eager"})]
    assert costs(tmp_path, records) == {"cpu": {CASE: 3}, "cuda": {"b.training.bf16.eager": 5.5}}


def test_what_failed_took_time_too(tmp_path: Path) -> None:
    failed = {
        "name": "status",
        "benchmark_values": [0.0],
        "extra_info": {"seconds": "300", "status": "timeout"},
    }
    assert costs(tmp_path, [status(0, 1, metric=failed)]) == {"cpu": {CASE: 300}}


@pytest.mark.parametrize(
    "record",
    [
        status("", 1),
        status("nan", 1),
        status("inf", 1),
        status(-3, 1),
        status("1; DROP TABLE x", 1),
        status(3, 1 + REMEMBERED_SECONDS / DAY),
        status(3, 1, benchmark={"name": "another", "extra_info": {"device": "cpu"}}),
        status(
            3, 1, metric={"name": "latency(ms)", "benchmark_values": [1.0], "extra_info": {"seconds": "3"}}
        ),
    ],
)
def test_what_tells_nothing_is_left_out(record: dict[str, Any], tmp_path: Path) -> None:
    assert costs(tmp_path, [record]) == {}


def test_a_store_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store"):
        measured_costs(f"chdb://{tmp_path}/store", "nightly", NOW)
