from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from uploading import CHANGE, kept, outputs, rows, upload

if TYPE_CHECKING:
    from torchperf_ci.http_server import HttpServer


def test_records_arrive_complete_under_the_contracts_keys(
    folder: Path, tmp_path: Path, job: dict[str, str]
) -> None:
    assert upload(folder, "--to", tmp_path / "kept", "--job-id", "9") == 0
    found = kept(tmp_path / "kept")
    assert list(found) == ["v3/octo/perf/71/9/a.json", "v3/octo/perf/71/9/b.json"]
    assert [len(records) for records in found.values()] == [3, 2]
    first = found["v3/octo/perf/71/9/a.json"][0]
    assert first == json.loads((folder / "a.json").read_text())[0] | {
        "timestamp": 1_700_000_000,
        "schema_version": "v3",
        "name": "measure",
        "repo": "octo/perf",
        "head_branch": "refs/heads/main",
        "head_sha": "1f" * 20,
        "workflow_id": 71,
        "run_attempt": 2,
        "job_id": 9,
        "dependencies": {},
    }
    assert outputs(job) == {
        "uploaded": "5",
        "refused": "0",
        "spooled": "0",
        "spool-dir": str(Path(job["RUNNER_TEMP"]) / "torchperf-spool"),
    }
    assert "✅ Upload: 5 records in 2 objects kept" in Path(job["GITHUB_STEP_SUMMARY"]).read_text().replace(
        "&#", ""
    )


def test_a_repetition_is_no_second_upload(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [upload(folder, "--to", tmp_path / "kept", *CHANGE) for _ in range(2)] == [0, 0]
    assert ", 2 objects of them there already" in capsys.readouterr().err
    assert len(kept(tmp_path / "kept")) == 2


def test_other_records_of_the_same_job_are_a_conflict_and_stay(
    folder: Path, tmp_path: Path, job: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    to = ("--to", tmp_path / "kept", "--job-id", "9")
    assert upload(folder, *to) == 0
    before = kept(tmp_path / "kept")
    (folder / "a.json").write_text(json.dumps({"metric": {"name": "other"}, "runners": []}))
    assert upload(folder, *to) == 3
    assert kept(tmp_path / "kept") == before
    told = capsys.readouterr().err
    assert "1 record in 1 object in conflict with what is there" in told
    assert "to keep it, upload it again under another file name" in told
    assert outputs(job)["refused"] == "1"
    assert upload("--resume", *to) == 3, "it is still in the spool"


@pytest.mark.parametrize("target", ["kept", "api"])
def test_a_dry_run_shows_what_an_upload_then_sends_and_leaves_nothing(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], api: HttpServer, target: str
) -> None:
    call = (folder, "--to", api.url if target == "api" else tmp_path / "kept", *CHANGE)
    assert upload(*call, "--dry-run", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert not (tmp_path / "kept").exists()
    assert list(Path.cwd().iterdir()) == []
    assert upload(*call) == 0
    found = kept(tmp_path / "kept")
    assert {item["key"]: rows(item["content"].encode()) for item in shown["objects"]} == found
    assert shown["metadata"]["head_sha"] == "1f" * 20
    assert {item["outcome"] for item in shown["objects"]} == {"would be sent"}


def test_a_dry_run_for_people_has_keys_and_metadata(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert upload(folder, "--to", "kept", *CHANGE, "--dry-run", "--workflow-id", "71", "--job-id", "9") == 0
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["head_branch", "main"] in shown
    assert any(line[:2] == ["v3/octo/perf/71/9/a.json", "3"] for line in shown)


def test_the_flags_of_the_infrastructures_own_client(folder: Path, tmp_path: Path, api: HttpServer) -> None:
    (folder / "a.json").write_text(json.dumps({"metric": {"name": "x", "benchmark_values": [1]}}))
    (folder / "b.json").unlink()
    call = ["--benchmark-name", "My PyTorch benchmark", "--benchmark-results", folder, "--model", "llama"]
    assert upload(*call, *CHANGE, "--device-name", "cuda", "--device", "H100_80GB", "--to", api.url) == 0
    ((key, (record,)),) = kept(tmp_path / "kept").items()
    assert key == f"v3/octo/perf/main/{'1f' * 20}/H100_80GB/benchmark_results_llama.json"
    assert record["name"] == "My PyTorch benchmark"
    assert (record["runners"][0]["name"], record["runners"][0]["type"]) == ("cuda", "H100 80GB")


def test_the_machine_of_the_upload_is_the_runner_of_records_without(folder: Path, tmp_path: Path) -> None:
    (folder / "a.json").write_text('{"metric": {"name": "x", "benchmark_values": [1]}}')
    assert [upload(folder, "--to", tmp_path / "kept", *CHANGE) for _ in range(2)] == [0, 0]
    (record,) = next(records for key, records in kept(tmp_path / "kept").items() if key.endswith("a.json"))
    assert record["runners"][0]["cpu_count"] >= 1
    assert "fingerprint" not in record["runners"][0]["extra_info"]


def test_what_happened_is_annotated_once_and_within_the_runners_limit(
    folder: Path, tmp_path: Path, job: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "b.json").write_text("\n".join(['{"metric": 1}'] * 30))
    (tmp_path / "kept").write_text("no directory")
    assert upload(folder, "--to", tmp_path / "kept", "--job-id", "9") == 3
    commands = [line for line in capsys.readouterr().err.splitlines() if line.startswith("::error")]
    assert len(commands) == 10
    assert len(set(commands)) == 10
    assert commands[-1].startswith("::error title=torchperf::3 records in 1 object in conflict")
    assert "30 refused" in commands[-1]
    summary = Path(job["GITHUB_STEP_SUMMARY"]).read_text()
    assert summary.count("wrong type") == 30


def test_one_reason_for_many_objects_is_told_once(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = {"benchmark": {"name": "b"}, "model": {"name": "m"}, "runners": []}
    for number in range(60):
        record = {**named, "metric": {"name": "x", "benchmark_values": [number]}}
        (folder / f"{number}.json").write_text(json.dumps(record))
    assert upload(folder, "--to", f"branch:x@file://{tmp_path}/none", *CHANGE) == 4
    shown = capsys.readouterr()
    (line,) = (line for line in shown.out.splitlines() if line.startswith("- "))
    assert line.startswith("- branch:x@file://")
    assert line.endswith("(62 objects)")
    (line,) = shown.err.splitlines()
    assert line.startswith("torchperf: error: 65 records in 62 objects not delivered")
    assert line.endswith("--resume")


def test_what_is_too_long_for_people_is_whole_for_programs(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "b.json").write_text("\n".join(['{"metric": 1}'] * 70))
    assert upload(folder, "--to", tmp_path / "kept", *CHANGE, "--dry-run") == 0
    shown = capsys.readouterr()
    assert "and 20 more, all of them with --json" in shown.out
    assert "quarantine" not in shown.err, "a dry run sets nothing aside"
    assert upload(folder, "--to", tmp_path / "kept", *CHANGE, "--dry-run", "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["refused"]) == 70
    (folder / "b.json").write_text("\n".join(['{"metric": 1}'] * 50))
    assert upload(folder, "--to", tmp_path / "kept", *CHANGE, "--dry-run") == 0
    assert " more" not in capsys.readouterr().out, "fifty are not too many"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["records"], "upload where? give --to"),
        (["--to", "kept"], "upload what? give the directory"),
        (["one", "--benchmark-results", "two", "--to", "kept"], "name two directories"),
        (["records", "--to", "gs://bucket"], "'gs:' begins nothing"),
        (["records", "--to", "kept", "--job-id", "0"], "--job-id cannot be '0'"),
        (["records", "--to", "kept", "--on-failure", "panic"], "unknown value for --on-failure"),
    ],
)
def test_a_call_that_means_nothing_is_told(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert upload(*argv) == 2
    assert message in capsys.readouterr().err


def test_the_configuration_names_the_target(folder: Path) -> None:
    Path("torchperf.yml").write_text("version: 1\nname: From the file\nupload: {to: kept}\n")
    assert upload(folder, *CHANGE) == 0
    assert {record["name"] for records in kept(Path("kept")).values() for record in records} == {
        "From the file"
    }


def test_without_a_target_nothing_is_uploaded(
    folder: Path, job: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A job may measure without keeping anything; by hand it is a slip."""
    assert upload(folder) == 0
    assert "nothing is uploaded" in capsys.readouterr().err
    monkeypatch.delenv("GITHUB_ACTIONS")
    assert upload(folder) == 2


def test_a_job_that_need_not_upload_is_not_warned(
    folder: Path, job: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "for another step")
    monkeypatch.setenv("UPLOADER_PASSWORD", "")  # a secret that is not given, as to the reusable workflow
    assert upload(folder) == 0
    assert "::warning" not in capsys.readouterr().err
    assert not Path(job["GITHUB_STEP_SUMMARY"]).exists()


@pytest.mark.parametrize(
    ("argv", "environ"),
    [
        (("--to", ""), {}),
        ((), {"TORCHPERF_TO": ""}),
        (("--role", "arn:aws:iam::1:role/x"), {}),
        ((), {"UPLOADER_PASSWORD": "pa55word"}),
        ((), {"TORCHPERF_DEFAULT_TO": "s3://bucket"}),
    ],
    ids=["an empty --to", "an empty TORCHPERF_TO", "a role", "a password", "a step of actions/upload"],
)
def test_a_job_that_seems_to_upload_says_that_it_has_no_target(
    folder: Path,
    job: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    argv: tuple[str, ...],
    environ: dict[str, str],
) -> None:
    Path("torchperf.yml").write_text("version: 1\n")
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert upload(folder, *argv) == 0
    text = "there is no target, so nothing is uploaded: name one with --to"
    assert f"::warning title=Upload::{text}" in capsys.readouterr().err
    summary = Path(job["GITHUB_STEP_SUMMARY"]).read_text()
    assert summary.startswith("### ⚠️ Upload")
    assert "nothing is uploaded" in summary


def test_several_uploads_to_a_store_are_rows_once_each(folder: Path, tmp_path: Path) -> None:
    """The second one also fills in what a kill would have left out of the table that queries read."""
    from torchperf_ci.store.client import connect

    dsn = f"chdb://{tmp_path / 'store'}"
    assert upload(folder, "--to", dsn, *CHANGE) == 0
    with connect(dsn) as store:
        store.run("TRUNCATE TABLE benchmark.torchperf_values")
    assert upload(folder, "--to", dsn, *CHANGE) == 0
    with connect(dsn) as store:
        found = store.rows("SELECT model.name, _meta.key FROM benchmark.oss_ci_benchmark_v3")
        assert store.rows("SELECT count() FROM benchmark.torchperf_values") == [(5,)]
    assert Counter(name for name, _ in found) == dict.fromkeys(["a0", "a1", "a2", "b0", "b1"], 1)
    assert {str(key).rpartition("/")[2] for _, key in found} == {"a.json", "b.json"}


@pytest.mark.parametrize(
    ("last", "code"), [({}, 0), ({"head_sha": "2e" * 20}, 2), ({"head_branch": None}, 2)]
)
def test_records_that_all_name_one_commit_need_no_checkout(
    last: dict[str, str | None], code: int, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = folder / "a.json"
    first, *others = json.loads(file.read_text())
    commit = {"repo": "octo/perf", "head_branch": "main", "head_sha": "1f" * 20}
    file.write_text(json.dumps([{**first, **commit, **last}, *({**other, **commit} for other in others)]))
    assert upload(file, "--to", tmp_path / "kept") == code
    assert len([*tmp_path.glob("kept/v3/octo/perf/*/*/a.json")]) == (code == 0)
    assert ("--repo-name, --head-branch and --head-sha" in capsys.readouterr().err) is (code == 2)


def test_records_in_folders_below_are_told(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = ", what lies in folders below is not read: name each to upload it\n"
    assert upload(folder.parent, "--to", tmp_path / "kept", *CHANGE) == 2
    assert f"holds no record, so nothing is uploaded{told}" in capsys.readouterr().err
    (folder / "shard-2").mkdir()
    shutil.copy(folder / "a.json", folder / "shard-2/traced.trace.json")
    assert upload(folder, "--to", tmp_path / "kept", *CHANGE) == 0
    assert told not in capsys.readouterr().err
    shutil.copy(folder / "a.json", folder / "shard-2")
    assert upload(folder, "--to", tmp_path / "kept", *CHANGE) == 0
    assert told in capsys.readouterr().err


def test_shards_nights_and_reruns_of_one_commit_have_keys_of_their_own_at_an_upload_api(
    folder: Path, tmp_path: Path, job: dict[str, str], api: HttpServer
) -> None:
    (folder / "b.json").unlink()
    for number in range(3):
        (folder / "a.json").write_text(json.dumps({"metric": {"name": f"m{number}"}, "runners": []}))
        assert upload(folder, "--to", api.url, "--job-id", number + 1) == 0
    for number in (4, 5):  # as the nightly workflow's last job sends what the others measured
        record = {"metric": {"name": f"m{number}"}, "runners": [], "job_id": number}
        (folder / "a.json").write_text(json.dumps(record))
        assert upload(folder, "--to", api.url, "--job-id", 1) == 0
    assert len(kept(tmp_path / "kept")) == 5


def test_a_store_that_gets_results_of_the_future_tells_of_them(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = {"metric": {"name": "m"}, "timestamp": int(time.time()) + 30 * 86_400}
    (folder / "b.json").write_text(json.dumps(record))
    assert upload(folder, "--to", f"chdb://{tmp_path / 'store'}", *CHANGE) == 0
    assert "1 record dated in the future" in capsys.readouterr().err
