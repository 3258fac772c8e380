"""Runs whose records have no time, or one in milliseconds, and runs of no job at GitHub."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from dashboard_nights import DAY, START

from torchperf_ci.config import Config
from torchperf_ci.places import open_place
from torchperf_ci.records.record import synthetic_id
from torchperf_ci.store.ingest import ingest_place
from torchperf_ci.store.migrations import open_store
from torchperf_ci.web.documents import Documents

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

RUNS = 12


def documents_of(folder: Path, runs: Iterator[Mapping[str, object]]) -> dict[str, Any]:
    """The documents of a store with runs that have these members, in the folders run-1, run-2 and so on."""
    for number, members in enumerate(runs, start=1):
        record = {
            "benchmark": {"name": "nightly"},
            "model": {"name": "add"},
            "metric": {"name": "latency(ms)", "benchmark_values": [1 + number / 1000]},
            "runners": [{"name": "cpu", "type": "Xeon"}],
            **members,
        }
        run = folder / f"records/run-{number}"
        run.mkdir(parents=True)
        (run / "add.json").write_text(json.dumps(record))
    with open_store(f"chdb://{folder}/store") as store:
        ingest_place(store, open_place(str(folder / "records")))
        return {path: json.loads(content) for path, content in Documents(store, Config()).everything()}


def test_runs_without_a_time_are_in_the_order_of_the_numbers_in_their_names(tmp_path: Path) -> None:
    documents = documents_of(tmp_path, ({} for _ in range(RUNS)))
    names = [run["name"].rpartition("/")[2] for run in documents["index.json"]["runs"]]
    assert names == [f"run-{number}" for number in range(RUNS, 0, -1)]
    assert documents["overview.json"]["groups"][0]["run"]["name"].endswith(f"run-{RUNS}")


def test_runs_with_times_in_milliseconds_have_their_results(tmp_path: Path) -> None:
    documents = documents_of(
        tmp_path,
        (
            {"timestamp": (START + night * DAY) * 1000, "workflow_id": night, "run_attempt": 1}
            for night in range(1, RUNS + 1)
        ),
    )
    (series,) = (row[0] for row in documents["index.json"]["series"])
    values = [
        documents[f"run/{run['id']}.json"]["values"]["value"] for run in documents["index.json"]["runs"]
    ]
    assert values == [[1 + number / 1000] for number in range(RUNS, 0, -1)]
    newest = documents["compare/{}/{}.json".format(*documents["index.json"]["comparisons"][0])]["rows"]
    assert (newest["series"], newest["word"]) == ([series], ["within noise"])


def test_a_run_with_an_id_of_ours_has_no_page_at_github(tmp_path: Path) -> None:
    run = {"repo": "octo/perf", "timestamp": START, "run_attempt": 1}
    ids = (7, synthetic_id("octo/perf", "main", "1f", "content"))
    documents = documents_of(tmp_path, ({**run, "workflow_id": number} for number in ids))
    urls = {run["name"]: run["url"] for run in documents["index.json"]["runs"]}
    assert urls == {"7.1": "https://github.com/octo/perf/actions/runs/7", f"{ids[1]}.1": ""}


def test_failed_jobs_that_ran_again_are_compared_with_the_night_before(tmp_path: Path) -> None:
    """All cases of the jobs that had not failed "did not run", and there was nothing to compare."""
    runs = [
        {"timestamp": START + night * DAY, "workflow_id": night, "run_attempt": 1, "model": {"name": model}}
        for night in range(1, 4)
        for model in ("fine", "flaky", "gone")
        if (night, model) != (3, "gone")
    ]
    again = {**runs[-1], "run_attempt": 2, "timestamp": START + 3 * DAY + 3600}
    documents = documents_of(tmp_path, iter([*runs, again]))
    newest, first, before, _ = (run["id"] for run in documents["index.json"]["runs"])
    for run in (newest, first):
        told = documents[f"run/{run}.json"]
        assert (told["previous"], [case["model"] for case in told["not_run"]]) == (before, ["gone"])
        assert f"compare/{before}/{run}.json" in documents
