"""Answers from a store that changes while it is served."""

from __future__ import annotations

import gzip
import json
import shutil
from typing import TYPE_CHECKING, Any

from dashboard_nights import HOSTILE, night_records, put_nights

from torchperf_ci import config
from torchperf_ci.culprits.culprit import Bisection, Culprit, culprits_json
from torchperf_ci.places import open_place
from torchperf_ci.series.from_store import points_of_store
from torchperf_ci.series.past_values import past_of_store
from torchperf_ci.stats.effect import Effect
from torchperf_ci.store.ingest import ingest_place
from torchperf_ci.store.judged_files import add_judged_files
from torchperf_ci.store.migrations import open_store, refresh
from torchperf_ci.web import documents, endpoints
from torchperf_ci.web.documents import Documents
from torchperf_ci.web.endpoints import StoreService

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pytest

    from torchperf_ci.series.points import Points, Series, SeriesGroup
    from torchperf_ci.store.client import Store


def test_what_is_taken_in_is_told_from_then_on(nights: str, tmp_path: Path) -> None:
    shutil.copytree(nights.removeprefix("chdb://"), tmp_path / "store", symlinks=True)
    with open_store(f"chdb://{tmp_path}/store") as store:
        answering = StoreService(store, config.find_config(None))
        first, known = answering.document("overview.json"), answering.document("regressions.json")
        assert answering.document("overview.json") is first

        culprit = Culprit("30" * 20, ("30" * 20,), 0.998, Effect(1.08, 1.07, 1.09, 12))
        found = Bisection("found", "29" * 20, "30" * 20, culprits=(culprit,))
        add_judged_files(store, "b", {"judged/1": culprits_json(found)})
        told = answering.document("regressions.json")
        assert told != known

        index = answering.document("index.json")
        store.insert(
            "torchperf_commits", ["commit", "subject"], b'{"commit": "%s", "subject": "Less"}' % (b"31" * 20)
        )
        assert json.loads(gzip.decompress(index))["subjects"].keys() == {"30" * 20}
        assert json.loads(gzip.decompress(answering.document("index.json")))["subjects"]["31" * 20] == "Less"

        put_nights(tmp_path / "records", 40, 41)
        ingest_place(store, open_place(str(tmp_path / "records")))
        assert (
            json.loads(gzip.decompress(answering.document("overview.json")))["time"]
            > json.loads(gzip.decompress(first))["time"]
        )


def test_results_that_come_meanwhile_are_told_by_the_next_documents(nights: str, tmp_path: Path) -> None:
    """Neither do they stop these, nor is what they change kept by halves."""
    shutil.copytree(nights.removeprefix("chdb://"), tmp_path / "store", symlinks=True)
    with open_store(f"chdb://{tmp_path}/store") as store:
        meanwhile = Documents(store, config.Config())
        known = {run["id"] for run in json.loads(meanwhile.document("index.json"))["runs"]}
        put_nights(tmp_path / "records", 40, 41)
        night = [{**one, "runners": [{"name": "rocm", "type": "MI300"}]} for one in night_records(40)]
        (tmp_path / "records/rocm.json").write_text(json.dumps(night))
        ingest_place(store, open_place(str(tmp_path / "records")))
        told = {path: json.loads(content) for path, content in meanwhile.everything()}
        runs = {one["last"] for path, one in told.items() if "series/" in path}
        assert runs <= known == {run["id"] for run in told["index.json"]["runs"]}
        places = {sum(one["points"]["run"]) for path, one in told.items() if "series/" in path}
        assert max(places) == 39

        after = Documents(store, config.Config()).document("overview.json")
        store.run("TRUNCATE TABLE torchperf_kept")
        assert Documents(store, config.Config()).document("overview.json") == after


def test_values_that_come_after_their_results_are_told_too(nights: str, tmp_path: Path) -> None:
    shutil.copytree(nights.removeprefix("chdb://"), tmp_path / "store", symlinks=True)
    with open_store(f"chdb://{tmp_path}/store") as store:
        whole = Documents(store, config.Config()).document("index.json")
        store.run(
            "DELETE FROM torchperf_values WHERE timestamp >= (SELECT max(timestamp) FROM torchperf_values)"
        )
        answering = StoreService(store, config.find_config(None))
        assert gzip.decompress(answering.document("index.json")) != whole
        refresh(store)
        assert gzip.decompress(answering.document("index.json")) == whole


def test_documents_are_cached_up_to_a_limit(nights: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "CACHED_DOCUMENTS", 2)
    with open_store(nights) as store:
        kept = StoreService(store, config.find_config(None))
        index = kept.document("index.json")
        kept.document("overview.json")
        assert kept.document("index.json") is index
        kept.document("regressions.json")
        kept.document("overview.json")
        assert (kept.document("index.json") is index, kept.document("index.json") == index) == (False, True)


def test_a_comparison_reads_the_past_only_of_what_its_runs_measured(
    nights: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It read every series that had ever ended as a whole."""
    models: set[str] = set()

    def reading(store: Store, group: SeriesGroup, begun: Mapping[Series, int], **more: Any) -> Any:
        models.update(series.model for series in begun)
        return past_of_store(store, group, begun, **more)

    monkeypatch.setattr(documents, "past_of_store", reading)
    with open_store(nights) as store:
        told = Documents(store, config.Config())
        newest = json.loads(told.document("index.json"))["runs"][0]["id"]
        told.document(f"compare/{newest}/{newest}.json")
    assert models == {"slow", "tiny", "failing", HOSTILE}  # "gone" is not in the newest run


def test_only_where_something_is_new_is_judged_again(
    nights: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(nights.removeprefix("chdb://"), tmp_path / "store", symlinks=True)
    judged: list[str] = []

    def judging(store: Store, groups: Sequence[SeriesGroup]) -> Points:
        judged.extend(group.device for group in groups)
        return points_of_store(store, groups)

    monkeypatch.setattr(documents, "points_of_store", judging)
    with open_store(f"chdb://{tmp_path}/store") as store:

        def overview(policy: Mapping[str, config.Rule] | None = None) -> bytes:
            judged.clear()
            return Documents(store, config.Config(policy=policy or {})).document("overview.json")

        store.run("TRUNCATE TABLE torchperf_kept")
        first = overview()
        assert judged == ["cpu", "cuda"]
        assert (overview(), judged) == (first, [])

        overview({"*": config.Rule(min_effect=0.5)})
        assert judged == ["cpu", "cuda"]
        overview()

        night = [record for record in night_records(40) if record["runners"][0]["name"] == "cpu"]
        (tmp_path / "records").mkdir()
        (tmp_path / "records/night.json").write_text(json.dumps(night))
        ingest_place(store, open_place(str(tmp_path / "records")))
        told = overview()
        assert (told != first, judged) == (True, ["cpu"])

        store.read_results_alone()  # as where this user may make no tables
        assert (overview(), judged) == (told, ["cpu", "cuda"])
