"""The runs and series of a store, as the database names and dates them."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest

from torchperf_ci.records.record import SYNTHETIC_FROM
from torchperf_ci.records.schema import LATEST_SECOND
from torchperf_ci.series.points import SeriesGroup
from torchperf_ci.store.ingest import ingest_objects
from torchperf_ci.store.migrations import open_store
from torchperf_ci.web.catalogue import read_catalogue

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torchperf_ci.store.client import Store
    from torchperf_ci.web.catalogue import GroupCatalogue

GROUP = SeriesGroup("octo/perf", "nightly", "cpu", "Xeon")
NEW_YEAR = int(datetime(2027, 1, 1, tzinfo=timezone.utc).timestamp())


def record(torch: str = "", **members: Any) -> dict[str, Any]:
    return {
        "repo": "octo/perf",
        "benchmark": {"name": "nightly"},
        "model": {"name": "add"},
        "metric": {"name": "latency(ms)", "benchmark_values": [1.5]},
        "runners": [{"name": "cpu", "type": "Xeon"}],
        "dependencies": {"pytorch": {"sha": torch}},
        **members,
    }


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"chdb://{tmp_path}/store") as opened:
        yield opened


def catalogue(store: Store, group: SeriesGroup, *records: dict[str, Any], keys: str = "") -> GroupCatalogue:
    """Of records in the folders ``keys``, each a letter."""
    folders = keys or "x" * len(records)
    objects = [
        (f"{folder}/{group.benchmark}-{number}.json", json.dumps(one).encode())
        for number, (folder, one) in enumerate(zip(folders, records, strict=True))
    ]
    ingest_objects(store, "here", objects)
    return read_catalogue(store, group, "https://github.com")


def run_of(number: int, time: int, branch: str, commit: str, **members: Any) -> dict[str, Any]:
    named = {"workflow_id": number, "head_branch": branch, "head_sha": commit, "timestamp": time}
    return record(**{"run_attempt": 1, **named, **members})


def test_a_run_has_one_name_and_the_branch_and_commit_that_it_began_with(store: Store) -> None:
    late = LATEST_SECOND * 1000
    found = catalogue(
        store,
        GROUP,
        run_of(7, 150, "main", "c2"),
        run_of(7, 100, "trunk", "c3"),
        run_of(7, 200, "again", "c1"),
        run_of(7, 300, "main", "c2", run_attempt=2),
        run_of(7, 310, "main", "c2", run_attempt=2),
        run_of(0, 400, "main", "c2"),
        run_of(0, 401, "main", "c2"),
        run_of(0, 0, "main", "c2"),
        run_of(0, 0, "main", "c2"),
        run_of(0, 0, "", ""),
        run_of(0, 0, "", ""),
        run_of(8, 0, "main", "c2"),
        run_of(8, 0, "main", "c2"),
        run_of(SYNTHETIC_FROM, late, "main", "c2"),
        run_of(SYNTHETIC_FROM, late + 5, "main", "c2"),
        keys="abcddeefghhijkk",
    )
    page = "https://github.com/octo/perf/actions/runs"
    assert [(one.name, one.branch, one.commit, one.time, one.end, one.url) for one in found.runs] == [
        (f"{SYNTHETIC_FROM}.1", "main", "c2", LATEST_SECOND, LATEST_SECOND, ""),
        ("c2@401", "main", "c2", 401, 401, ""),
        ("c2@400", "main", "c2", 400, 400, ""),
        ("7.2", "main", "c2", 300, 310, f"{page}/7"),
        ("7.1", "trunk", "c3", 100, 200, f"{page}/7"),
        ("here/h", "", "", 0, 0, ""),
        ("here/g@c2", "main", "c2", 0, 0, ""),
        ("here/f@c2", "main", "c2", 0, 0, ""),
        ("8.1", "main", "c2", 0, 0, f"{page}/8"),
    ]


MEASURED = [
    (["t1", "t2"], ["c1", "c2"], ["t1", "t2"]),
    (["t1", "t1"], ["c1", "c2"], ["c1", "c2"]),
    (["t1", "t1"], ["c1", ""], ["t1", "t1"]),
    (["t1", ""], ["c1", "c1"], ["t1", "c1"]),
    (["t1", ""], ["c1", "c2"], ["c1", "c2"]),
    (["", ""], ["", ""], ["", ""]),
    (["", ""], ["c1", "c2"], ["c1", "c2"]),
]
"""PyTorch's commit and that of the repository whose jobs measured, in two runs, and what they measured."""


def test_what_a_run_measured_is_pytorch_unless_its_commits_are_fewer(store: Store) -> None:
    """A repository that uses PyTorch has new commits of its own; one that only measures has not."""
    for number, (torches, commits, measured) in enumerate(MEASURED):
        benchmark = {"name": f"{number}"}
        about = enumerate(zip(torches, commits, strict=True), start=1)
        records = [
            run_of(run, 10 * run, "main", commit, torch=torch, benchmark=benchmark)
            for run, (torch, commit) in about
        ]
        again = run_of(1, 5, "main", commits[0], model={"name": "without torch"}, benchmark=benchmark)
        found = catalogue(store, GROUP._replace(benchmark=f"{number}"), *records, again)
        assert [one.commit for one in reversed(found.runs)] == measured
        assert {series.benchmark for series, _ in found.series} == {f"{number}"}


def test_a_series_has_the_years_of_its_results_in_utc(store: Store) -> None:
    times = (NEW_YEAR, NEW_YEAR - 1, NEW_YEAR - 2, LATEST_SECOND * 1000)
    late = run_of(1, LATEST_SECOND + 1, "", "", model={"name": "late"})
    found = catalogue(store, GROUP, *(run_of(1, time, "", "") for time in times), late)
    assert [(series.model, *span) for series, span in found.series] == [
        ("add", NEW_YEAR - 2, LATEST_SECOND, [2026, 2027, 2299]),
        ("late", LATEST_SECOND, LATEST_SECOND, [2299]),
    ]
