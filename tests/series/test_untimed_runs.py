"""Records without a time, as `torchperf run` writes them outside of a job, which went into a store as they are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from torchperf_ci.check.recorded_past import without_new_runs
from torchperf_ci.places import open_place
from torchperf_ci.series.from_records import points_of_records
from torchperf_ci.series.from_store import machines_of_group, points_of_store
from torchperf_ci.series.past_values import past_of_points, past_of_store
from torchperf_ci.series.points import runs_of
from torchperf_ci.store.ingest import ingest_place
from torchperf_ci.store.migrations import open_store
from torchperf_ci.web.catalogue import read_catalogue

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("known", [{}, {"head_sha": "f"}], ids=["commit unknown", "commit known"])
def test_nights_without_a_time_are_runs_in_the_order_of_their_folders(
    known: dict[str, str], tmp_path: Path
) -> None:
    with open_store(f"chdb://{tmp_path}/store") as store:
        for night in (10, 2, 9):
            folder = tmp_path / "records" / str(night)
            folder.mkdir(parents=True)
            metric = {"name": "latency(ms)", "benchmark_values": [night]}
            (folder / "a.json").write_text(json.dumps({"model": {"name": "a"}, "metric": metric, **known}))
            assert ingest_place(store, open_place(str(folder))).untimed == 1
        stored = points_of_store(store)
        ((series, row),) = stored.items()
        assert [point.value for point in row] == [2, 9, 10]
        (newest,) = points_of_store(store, last=2).values()
        assert newest == row[1:]
        machines = machines_of_group(store, series.group)
        past = past_of_store(store, series.group, {series: 0}, branch="", since=0, stop=1, machines=machines)
        assert past == {series: past_of_points(row)}
        assert ingest_place(store, open_place(str(tmp_path / "records"))).untimed == 3
        assert points_of_store(store) == stored  # the same files, found from the folder above
        runs = runs_of(row)
        assert [run.partition("@")[0].rpartition("/")[2] for run in runs] == ["2", "9", "10"]
        assert {run.name for run in read_catalogue(store, series.group, "").runs} == set(runs)
    assert runs_of(points_of_records([tmp_path / "records"]).points[series]) == runs
    fresh = {series: [row[0]._replace(run="another/folder", repetitions=(1.6,))]}
    assert without_new_runs(stored, fresh) == stored
