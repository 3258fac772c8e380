"""The same records give the same points from files and from the real engine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from torchperf_ci.places import open_place
from torchperf_ci.series import past_values
from torchperf_ci.series.from_records import points_of_records
from torchperf_ci.series.from_store import groups_of_store, machines_of_group, points_of_runs, points_of_store
from torchperf_ci.series.past_values import past_of_points, past_of_store
from torchperf_ci.series.points import SeriesGroup
from torchperf_ci.store.ingest import ingest_place
from torchperf_ci.store.migrations import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torchperf_ci.series.points import Points
    from torchperf_ci.store.client import Store

START = 1_790_000_000
FACTS = {
    "fingerprint": "f00",
    "fingerprint_of": "driver,governor",
    "driver": "550",
    "governor": "performance",
    "load": "0.5",
}
H100 = {"name": "cuda", "type": "NVIDIA H100 80GB HBM3", "extra_info": FACTS}


CASE_INFO = {"batch_size": 8, "workload_config": "1a2b"}


def record(model: str, *values: Any, **changes: Any) -> dict[str, Any]:
    return {
        "timestamp": START,
        "repo": "pytorch/pytorch",
        "head_branch": "refs/heads/main",
        "head_sha": "aa" * 20,
        "workflow_id": 1,
        "run_attempt": 1,
        "job_id": 2,
        "runners": [H100],
        "dependencies": {"pytorch": {"sha": "cc" * 20, "extra_info": {}}},
        "benchmark": {"name": "suite", "mode": "inference", "dtype": "bf16", "extra_info": CASE_INFO},
        "model": {"name": model, "backend": "eager"},
        "metric": {"name": "latency(ms)", "benchmark_values": list(values), "target_value": 1.5},
        **changes,
    }


def outcome(word: str, value: float, model: str, **changes: Any) -> dict[str, Any]:
    extra_info = {"status": word, "reason": "because", "log": "long"}
    metric = {"name": "status", "benchmark_values": [value], "extra_info": extra_info}
    return record(model, metric=metric, **changes)


ANCHORED = {
    "name": "latency_vs_anchor(ratio)",
    "benchmark_values": [1.5, 1.25],
    "extra_info": {"anchor": "torch 2.12"},
}
DAYS = [
    {"timestamp": START + day * 86400, "workflow_id": 10 - day, "head_sha": str(day)} for day in (2, 0, 1)
]
LATENCY = {"name": "latency(ms)", "benchmark_values": [1.0], "target_value": 1.5}
CHANGES: list[dict[str, Any]] = [
    {"benchmark": {"name": "suite", "mode": "inference", "dtype": "bf16"}},
    {},
    {"servicelab_experiment_id": 1},
    {"servicelab_trial_id": 1},
    {"metric": LATENCY | {"target_value": 2.5}},
    {"repo": "octo/perf"},
    {"runners": [H100 | {"name": "rocm"}]},
    {"runners": [H100 | {"type": "H200"}]},
    {"metric": LATENCY | {"name": "p99(ms)"}},
    {"metric": LATENCY | {"benchmark_values": [2.0]}},
    {"head_sha": "bb" * 20},
    {"head_branch": "next"},
    {"job_id": 3},
    {"run_attempt": 2},
    {"workflow_id": 2},
    {"timestamp": START + 1},
]
"""Each alone makes another record; in the order in which both sort the points of a series."""
FILES = {
    "a.json": [
        record("plain", 3.0, 1.0, 2.5, 0.5),
        record("plain", 3.0, 1.0, 2.5, 0.5),  # the same again
        *(record("daily", 1.5 + day["workflow_id"], **day) for day in (*DAYS, DAYS[0])),
        *(record("told apart", 1.0, **change) for change in CHANGES),
        record("with a round more", 1.0),
        record("with a round more", 2.0, 6.0, 3.0, 4.0, timestamp=START + 1),
        record("branched", 1.0, head_branch="release/2.13"),
        record("branched", 2.0, timestamp=START + 1),
        record("elsewhere", 1.0, repo="octo/perf"),
        record("unnamed", 1.0, repo=None, head_branch=""),
        record("told", 1.0, runners=[], benchmark={"name": "suite", "extra_info": {"device": "mps", "arch": "M2"}}),
        record("untold", 1.0, runners=[], benchmark={"name": "suite"}),
        record("by its CPU", 1.0, runners=[{"cpu_info": "x86_64 Xeon"}]),
        record("by a fact", 1.0, runners=[{"extra_info": {"fingerprint_of": "driver", "driver": "550"}}]),
        record("on a fleet", 1.0, runners=[{"type": "fleet", "cpu_info": "Xeon", "extra_info": {"load": "0.5"}}]),
        record("by its counts", 1.0, runners=[{"cpu_count": 48, "gpu_count": "8", "gpu_info": "A100"}]),
        record("by a count", 1.0, runners=[{"cpu_count": 48, "gpu_count": 0}]),
        record("not a number", float("nan"), 2.0, float("inf")),
        record("none"),
        record("none", 2.0, timestamp=START + 1),
        record("no binary fraction", 0.1, 27.823, 16777.3, 1e-7, 3.07415e-5),
        record("zero", 0.0, -1.0),
        record("too large", 1.7e308, 1.7e308),
        record("too large, and uploaded", metric={
            "name": "latency(ms)", "benchmark_values": [1.7e308, 1.7e308],
            "extra_info": {"benchmark_values_exact": "[1.7e308, 1.7e308]"},
        }),
        record("too small", 1e-60),
        record("partly zero", 0.0, 2.0, 3.0),
        record("counted", metric={"name": "graph_breaks", "benchmark_values": [2, 0, 3, 1]}),
        record("large", 16777216, metric={
            "name": "flops", "benchmark_values": [16777216],
            "extra_info": {"benchmark_values_exact": "[16777217]"},
        }),
        record("in rounds", metric={
            "name": "latency(ms)", "benchmark_values": [1.5, 2.5], "extra_info": {"independent": "false"},
        }),
        record("anchored", metric=ANCHORED, benchmark={"name": "suite", "extra_info": {"threads": 1}}),
        outcome("pass", 1.0, "plain"),
        *(record("told about", 1.0, metric={
            "name": name, "benchmark_values": [1.0],
            "extra_info": {"status": "pass", "disturbed": "by others", "not_measured": '{"flops(GFLOP)": "unknown"}'},
        }) for name in ("status", "latency(ms)")),
        record("failed", 0.0),
        outcome("oom", 0.0, "failed"),
        record("word", metric={"name": "accuracy", "extra_info": {"benchmark_values": ["pass"]}}),
    ],
    "run-1/b.json": [record("nameless", 1.0, timestamp=0, workflow_id=0, job_id=0, run_attempt=0, head_sha="")],
    "run-2/b.json": [record("nameless", 1.0, timestamp=0, workflow_id=0, job_id=0, run_attempt=0, head_sha="")],
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("records")
    for name, records in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(records))
    return folder


@pytest.fixture(scope="module")
def store(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with open_store(f"chdb://{tmp_path_factory.mktemp('series')}/store") as store:
        ingest_place(store, open_place(str(folder)))
        yield store


def by_model(points: Points) -> dict[str, list[float | None]]:
    return {
        series.model: [point.value for point in row]
        for series, row in points.items()
        if series.metric == "latency(ms)"
    }


def test_files_and_store_tell_the_same(folder: Path, store: Store) -> None:
    recorded, stored = points_of_records([folder]), points_of_store(store)
    assert len(stored) == 37
    assert stored == recorded.points
    told_apart = store.rows("SELECT uniqExact(record_id) FROM torchperf_values")
    assert told_apart == [(recorded.records - recorded.duplicates,)]
    assert (by_model(stored)["zero"], by_model(stored)["partly zero"]) == ([None], [2.5])
    (nameless,) = (row for series, row in stored.items() if series.model == "nameless")
    assert len({point.run for point in nameless}) == 2


def test_a_branch_leaves_out_the_others(store: Store) -> None:
    ours = by_model(points_of_store(store, branch="refs/heads/main"))
    assert ours["branched"] == [2.0]
    assert "plain" in ours
    assert list(by_model(points_of_store(store, branch="release/2.13"))) == ["unnamed", "branched"]


def test_since_stop_and_last_leave_out_what_is_of_another_time(store: Store) -> None:
    everything = points_of_store(store)
    assert by_model(everything)["daily"] == [11.5, 10.5, 9.5]
    assert by_model(points_of_store(store, since=START + 86400)) == {"daily": [10.5, 9.5]}
    assert by_model(points_of_store(store, stop=START + 86400))["daily"] == [11.5]
    for last in range(1, 5):  # also among those of one time
        assert points_of_store(store, last=last) == {one: row[-last:] for one, row in everything.items()}


def test_only_the_groups_that_are_asked_for_are_read(store: Store) -> None:
    groups = groups_of_store(store, ["suite"])
    elsewhere = SeriesGroup("octo/perf", "suite", "cuda", H100["type"])
    assert elsewhere in groups
    assert list(by_model(points_of_store(store, [elsewhere]))) == ["elsewhere", "told apart"]
    assert points_of_store(store, []) == {}
    assert groups_of_store(store, ["other"]) == []


def test_the_points_of_a_series_share_their_facts(store: Store) -> None:
    (daily,) = (row for series, row in points_of_store(store).items() if series.model == "daily")
    assert daily[0].fingerprint is daily[1].fingerprint


def test_one_series_alone_is_what_it_is_among_all(store: Store) -> None:
    everything = points_of_store(store)
    failed = next(
        series for series in everything if (series.model, series.metric) == ("failed", "latency(ms)")
    )
    assert points_of_store(store, series=[failed]) == {failed: everything[failed]}
    assert everything[failed][0].info["reason"] == "because", "its status was not read"


def test_the_points_of_two_stretches_of_time_are_what_they_are_among_all(store: Store) -> None:
    for group in groups_of_store(store):
        known, machines = points_of_store(store, [group]), machines_of_group(store, group)
        by_id = {series.id: series for series in known}
        both = points_of_runs(store, group, [(START + 1, 2**40), (0, START)], by_id, machines)
        assert both == known
        first = points_of_runs(store, group, [(0, START)], by_id, machines)
        assert first == points_of_store(store, [group], stop=START + 1)


@pytest.mark.parametrize(("stop", "branch"), [(2**40, ""), (START + 86_400, "main")])
def test_past_values_are_those_of_the_points_whatever_the_numbers_are(
    store: Store, stop: int, branch: str
) -> None:
    for group in groups_of_store(store):
        points = points_of_store(store, [group], branch=branch, stop=stop)
        past = past_of_store(
            store,
            group,
            {series: row[0].timestamp for series, row in points.items()},
            branch=branch,
            since=0,
            stop=stop,
            machines=machines_of_group(store, group),
        )
        wanted = {series: past_of_points(row) for series, row in points.items()}
        told = {series: (one.count, one.comparable) for series, one in past.items()}
        assert told == {series: (one.count, one.comparable) for series, one in wanted.items()}


def test_what_is_told_about_a_run_that_passed_does_not_make_its_values_odd(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nearly every status says what was not measured, and comparisons read all points of every such case."""
    monkeypatch.setattr(past_values, "points_of_store", lambda *_, **__: {})
    told = [series for series in points_of_store(store) if series.model == "told about"]
    group = told[0].group
    past = past_of_store(
        store,
        group,
        dict.fromkeys(told, START),
        branch="",
        since=0,
        stop=2**40,
        machines=machines_of_group(store, group),
    )
    assert [past[series].count for series in told] == [1, 1]
