from __future__ import annotations

import gzip
import json
import math
import os
from typing import TYPE_CHECKING, Any

import pytest

from torchperf_ci.errors import RecordsError
from torchperf_ci.records.schema import LATEST_SECOND
from torchperf_ci.series.from_records import points_of_records
from torchperf_ci.series.points import runs_of

if TYPE_CHECKING:
    from pathlib import Path

    from torchperf_ci.series.points import Point, Points


def record(*values: float | None, metric: str = "latency(ms)", **changes: Any) -> dict[str, Any]:
    return {
        "benchmark": {"name": "suite", "mode": "inference", "dtype": "bf16"},
        "model": {"name": "resnet", "backend": "eager"},
        "metric": {"name": metric, "benchmark_values": list(values)},
        **changes,
    }


def write(folder: Path, name: str, *records: dict[str, Any]) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(records))


def values(points: Points) -> list[float | None]:
    (row,) = points.values()
    return [point.value for point in row]


def only(points: Points) -> Point:
    ((point,),) = points.values()
    return point


def test_without_times_paths_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for run in (10, 9, 2):
        write(tmp_path, f"run-{run}/case.json", record(run))
    assert values(points_of_records([tmp_path]).points) == [2, 9, 10]


def test_a_name_that_is_an_object_is_its_text_as_an_upload_writes_it(tmp_path: Path) -> None:
    """So a store of uploads calls the series the same."""
    name = {"größe": 1.0, "of": [1, {"c": None}]}
    write(tmp_path, "a.json", record(1, benchmark={"name": name}))
    (series,) = points_of_records([tmp_path]).points
    assert series.benchmark == '{"größe":1.0,"of":[1,{"c":null}]}'


def test_times_come_before_paths(tmp_path: Path) -> None:
    write(tmp_path, "a.json", record(2, timestamp=20), record(3, timestamp=30))
    write(tmp_path, "b.json", record(1, timestamp=10))
    assert values(points_of_records([tmp_path]).points) == [1, 2, 3]


def test_runs_whose_times_are_in_milliseconds_are_several_and_in_order(tmp_path: Path) -> None:
    nights = [record(night, timestamp=1_790_000_000_000 + night) for night in (2, 10, 9)]
    write(tmp_path, "a.json", *nights)
    (row,) = points_of_records([tmp_path]).points.values()
    assert [point.value for point in row] == [2, 9, 10]
    assert runs_of(row) == [point.run for point in row]


def test_files_may_be_packed_and_hidden_ones_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(json.dumps(record(1)).encode()))
    write(tmp_path, ".torchperf/b.json", record(2))
    write(tmp_path, "below/.c.json", record(3))
    write(tmp_path, "notes.txt", record(4))
    assert values(points_of_records([tmp_path]).points) == [1]


def test_a_file_is_read_whatever_its_name(tmp_path: Path) -> None:
    write(tmp_path, "records", record(1))
    assert values(points_of_records([tmp_path / "records"]).points) == [1]


def test_links_and_pipes_are_refused_by_name_and_the_rest_is_read(tmp_path: Path) -> None:
    write(tmp_path, "new/a.json", record(1))
    (tmp_path / "new/b.json").symlink_to("/proc/self/environ")
    os.mkfifo(tmp_path / "new/c.json")
    (tmp_path / "new/latest").symlink_to(".")
    (tmp_path / "link").symlink_to("new")
    collected = points_of_records([tmp_path / "link"])
    assert values(collected.points) == [1]
    assert [(problem.file, problem.reason) for problem in collected.refused] == [
        (f"{tmp_path}/link/b.json", "cannot be read: it is a link, not a regular file"),
        (f"{tmp_path}/link/c.json", "cannot be read: it is no regular file"),
    ]
    with pytest.raises(RecordsError, match="it is a link"):
        points_of_records([tmp_path / "new/b.json"])


@pytest.mark.parametrize(
    "more",
    [
        {"timestamp": 10**400, "workflow_id": 10**4299, "job_id": "9" * 5000, "run_attempt": "+1"},
        {"timestamp": 1_790_000_000_000},
        {"metric": {"name": "m", "benchmark_values": [10**400], "target_value": -(10**400)}},
        {"metric": {"name": "m", "extra_info": {"benchmark_values_exact": "[" * 5000, "status": {"a": [1]}}}},
        {
            "metric": {
                "name": ["m"],
                "extra_info": {"not_measured": "[" * 5000, "benchmark_values": "[" * 5000},
            }
        },
    ],
)
def test_no_record_costs_its_neighbours(tmp_path: Path, more: dict[str, Any]) -> None:
    write(tmp_path, "a.json", record(1), record(2) | more)
    collected = points_of_records([tmp_path])
    assert 1 in [point.value for row in collected.points.values() for point in row]
    assert all(point.timestamp <= LATEST_SECOND for row in collected.points.values() for point in row)
    assert not any("bug" in problem.reason for problem in collected.refused)


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(RecordsError, match="none: there is no such file or directory"):
        points_of_records([tmp_path / "none"])


def test_the_value_is_the_median_of_what_are_numbers(tmp_path: Path) -> None:
    write(tmp_path, "a.json", record(3, math.nan, 1, math.inf, None, 5, 4))
    point = only(points_of_records([tmp_path]).points)
    assert (point.value, point.repetitions) == (3.5, (3, 1, 5, 4))


def test_numbers_that_the_database_cannot_hold_are_taken_as_they_were(tmp_path: Path) -> None:
    exact = record(0, 16777216)
    exact["metric"]["extra_info"] = {"benchmark_values_exact": "[null, 16777217]"}
    write(tmp_path, "a.json", exact)
    assert only(points_of_records([tmp_path]).points).repetitions == (16777217,)


@pytest.mark.parametrize("values", [[], [math.nan], None])
def test_without_any_number_there_is_no_value(tmp_path: Path, values: list[float] | None) -> None:
    write(tmp_path, "a.json", record() | {"metric": {"name": "latency(ms)", "benchmark_values": values}})
    assert only(points_of_records([tmp_path]).points).value is None


def test_a_record_that_is_there_twice_counts_once(tmp_path: Path) -> None:
    named = record(1, workflow_id=7, timestamp=10)
    write(tmp_path, "a.json", named, named)
    write(tmp_path, "copy/a.json", named, record(1, workflow_id=8, timestamp=20))
    collected = points_of_records([tmp_path])
    assert values(collected.points) == [1, 1]
    assert (collected.records, collected.duplicates) == (4, 2)


def test_equal_records_of_runs_without_a_name_are_several(tmp_path: Path) -> None:
    for run in range(3):
        write(tmp_path, f"{run}/a.json", record(0, metric="graph_breaks"))
    collected = points_of_records([tmp_path])
    assert values(collected.points) == [0, 0, 0]
    assert len({point.run for row in collected.points.values() for point in row}) == 3


def test_a_count_is_one_of_its_repetitions(tmp_path: Path) -> None:
    write(tmp_path, "a.json", record(2, 0, 3, 1, metric="graph_breaks"))
    assert only(points_of_records([tmp_path]).points).value == 1


def test_the_jobs_of_a_workflow_are_one_run_and_its_attempts_are_not(tmp_path: Path) -> None:
    ids = [
        {"workflow_id": 7, "run_attempt": attempt, "job_id": job} for attempt, job in [(1, 1), (1, 2), (2, 3)]
    ]
    write(tmp_path, "a.json", *(record(index, **one) for index, one in enumerate(ids)))
    ((first, second, third),) = points_of_records([tmp_path]).points.values()
    assert first.run == second.run != third.run


def test_what_is_refused_is_told_and_the_rest_taken(tmp_path: Path) -> None:
    write(tmp_path, "a.json", record(1), {"metric": {"benchmark_values": 1.5}})
    collected = points_of_records([tmp_path])
    assert values(collected.points) == [1]
    assert [problem.path for problem in collected.refused] == ["$[1].metric.benchmark_values"]


def test_the_facts_of_the_machine_and_the_batch_size_are_the_fingerprint(tmp_path: Path) -> None:
    facts = {"driver": "550", "governor": "performance", "load": "0.2", "fingerprint_of": "driver,governor"}
    benchmark = {"name": "suite", "extra_info": {"batch_size": 8, "threads": 1, "workload_config": "1a"}}
    write(tmp_path, "a.json", record(1, runners=[{"extra_info": facts}], benchmark=benchmark))
    assert only(points_of_records([tmp_path]).points).fingerprint == {
        "driver": "550",
        "governor": "performance",
        "batch_size": "8",
        "workload_config": "1a",
    }


def test_without_a_list_of_facts_the_processors_are_the_fingerprint(tmp_path: Path) -> None:
    models = {"cpu_info": "EPYC 7763", "gpu_info": "A100"}
    runner = {
        **models,
        "cpu_count": 128,
        "gpu_count": "8",
        "avail_mem_in_gb": 2015,
        "extra_info": {"host": "a"},
    }
    write(tmp_path, "a.json", record(1, runners=[runner]), record(2, runners=[{**models, "gpu_count": 0}]))
    first, second = (point for row in points_of_records([tmp_path]).points.values() for point in row)
    assert first.fingerprint == {**models, "cpu_count": "128", "gpu_count": "8"}
    assert second.fingerprint == models


def test_an_anchored_metric_is_comparable_by_its_anchor(tmp_path: Path) -> None:
    benchmark = {"name": "suite", "extra_info": {"batch_size": 8, "threads": 1}}
    anchored = record(
        1.01, benchmark=benchmark, runners=[{"extra_info": {"fingerprint_of": "driver", "driver": "1"}}]
    )
    anchored["metric"] |= {"name": "latency_vs_anchor(ratio)", "extra_info": {"anchor": "torch 2.12 abc"}}
    write(tmp_path, "a.json", anchored)
    assert only(points_of_records([tmp_path]).points).fingerprint == {
        "anchor": "torch 2.12 abc",
        "batch_size": "8",
        "threads": "1",
    }


def test_a_failed_case_has_no_number_whatever_stands_there(tmp_path: Path) -> None:
    status = record(0, metric="status")
    status["metric"]["extra_info"] = {"status": "oom", "reason": "out of memory", "log": "…"}
    other = record(2) | {"model": {"name": "other"}}
    write(tmp_path, "run/a.json", record(0), status, other)
    write(tmp_path, "before/a.json", record(1), record(1, metric="status"))
    points = {str(series): row for series, row in points_of_records([tmp_path]).points.items()}
    assert [point.value for point in points["resnet latency(ms) (inference bf16 eager cpu)"]] == [1, None]
    assert points["resnet latency(ms) (inference bf16 eager cpu)"][-1].info == {
        "status": "oom",
        "reason": "out of memory",
    }
    assert [point.value for point in points["other latency(ms) (inference bf16 cpu)"]] == [2]


def test_the_commit_of_pytorch_is_known_beside_that_of_the_repository(tmp_path: Path) -> None:
    write(tmp_path, "a.json", record(1, head_sha="aa", dependencies={"pytorch": {"sha": "bb"}}))
    point = only(points_of_records([tmp_path]).points)
    assert (point.commit, point.info["torch"]) == ("aa", "bb")


def test_of_what_is_positive_by_nature_zero_is_no_number(tmp_path: Path) -> None:
    write(tmp_path, "a.json", record(0, 0), record(-1, 0, 10, 12))
    assert values(points_of_records([tmp_path]).points) == [None, 11]


@pytest.mark.parametrize("metric", ["score", "memory_leak(KiB/iter)", "graph_breaks", "status"])
def test_of_all_else_zero_is_one(tmp_path: Path, metric: str) -> None:
    write(tmp_path, "a.json", record(0, metric=metric))
    assert values(points_of_records([tmp_path]).points) == [0]


@pytest.mark.parametrize("name", ["verdicts.json", "other.json"])
@pytest.mark.parametrize(
    "content", [{"version": 1, "command": "check", "verdicts": []}, {"version": 1, "baselines": []}]
)
def test_verdicts_and_baselines_beside_the_records_are_left_out(
    tmp_path: Path, name: str, content: dict[str, Any]
) -> None:
    write(tmp_path, "a.json", record(1))
    (tmp_path / name).write_text(json.dumps(content))
    collected = points_of_records([tmp_path])
    assert values(collected.points) == [1]
    assert not collected.problems


def test_what_only_has_a_version_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "a.json", record(1))
    (tmp_path / "package.json").write_text(json.dumps({"version": 1, "name": "x"}))
    assert points_of_records([tmp_path]).refused
