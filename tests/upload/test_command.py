from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from torchperf_ci import cli
from torchperf_ci.places import open_place
from torchperf_ci.places.directory import DirectoryPlace

if TYPE_CHECKING:
    from torchperf_ci.http_server.listening import HttpServer

CHANGE = ("--repo-name", "octo/perf", "--head-branch", "main", "--head-sha", "1f" * 20)
DAY = 86_400


def upload(*argv: object) -> int:
    return cli.main(["upload", *map(str, argv)])


def kept(place: Path) -> dict[str, list[dict[str, Any]]]:
    """The records at a directory by their keys."""
    found = open_place(str(place))
    return {key: rows(gzip.decompress(found.get(key))) for key in found.keys()}  # noqa: SIM118  # a place is no dict


def rows(body: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in body.decode().splitlines()]


def outputs(job: dict[str, str]) -> dict[str, str]:
    lines = Path(job["GITHUB_OUTPUT"]).read_text().splitlines()
    return {lines[at].partition("<<")[0]: lines[at + 1] for at in range(0, len(lines), 3)}


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
    assert "1 record in 1 object in conflict with what is there" in capsys.readouterr().err
    assert outputs(job)["refused"] == "1"
    assert upload("--resume", *to) == 3, "it is still in the spool"


def test_bad_records_are_set_aside_and_the_good_ones_go(
    folder: Path, tmp_path: Path, job: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with (folder / "b.json").open("a") as file:
        file.write('{"metric": {"benchmark_values": 1}}\n')
    assert upload(folder, "--to", tmp_path / "kept", "--job-id", "9") == 3
    assert sum(map(len, kept(tmp_path / "kept").values())) == 5
    (line,) = (Path(job["RUNNER_TEMP"]) / "torchperf-spool" / "quarantine.jsonl").read_text().splitlines()
    assert json.loads(line)["text"] == '{"metric": {"benchmark_values": 1}}'
    shown = capsys.readouterr()
    assert f"- {folder}/b.json:3: $.metric.benchmark_values: 1 is of the wrong type" in shown.out
    assert f"::error title=Record refused,file={folder}/b.json,line=3::$.metric.benchmark_values" in shown.err
    assert outputs(job)["refused"] == "1"


@pytest.mark.parametrize("given", [("--dry-run",), ("--on-failure", "warn-invalid")])
def test_bad_records_may_be_a_warning_only(
    folder: Path,
    tmp_path: Path,
    job: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    given: tuple[str, ...],
) -> None:
    (folder / "bad.json").write_text('[{"model": {"name": "no metric"}}, 7]')
    assert upload(folder, "--to", tmp_path / "kept", "--job-id", "9", *given) == 0
    shown = capsys.readouterr()
    assert "5 records in 2 objects" in shown.err
    assert "2 refused" in shown.err
    assert shown.err.count("::warning title=Record refused") == 2
    assert "::error" not in shown.err
    assert Path(job["GITHUB_STEP_SUMMARY"]).read_text().startswith("### ⚠️ Upload")
    assert outputs(job)["refused"] == "2"
    assert (tmp_path / "kept").exists() is ("--dry-run" not in given)


def test_who_asks_a_dry_run_to_be_strict_gets_it(folder: Path, tmp_path: Path) -> None:
    (folder / "bad.json").write_text("7")
    assert upload(folder, "--to", tmp_path / "kept", *CHANGE, "--dry-run", "--on-failure", "error") == 3


def test_bad_records_that_only_warn_do_not_hide_what_is_not_delivered(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (folder / "bad.json").write_text("7")
    (tmp_path / "file").touch()
    assert upload(folder, "--to", tmp_path / "file", *CHANGE, "--on-failure", "warn-invalid") == 3
    assert "in conflict with what is there, 1 refused" in capsys.readouterr().err


@pytest.mark.parametrize(("missing", "code"), [("error", 2), ("warn", 0), ("ignore", 0)])
def test_a_directory_of_bad_records_alone_has_nothing_to_upload(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], missing: str, code: int
) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad/mock.json").write_text('{"model": {"name": "no metric"}}')
    given = ("--on-failure", "warn-invalid", "--if-no-files-found", missing)
    assert upload(tmp_path / "bad", "--to", tmp_path / "kept", *CHANGE, *given) == code
    assert "holds no good record" in capsys.readouterr().err
    assert upload(tmp_path / "bad", "--to", tmp_path / "kept", *CHANGE) == 3, "by default they are refused"


def test_a_value_that_the_database_changes_is_told_and_kept_exactly(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "b.json").write_text('{"metric": {"benchmark_values": [null, 3086359081]}, "runners": []}')
    assert upload(folder, "--to", tmp_path / "kept", *CHANGE) == 0
    shown = capsys.readouterr().out
    assert "Changed by the database: whole numbers" in shown
    assert "kept exactly in metric.extra_info" in shown
    (record,) = next(records for key, records in kept(tmp_path / "kept").items() if key.endswith("b.json"))
    assert record["metric"]["extra_info"] == {"benchmark_values_exact": "[null, 3086359081]"}


def test_a_rounded_whole_number_is_kept_exactly_without_a_warning(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "b.json").write_text('{"metric": {"benchmark_values": [3086359081]}, "runners": []}')
    assert upload(folder, "--to", tmp_path / "kept", *CHANGE) == 0
    assert "Changed by the database" not in capsys.readouterr().out
    (record,) = next(records for key, records in kept(tmp_path / "kept").items() if key.endswith("b.json"))
    assert record["metric"]["extra_info"] == {"benchmark_values_exact": "[3086359081]"}


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
    assert upload(*call, *CHANGE, "--device-name", "cuda", "--device", "H100 80GB", "--to", api.url) == 0
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


@pytest.mark.parametrize(("choice", "code"), [(None, 2), ("error", 2), ("warn", 0), ("ignore", 0)])
@pytest.mark.parametrize("there", [True, False])
def test_nothing_to_upload(
    tmp_path: Path,
    job: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    choice: str | None,
    code: int,
    there: bool,
) -> None:
    folder = tmp_path / "empty"
    if there:
        folder.mkdir()
    flags = ["--if-no-files-found", choice] if choice else []
    assert upload(folder, "--to", tmp_path / "kept", *flags) == code
    shown = capsys.readouterr().err
    assert ("holds no record" if there else "there is no such directory") in shown
    assert ("::warning title=Upload" in shown) == (choice == "warn")
    assert outputs(job)["uploaded"] == "0"


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
    spool.rename("artifact")
    assert upload("--to", api.url, "--spool", "artifact", "--resume") == 0
    ((_, records),) = kept(tmp_path / "kept").items()
    assert [record["job_id"] for record in records] == [9] * 5
    assert upload("--to", api.url, "--spool", "artifact", "--resume") == 0
    assert "nothing is left to send" in capsys.readouterr().err


@pytest.mark.parametrize("moment", range(4))
def test_an_upload_that_ends_between_any_two_objects_is_completed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    (folder / "c.json").write_text('{"metric": {"name": "x"}, "runners": []}')
    call = (folder, "--to", tmp_path / "kept", *CHANGE, "--resume")
    put, keys = DirectoryPlace.put, []

    def ending(place: DirectoryPlace, key: str, body: bytes) -> str:
        if len(keys) == moment:
            raise SystemExit
        keys.append(key)
        return put(place, key, body)

    with monkeypatch.context() as patch, pytest.raises(SystemExit) if moment < 3 else nullcontext():
        patch.setattr(DirectoryPlace, "put", ending)
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


def test_hostile_names_stay_data(
    folder: Path, tmp_path: Path, job: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = "$(touch pwned)\n::error::x|<b>@everyone"
    head = {"ref": hostile, "sha": "1f"}
    Path(job["GITHUB_EVENT_PATH"]).write_text(json.dumps({"pull_request": {"head": head}}))
    (folder / f"{hostile.replace('/', '')}.json").write_text('{"metric": 1}')
    assert upload(folder, "--to", tmp_path / "kept", "--job-id", "9") == 3
    shown = capsys.readouterr()
    assert not any(line.startswith("::error::x") for line in shown.err.splitlines())
    summary = Path(job["GITHUB_STEP_SUMMARY"]).read_text()
    assert "<b>" not in summary
    assert "@everyone" not in summary
    assert next(iter(kept(tmp_path / "kept").values()))[0]["head_branch"] == hostile


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
    for number in range(60):
        (folder / f"{number}.json").write_text('{"metric": {"name": "x"}, "runners": []}')
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


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["records"], "upload where? give --to"),
        (["--to", "kept"], "upload what? give the directory"),
        (["one", "--benchmark-results", "two", "--to", "kept"], "name two directories"),
        (["records", "--to", "gs://bucket"], "gs://bucket"),
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
    folder: Path, job: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert upload(folder) == 0
    assert "::warning" not in capsys.readouterr().err
    assert not Path(job["GITHUB_STEP_SUMMARY"]).exists()


@pytest.mark.parametrize(
    ("argv", "environ", "sign"),
    [
        (("--to", ""), {}, "an empty --to"),
        ((), {"TORCHPERF_TO": ""}, "an empty TORCHPERF_TO"),
        ((), {"AWS_ACCESS_KEY_ID": "key"}, "AWS_ACCESS_KEY_ID"),
        (("--role", "arn:aws:iam::1:role/x", "--region", "us-east-1"), {}, "--role and --region"),
        ((), {"UPLOADER_PASSWORD": "pa55word"}, "UPLOADER_PASSWORD"),
        ((), {"TORCHPERF_DEFAULT_TO": "s3://bucket"}, "a step of actions/upload"),
    ],
)
def test_a_job_that_seems_to_upload_says_that_it_has_no_target(
    folder: Path,
    job: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    argv: tuple[str, ...],
    environ: dict[str, str],
    sign: str,
) -> None:
    Path("torchperf.yml").write_text("version: 1\n")
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert upload(folder, *argv) == 0
    text = f"there is no target, so nothing is uploaded, though the job has {sign}: name one"
    assert f"::warning title=Upload::{text}" in capsys.readouterr().err
    summary = Path(job["GITHUB_STEP_SUMMARY"]).read_text()
    assert summary.startswith("### ⚠️ Upload")
    assert "nothing is uploaded" in summary


def test_a_job_says_as_which_artifact_it_offers_its_spool(
    folder: Path, tmp_path: Path, job: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHPERF_SPOOL_ARTIFACT", "spool-7")
    assert upload(folder, "--to", tmp_path / "kept", "--job-id", "9") == 0
    assert "spool-7" not in Path(job["GITHUB_STEP_SUMMARY"]).read_text()
    (folder / "b.json").write_text("{")
    assert upload(folder, "--to", tmp_path / "kept", "--job-id", "9") == 3
    assert "is the artifact spool-7 of this run" in Path(job["GITHUB_STEP_SUMMARY"]).read_text()


def test_several_uploads_to_a_store_are_rows_once_each(folder: Path, tmp_path: Path) -> None:
    from torchperf_ci.store.client import connect

    dsn = f"chdb://{tmp_path / 'store'}"
    for _ in range(2):
        assert upload(folder, "--to", dsn, *CHANGE) == 0
    with connect(dsn) as store:
        found = store.rows("SELECT model.name, _meta.key FROM benchmark.oss_ci_benchmark_v3")
    assert Counter(name for name, _ in found) == dict.fromkeys(["a0", "a1", "a2", "b0", "b1"], 1)
    assert {str(key).rpartition("/")[2] for _, key in found} == {"a.json", "b.json"}


def test_records_in_folders_below_are_named_where_they_are_all_there_is(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert upload(folder.parent, "--to", tmp_path / "kept", *CHANGE) == 2
    said = "holds no record, and what lies in folders below it is not read, so nothing is uploaded"
    assert said in capsys.readouterr().err


def test_neither_a_link_nor_a_strange_record_costs_its_neighbours_or_tells_a_secret(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = tmp_path / "environ"
    secret.write_text("UPLOADER_PASSWORD=pa55word-of-the-uploader\0ACTIONS_ID_TOKEN_REQUEST_TOKEN=t0ken")
    (folder / "c.json").symlink_to(secret)
    (folder / "d.json").write_text('{"metric": {"benchmark_values": [' + "9" * 400 + "]}}")
    (folder / "e.json").write_text(
        '{"metric": {"target_value": -' + "9" * 4299 + '}, "repo": "' + "a/" * 600 + '"}'
    )
    (folder / "f.json").write_text('{"metric": {}, "job_id": "' + "9" * 5000 + '"}')
    assert upload(folder, "--to", tmp_path / "kept", *CHANGE) == 3
    told = capsys.readouterr()
    assert f"- {folder}/c.json:1: $: cannot be read: it is a link, not a regular file" in told.out
    assert sum(map(len, kept(tmp_path / "kept").values())) == 7
    spool = [path for path in (tmp_path / "work").rglob("*") if path.is_file()]
    assert any(path.name == "quarantine.jsonl" for path in spool)
    for text in (told.out, told.err, *(path.read_text("utf-8", "replace") for path in spool)):
        assert "pa55word" not in text
        assert "t0ken" not in text


def test_a_link_in_the_spool_is_taken_away_before_anybody_offers_it(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spool, secret = tmp_path / "spool", tmp_path / "secret"
    secret.write_text("secret")
    (spool / "below").mkdir(parents=True)
    (spool / "x.txt").symlink_to(secret)
    (spool / "below/folder").symlink_to(tmp_path)
    assert upload(folder, "--to", tmp_path / "kept", "--spool", spool, *CHANGE) == 0
    told = capsys.readouterr().err
    assert f"{spool}/x.txt: was a link or a pipe" in told
    assert f"{spool}/below/folder: was a link or a pipe" in told
    assert not [path for path in spool.rglob("*") if path.is_symlink()]
    assert secret.read_text() == "secret"


def test_a_default_spool_that_is_a_link_is_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(".torchperf").mkdir()
    Path(".torchperf/spool").symlink_to(tmp_path)
    assert upload(folder, "--to", tmp_path / "kept", *CHANGE) == 2
    assert "is a link, and what it leads to would be offered as an artifact" in capsys.readouterr().err
