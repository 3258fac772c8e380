"""What the command line adds to ingest and query: sources by name, the configuration, streams, exit codes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from clickhouse_http import clickhouse_server
from git_server import git_server

from torchperf_ci import cli
from torchperf_ci.errors import RecordsRefusedError
from torchperf_ci.places import open_place
from torchperf_ci.places.place import PlaceAccess
from torchperf_ci.store.command import _report_ingested
from torchperf_ci.store.dsn import EmbeddedStore
from torchperf_ci.store.ingest import IngestOutcome
from torchperf_ci.store.migrations import open_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from .conftest import Objects


def record(model: str, **more: Any) -> str:
    metric = {"name": "latency(ms)", "benchmark_values": [1.5]}
    return json.dumps(
        {"model": {"name": model}, "metric": metric, "runners": [], "timestamp": 1_790_000_000, **more}
    )


@pytest.fixture
def dsn(dsn: str, empty_store: Path) -> str:
    """The address of a store without a row."""
    shutil.copytree(empty_store, dsn.removeprefix("chdb://"), symlinks=True)
    return dsn


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory of one record."""
    folder = tmp_path / "records"
    folder.mkdir()
    (folder / "a.json").write_text(record("a"))
    return folder


def models(dsn: str) -> list[str]:
    with open_store(dsn) as store:
        return [str(row[0]) for row in store.rows("SELECT model.name FROM oss_ci_benchmark_v3 ORDER BY 1")]


def test_a_directory_is_the_same_by_every_name(
    folder: Path, dsn: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(folder)
    names = [str(folder), "records", "./records/", "records/../records", "link"]
    assert cli.main(["ingest", *names, "--store", dsn]) == 0
    assert models(dsn) == ["a"]


def test_several_sources_of_all_kinds(folder: Path, dsn: str, objects: Objects, tmp_path: Path) -> None:
    objects.put("v3/b.json", record("b").encode())
    single = tmp_path / "c.json"
    single.write_text(record("c"))
    assert cli.main(["ingest", str(folder), objects.target, str(single), "--store", dsn]) == 0
    assert models(dsn) == ["a", "b", "c"]


def test_the_job_s_token_opens_a_private_data_branch(
    remote: Path, dsn: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with git_server(remote.parent, "ghs_of-the-job") as server:
        monkeypatch.setenv("GITHUB_SERVER_URL", server)
        branch = f"branch:benchmarks@{server}/{remote.name}"
        monkeypatch.setenv("GITHUB_TOKEN", "ghs_of-another-job")
        assert cli.main(["ingest", branch, "--store", dsn]) == 2
        assert "check that the repository is there and that this job may read it" in capsys.readouterr().err
        monkeypatch.setenv("GITHUB_TOKEN", "ghs_of-the-job")
        open_place(branch, PlaceAccess(git_token="ghs_of-the-job")).put("v3/a.json", record("a").encode())
        assert cli.main(["ingest", branch, "--store", dsn]) == 0
    assert models(dsn) == ["a"]


def test_without_a_source_it_is_what_uploads_fill(
    folder: Path, dsn: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "torchperf.yml").write_text(f"version: 1\nupload: {{to: {folder}}}\n")
    assert cli.main(["ingest", "--store", dsn]) == 0
    assert models(dsn) == ["a"]


@pytest.fixture
def new_repository(
    git: Callable[..., str], remote: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The working directory is a checkout whose repository has no data branch yet."""
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    git(checkout, "init", "--quiet")
    git(checkout, "remote", "add", "origin", str(remote))
    runners = "runners: {here: {labels: [ubuntu-24.04], device: cpu}}"
    suites = "suites: {core: {workloads: ['*'], runners: [here]}}"
    (checkout / "torchperf.yml").write_text(
        f"version: 1\n{runners}\n{suites}\nupload: {{to: branch:benchmarks}}\n"
    )
    monkeypatch.chdir(checkout)


@pytest.mark.usefixtures("new_repository")
def test_a_data_branch_that_is_not_there_yet_is_an_empty_past(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for source in ([], ["branch:benchmarks"]):
        with monkeypatch.context() as job:
            job.setenv("GITHUB_ACTIONS", "true")
            assert cli.main(["ingest", *source]) == 0
        shown = capsys.readouterr().err
        assert (
            "branch:benchmarks: holds no record (of a folder only *.json and *.json.gz are read), " in shown
        )
        assert "::warning title=torchperf ingest::branch:benchmarks" in shown
    assert cli.main(["plan", "--costs", "costs.json"]) == 0
    assert "no costs of" in capsys.readouterr().err
    for past in ("store", "branch:benchmarks"):
        assert cli.main(["check", str(folder), "--against", past]) == 0
        (verdict,) = json.loads(Path("verdicts.json").read_text())["verdicts"]
        assert verdict["verdict"] == "new"
    whose = ["--repo-name", "octo/perf", "--head-branch", "main", "--head-sha", "1f"]
    assert cli.main(["upload", str(folder), *whose]) == 0, "which makes the branch"
    assert cli.main(["ingest"]) == 0
    assert "1 record of 1 object ingested in" in capsys.readouterr().err


@pytest.mark.usefixtures("new_repository")
def test_a_repository_that_is_not_there_is_no_empty_past(tmp_path: Path, dsn: str) -> None:
    assert cli.main(["ingest", f"branch:benchmarks@file://{tmp_path}/none", "--store", dsn]) == 2


def test_a_directory_that_uploads_will_make_may_be_missing_yet(
    tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "torchperf.yml").write_text("version: 1\nupload: {to: kept}\n")
    assert cli.main(["ingest", "--store", dsn]) == 0
    assert cli.main(["ingest", "--store", dsn, "--if-no-files-found", "error"]) == 2


@pytest.mark.parametrize("there", ["nothing", "an empty folder", "no record"])
@pytest.mark.parametrize(("how", "code"), [([], 2), (["--if-no-files-found", "ignore"], 0)])
def test_no_record_is_the_same_to_ingest_as_to_upload(
    tmp_path: Path, dsn: str, there: str, how: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "records"
    if there != "nothing":
        source.mkdir()
    if there == "no record":
        (source / "a.json").write_text("[]")
    for _ in range(2):  # what holds nothing today may hold something tomorrow
        assert cli.main(["upload", str(source), "--to", str(tmp_path / "kept"), *how]) == code
        assert cli.main(["ingest", str(source), "--store", dsn, *how]) == code
        why = "there is no such directory" if there == "nothing" else "holds no record"
        told = capsys.readouterr().err
        assert told.count(why) == 2
        assert "0 records" not in told


@pytest.mark.parametrize("named", [".", "verdicts.json"])
def test_verdicts_alone_are_something(
    tmp_path: Path, dsn: str, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "night").mkdir()
    (tmp_path / "night/verdicts.json").write_text('{"version": 1, "verdicts": []}')
    for _ in range(2):
        assert cli.main(["ingest", str(tmp_path / "night" / named), "--store", dsn]) == 0
        said = capsys.readouterr().err
        assert "1 file of verdicts or culprits kept, too" in said  # the second time, it is there already
        assert "holds no record" not in said


def test_an_empty_source_does_not_stop_the_others(folder: Path, dsn: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert cli.main(["ingest", str(tmp_path / "empty"), str(folder), "--store", dsn]) == 2
    assert models(dsn) == ["a"]


def test_without_any_source_it_says_what_one_is(
    dsn: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["ingest", "--store", dsn]) == 2
    assert "a directory, a file, s3://BUCKET[/PREFIX], branch:NAME[@REMOTE]" in capsys.readouterr().err


def test_a_server_is_not_filled_unless_a_source_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    nobody = "clickhouse://user@127.0.0.1:1/benchmark"
    (tmp_path / "torchperf.yml").write_text(f"version: 1\nupload: {{to: {folder}}}\nstore: {nobody}\n")
    assert cli.main(["ingest"]) == 4  # its tables cannot be looked after
    assert "clickhouse://127.0.0.1:1/benchmark does not answer" in capsys.readouterr().err
    assert cli.main(["ingest", str(folder)]) == 4


def test_the_tables_of_a_server_that_fills_itself_are_brought_up_to_date(
    folder: Path, dsn: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli.main(["ingest", str(folder), "--store", dsn]) == 0
    with open_store(dsn) as store:
        whole = store.rows("SELECT count() FROM torchperf_values")
        store.run("TRUNCATE TABLE torchperf_values")
    monkeypatch.setattr("torchperf_ci.store.command.StoreServer", EmbeddedStore)
    monkeypatch.setattr("torchperf_ci.store.migrations.refresh", lambda *_: None)
    assert cli.main(["ingest", "--store", dsn]) == 0
    assert "which records reach by themselves: nothing is ingested" in capsys.readouterr().err
    with open_store(dsn) as store:
        assert store.rows("SELECT count() FROM torchperf_values") == whole != [(0,)]


def test_an_ingest_brings_a_server_up_to_date(folder: Path, tmp_path: Path) -> None:
    """Also where another one was killed between the results and what is derived from them."""
    with clickhouse_server(tmp_path) as dsn:
        for _ in range(2):
            assert cli.main(["ingest", str(folder), "--store", dsn]) == 0
            with open_store(dsn) as store:
                assert store.rows("SELECT count() FROM torchperf_values") == [(1,)]
                store.run("TRUNCATE TABLE torchperf_values")


def test_the_store_is_the_configurations_else_below_here(
    folder: Path, dsn: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["ingest", str(folder)]) == 0
    assert models(f"chdb://{tmp_path}/.torchperf/store") == ["a"]
    (tmp_path / "torchperf.yml").write_text(f"version: 1\nstore: {dsn}\n")
    assert cli.main(["ingest", str(folder)]) == 0
    assert models(dsn) == ["a"]


def test_a_conflict_is_told_and_fails(folder: Path, dsn: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["ingest", str(folder), "--store", dsn]) == 0
    (folder / "a.json").write_text(record("other"))
    (folder / "b.json").write_text(record("b"))
    assert cli.main(["ingest", str(folder), "--store", dsn]) == 3
    told = capsys.readouterr().err
    assert f"{folder}/a.json: other content is kept under this key" in told
    assert f"give each run a directory of its own, or `torchperf upload DIR --to {dsn}`" in told
    assert models(dsn) == ["a", "b"]


def test_a_conflict_in_a_branch_or_a_bucket_is_told_with_its_own_way_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(RecordsRefusedError):
        _report_ingested(IngestOutcome(conflicts=("branch:data@origin/a.json", "bucket/b.json")), "the store")
    assert capsys.readouterr().err.count("restore it there, or delete what the store has of it") == 2


@pytest.mark.parametrize(("hours", "told"), [(12, 0), (36, 1)])
def test_records_that_are_dated_in_the_future_or_not_at_all_are_told_once(
    folder: Path, dsn: str, capsys: pytest.CaptureFixture[str], hours: int, told: int
) -> None:
    (folder / "b.json").write_text(record("b", timestamp=int(time.time()) + hours * 3600))
    (folder / "c.json").write_text(record("c", timestamp=0))
    (folder / "d.json").write_text(record("d", timestamp=0, workflow_id=5))
    for ahead, untimed in ((told, 1), (0, 0)):
        assert cli.main(["ingest", str(folder), "--store", dsn]) == 0
        said = capsys.readouterr().err
        assert said.count("1 record dated in the future") == ahead
        assert said.count("1 record without a time, ordered by the names of the folders") == untimed


def test_a_bad_record_is_no_command_to_a_runner(
    folder: Path,
    dsn: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    (folder / "b.json").write_text(json.dumps({"metric": {"benchmark_values": "\n::error::planted"}}))
    assert cli.main(["ingest", str(folder), "--store", dsn]) == 3
    said = capsys.readouterr().err
    assert "planted" in said
    assert not any(line.lstrip().startswith("::error::planted") for line in said.splitlines())
    summary = (tmp_path / "summary.md").read_text()
    assert summary.startswith("### ❌ Ingest: 1 record of 1 object")
    assert "planted" in summary


def test_a_table_in_a_pipe_is_not_cut_off(folder: Path, dsn: str, capsys: pytest.CaptureFixture[str]) -> None:
    long = "model" * 100
    (folder / "b.json").write_text(record(long))
    assert cli.main(["ingest", str(folder), "--store", dsn]) == 0
    assert cli.main(["query", "--store", dsn]) == 0
    assert long in capsys.readouterr().out


def test_a_reader_that_goes_away_is_no_bug(folder: Path, dsn: str) -> None:
    records = "\n".join(record(f"{number}" * 50) for number in range(2000))
    (folder / "b.json").write_text(records)
    assert cli.main(["ingest", str(folder), "--store", dsn]) == 0
    for form in ("table", "json", "csv"):
        read, write = os.pipe()
        os.close(read)
        command = [sys.executable, "-m", "torchperf_ci", "query", "--store", dsn, "--format", form]
        done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, timeout=60)
        os.close(write)
        assert (done.returncode, "bug" in done.stderr, "BrokenPipe" in done.stderr) == (0, False, False), form


@pytest.mark.parametrize("stop", ["2026-08-31", "2026-08-01", "1"])
def test_a_time_that_ends_before_it_begins(dsn: str, stop: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["query", "--store", dsn, "--start", "2026-08-31", "--stop", stop]) == 2
    assert "--stop is not after --start" in capsys.readouterr().err


def test_a_directory_that_is_no_store_is_left_as_it_is(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["query", "--store", f"chdb://{folder}"]) == 2
    assert "there is no store" in capsys.readouterr().err
    assert cli.main(["ingest", str(folder), "--store", f"chdb://{folder}"]) == 2
    assert "holds other files than those of a store; name one of its own" in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == ["a.json"]
