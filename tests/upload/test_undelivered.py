"""Records that could not be sent are kept, reported, and sent again."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from uploading import CHANGE, kept, outputs, upload

from torchperf_ci.places.place import DirectoryPlace

if TYPE_CHECKING:
    from torchperf_ci.http_server import HttpServer


def test_without_a_connection_everything_is_spooled_and_resumed_elsewhere(
    folder: Path,
    tmp_path: Path,
    job: dict[str, str],
    api: HttpServer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    password = os.environ["UPLOADER_PASSWORD"]
    monkeypatch.setenv("UPLOADER_PASSWORD", "wrong")
    assert upload(folder, "--to", api.url, "--job-id", "9") == 4
    spool = Path(job["RUNNER_TEMP"]) / "torchperf-spool"
    assert f"torchperf upload --to {api.url} --spool {spool} --resume" in capsys.readouterr().err
    assert outputs(job) == {"uploaded": "0", "refused": "0", "spooled": "5", "spool-dir": str(spool)}
    # Another job, on another day, with nothing but the spool.
    for name in job:
        monkeypatch.delenv(name)
    monkeypatch.setenv("UPLOADER_PASSWORD", password)
    Path("artifacts").mkdir()
    spool.rename("artifacts/artifact")
    for to, above in ((f"{api.url}/", "artifacts/artifact"), (api.url, "artifacts")):
        assert upload("--to", to, "--spool", above, "--resume") == 0
        assert (
            f"1 upload in {above} not sent: without --resume, for another --to, or in a folder below"
            in capsys.readouterr().err
        )
    Path("artifacts/artifact").rename("artifact")
    assert upload("--to", api.url, "--spool", "artifact", "--resume") == 0
    ((_, records),) = kept(tmp_path / "kept").items()
    assert [record["job_id"] for record in records] == [9] * 5
    assert upload("--to", api.url, "--spool", "artifact", "--resume") == 0
    assert "nothing is left to send" in capsys.readouterr().err


def test_the_deadline_holds_for_all_that_waits_together(
    folder: Path, api: HttpServer, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        to = ("--to", f"http://127.0.0.1:{silent.getsockname()[1]}", "--deadline", "0.2")
        for model in "ab":
            assert upload(folder, *CHANGE, *to, "--model", model) == 4
        capsys.readouterr()
        assert upload(*to, "--resume") == 4
    told = capsys.readouterr().out
    assert told.count("it cannot be reached") == told.count("the time was up before its turn") == 1


def test_what_an_earlier_upload_left_is_told_until_it_is_sent(
    folder: Path, api: HttpServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as another_day:
        another_day.setenv("UPLOADER_PASSWORD", "wrong")
        assert upload(folder, *CHANGE, "--to", api.url) == 4
    waiting = "1 upload in .torchperf/spool not sent"
    assert waiting not in capsys.readouterr().err
    for more, is_told in (("--model=a",), True), (("--model=b", "--resume"), False):
        (folder / "a.json").write_text(json.dumps([{"metric": {"name": more[0]}, "runners": []}]))
        assert upload(folder, *CHANGE, "--to", api.url, *more) == 0
        assert (waiting in capsys.readouterr().err) == is_told


def test_a_damaged_batch_stops_no_other(
    folder: Path,
    tmp_path: Path,
    api: HttpServer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as another_day:
        another_day.setenv("UPLOADER_PASSWORD", "wrong")
        assert upload(folder, *CHANGE, "--to", api.url) == 4
    Path(".torchperf/spool/0.zip").write_bytes(b"PK")
    capsys.readouterr()
    assert upload("--to", api.url, "--resume") == 2
    told = "5 records in 1 object kept at {}, .torchperf/spool/0.zip: is not a batch, or damaged"
    assert told.format(api.url) in capsys.readouterr().err
    assert len(kept(tmp_path / "kept")) == 1


def test_what_was_sent_is_reported_though_the_spool_has_no_room_for_its_receipt(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spool, to = tmp_path / "spool", tmp_path / "kept"
    spool.mkdir()
    (spool / "delivered").touch()
    for already in ("", ", 2 objects of them there already"):
        assert upload(folder, *CHANGE, "--to", to, "--spool", spool, "--resume") == 0
        assert f"5 records in 2 objects kept at {to}{already}\n" in capsys.readouterr().err


@pytest.mark.parametrize("moment", range(4))
def test_an_upload_that_ends_between_any_two_objects_is_completed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    (folder / "c.json").write_text('{"metric": {"name": "x"}, "runners": []}')
    call = (folder, "--to", tmp_path / "kept", *CHANGE, "--resume")
    put, keys = DirectoryPlace._put, []

    def ending(place: DirectoryPlace, key: str, body: bytes) -> str:
        if len(keys) == moment:
            raise SystemExit
        keys.append(key)
        return put(place, key, body)

    with monkeypatch.context() as patch, pytest.raises(SystemExit) if moment < 3 else nullcontext():
        patch.setattr(DirectoryPlace, "_put", ending)
        upload(*call)
    assert upload(*call) == 0
    assert [len(records) for records in kept(tmp_path / "kept").values()] == [3, 2, 1]


def test_a_resumed_directory_that_was_delivered_is_not_sent_again(
    folder: Path, tmp_path: Path, job: dict[str, str]
) -> None:
    assert upload(folder, "--to", tmp_path / "kept", "--job-id", "9") == 0
    assert upload(folder, "--to", tmp_path / "kept", "--job-id", "10", "--resume") == 0
    assert list(kept(tmp_path / "kept")) == ["v3/octo/perf/71/9/a.json", "v3/octo/perf/71/9/b.json"]
    (folder / "a.json").write_text(json.dumps({"metric": {"name": "new"}, "runners": []}))
    assert upload(folder, "--to", tmp_path / "kept", "--job-id", "10", "--resume") == 0
    assert len(kept(tmp_path / "kept")) == 4


@pytest.mark.parametrize(
    ("change", "more"),
    [("--head-sha", 2), ("--workflow-id", 2), ("--run-attempt --job-id", 2), ("verdicts", 1)],
)
def test_a_resumed_directory_is_sent_for_another_commit_or_run_and_with_new_verdicts(
    folder: Path, tmp_path: Path, change: str, more: int
) -> None:
    """A pass or a count is the same on most commits, and so is the file with it."""
    call = [folder, "--to", tmp_path / "kept", "--resume", *CHANGE]
    assert upload(*call) == 0
    if change == "verdicts":
        (folder / "verdicts.json").write_text('{"version": 1, "verdicts": []}')
    else:
        call += [part for flag in change.split() for part in (flag, "72")]
    assert upload(*call) == 0
    assert len([*DirectoryPlace(tmp_path / "kept").keys()]) == 2 + more


@pytest.mark.parametrize(("to", "where"), [("branch:data@{}/a-folder", "spooled"), ("{}/a-file", "refused")])
def test_verdicts_alone_that_wait_are_counted_since_jobs_offer_the_spool_by_these_outputs(
    tmp_path: Path, job: dict[str, str], to: str, where: str
) -> None:
    (tmp_path / "a-file").touch()
    (tmp_path / "a-folder").mkdir()
    (tmp_path / "verdicts.json").write_text('{"version": 1, "verdicts": []}')
    assert upload(tmp_path / "verdicts.json", "--to", to.format(tmp_path), "--deadline", "0.1") in {3, 4}
    counts = {"uploaded": "0", "refused": "0", "spooled": "0", where: "1"}
    assert outputs(job).items() >= counts.items()


@pytest.mark.parametrize(("fault", "sign"), [("refused", "⚠️"), ("undelivered", "❌")])
def test_failures_can_be_let_pass(
    folder: Path,
    tmp_path: Path,
    job: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    fault: str,
    sign: str,
) -> None:
    if fault == "refused":
        (folder / "b.json").write_text("{")
    else:
        (tmp_path / "kept").write_text("no directory")
    assert upload(folder, "--to", tmp_path / "kept", "--job-id", "9", "--on-failure", "warn") == 0
    shown = capsys.readouterr().err
    assert "::warning title=" in shown
    assert "::error" not in shown
    assert Path(job["GITHUB_STEP_SUMMARY"]).read_text().startswith(f"### {sign} Upload")


def test_a_store_that_says_nothing_is_given_up_at_the_deadline(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hang_up = threading.Timer(10, silent.close)
        hang_up.start()
        to = f"clickhouse://127.0.0.1:{silent.getsockname()[1]}/perf"
        assert upload(folder, "--to", to, *CHANGE, "--deadline", "0.1") == 4
        hang_up.cancel()
    assert "does not answer (timed out)" in capsys.readouterr().out


def test_the_way_to_resume_leads_to_the_same_place(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    where = ["--to", "s3://bucket", "--region", "eu-west-1", "--endpoint", "http://127.0.0.1:9"]
    assert upload(folder, *where, *CHANGE, "--deadline", "0.01") == 4
    to, region, endpoint = (f"{where[at]} {where[at + 1]}" for at in (0, 2, 4))
    told = f"torchperf upload {to} {region} {endpoint} --spool .torchperf/spool --resume"
    assert told in capsys.readouterr().err


def test_a_job_says_as_which_artifact_it_offers_its_spool(
    folder: Path, tmp_path: Path, job: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHPERF_SPOOL_ARTIFACT", "spool-7")
    assert upload(folder, "--to", tmp_path / "kept", "--job-id", "9") == 0
    assert "spool-7" not in Path(job["GITHUB_STEP_SUMMARY"]).read_text()
    (folder / "b.json").write_text("{")
    assert upload(folder, "--to", tmp_path / "kept", "--job-id", "9") == 3
    assert "is the artifact spool-7 of this run" in Path(job["GITHUB_STEP_SUMMARY"]).read_text()


def test_a_job_offers_the_spool_of_an_upload_that_did_not_live_to_report(
    folder: Path, job: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise SystemExit

    monkeypatch.setattr(DirectoryPlace, "_put", killed)
    with pytest.raises(SystemExit):
        upload(folder, "--to", "kept", "--job-id", "9")
    spool = Path(job["RUNNER_TEMP"]) / "torchperf-spool"
    assert outputs(job) == {"spooled": "5", "spool-dir": str(spool)}


def test_a_link_in_the_spool_of_a_job_is_taken_away_before_anybody_offers_it(
    folder: Path, tmp_path: Path, job: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    spool, secret = tmp_path / "spool", tmp_path / "secret"
    secret.write_text("secret")
    (spool / "below").mkdir(parents=True)
    (spool / "x.txt").symlink_to(secret)
    (spool / "below/folder").symlink_to(tmp_path)
    assert upload(folder, "--to", tmp_path / "kept", "--spool", spool, "--job-id", "9") == 0
    told = capsys.readouterr().err
    assert f"{spool}/x.txt: was a link or a pipe" in told
    assert f"{spool}/below/folder: was a link or a pipe" in told
    assert not [path for path in spool.rglob("*") if path.is_symlink()]
    assert secret.read_text() == "secret"


def test_a_link_in_a_folder_of_the_user_is_left_alone(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/python").symlink_to(sys.executable)
    assert upload(folder, "--to", tmp_path / "kept", "--spool", tmp_path, *CHANGE) == 0
    assert (tmp_path / "mine/python").is_symlink()


def test_a_default_spool_that_is_a_link_is_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(".torchperf").mkdir()
    Path(".torchperf/spool").symlink_to(tmp_path)
    assert upload(folder, "--to", tmp_path / "kept", *CHANGE) == 2
    assert "is a link, and what it leads to would be offered as an artifact" in capsys.readouterr().err
