"""``torchperf ingest`` judges what it has ingested, so that nobody who opens the dashboard waits for that."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
from dashboard_nights import night_records, put_nights

from torchperf_ci import cli, config
from torchperf_ci.errors import StoreError
from torchperf_ci.store.migrations import open_store
from torchperf_ci.web import documents
from torchperf_ci.web.documents import Documents

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def dsn(nights: str, tmp_path: Path) -> str:
    """A store of forty nights that nobody has judged."""
    shutil.copytree(nights.removeprefix("chdb://"), tmp_path / "store", symlinks=True)
    with open_store(f"chdb://{tmp_path}/store") as store:
        store.run("TRUNCATE TABLE torchperf_kept")
    return f"chdb://{tmp_path}/store"


@pytest.fixture
def night(tmp_path: Path) -> str:
    """One more night, in a directory."""
    put_nights(tmp_path / "records", 40, 41)
    return str(tmp_path / "records")


def results(dsn: str) -> int:
    with open_store(dsn) as store:
        return int(store.rows("SELECT count() FROM oss_ci_benchmark_v3")[0][0])


def test_after_an_ingest_a_visitor_waits_for_no_judging(
    dsn: str, night: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["ingest", night, "--store", dsn]) == 0
    told = capsys.readouterr().err.partition("ingested into")[2]
    assert told.endswith("judging what cuda (NVIDIA H100 80GB HBM3) measured for nightly\n")
    assert told.count("judging what cpu") == 1

    with open_store(dsn) as store, monkeypatch.context() as reading:
        reading.delattr(documents, "points_of_store")
        overview = Documents(store, config.find_config(None)).document("overview.json")
    with open_store(dsn) as store:
        store.run("TRUNCATE TABLE torchperf_kept")
        assert Documents(store, config.find_config(None)).document("overview.json") == overview

    capsys.readouterr()
    cli.main(["ingest", night, "--store", dsn])
    assert "judging" not in capsys.readouterr().err


def test_only_machines_with_new_results_are_judged(
    dsn: str, night: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(["ingest", night, "--store", dsn])
    cpu = [one for one in night_records(41) if one["runners"][0]["name"] == "cpu"]
    other = [{**one, "benchmark": {**one["benchmark"], "name": "other"}} for one in cpu]
    (tmp_path / "cpu.json").write_text(json.dumps(cpu + other))
    capsys.readouterr()
    assert cli.main(["ingest", str(tmp_path / "cpu.json"), "--store", dsn]) == 0
    told = capsys.readouterr().err
    assert (told.count("judging what cpu"), told.count("judging what cuda")) == (2, 0)


def test_refused_records_do_not_keep_the_others_from_being_judged(
    dsn: str, night: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "records/bad.json").write_text('[{"metric": 1}]')
    assert cli.main(["ingest", night, "--store", dsn]) == 3
    assert capsys.readouterr().err.count("judging what") == 2
    cli.main(["ingest", night, "--store", dsn])
    assert "judging" not in capsys.readouterr().err


def test_a_judgment_that_fails_loses_no_record(
    dsn: str, night: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = results(dsn)

    def failing(*_: object) -> None:
        msg = "it is gone"
        raise StoreError(msg)

    monkeypatch.setattr(documents, "points_of_store", failing)
    assert cli.main(["ingest", night, "--store", dsn]) == 0
    told = capsys.readouterr().err
    assert told.index("ingested into") < told.index("it is gone; the records are in")
    assert results(dsn) > before


def test_where_no_judgment_can_be_kept_none_is_made(
    dsn: str, night: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = results(dsn)
    with open_store(dsn) as store:
        store.run("DROP TABLE torchperf_kept")
    assert cli.main(["ingest", night, "--store", dsn]) == 0
    assert "judging" not in capsys.readouterr().err
    assert results(dsn) > before
