"""Directories with invalid records, and what happens to the valid ones."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest
from uploading import CHANGE, kept, outputs, upload


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
    assert f"::error title=Record refused::{folder}/b.json:3: $.metric.benchmark_values" in shown.err
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


def test_files_that_are_refused_as_a_whole_are_counted_and_named_in_the_quarantine(
    folder: Path, tmp_path: Path, job: dict[str, str]
) -> None:
    (folder / "c.json").symlink_to(folder / "a.json")
    (folder / "d.json").symlink_to(folder / "a.json")
    (folder / "e.json.gz").write_bytes(gzip.compress((folder / "a.json").read_bytes())[:-8])
    assert upload(folder, "--to", tmp_path / "kept", "--job-id", "9") == 3
    lines = (Path(job["RUNNER_TEMP"]) / "torchperf-spool/quarantine.jsonl").read_text().splitlines()
    assert [Path(json.loads(line)["file"]).name for line in lines] == ["c.json", "d.json", "e.json.gz"]
    assert outputs(job)["refused"] == "3"


@pytest.mark.parametrize(("others", "code"), [(["a.json", "culprits.state.jsonl"], 0), ([], 2)])
def test_files_of_json_lines_that_are_not_read_are_told(
    folder: Path,
    tmp_path: Path,
    job: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    others: list[str],
    code: int,
) -> None:
    for name in ("r.jsonl", "R.JSON", *others):
        (tmp_path / "given").mkdir(exist_ok=True)
        shutil.copy(folder / "a.json", tmp_path / "given" / name)
    assert upload(tmp_path / "given", "--to", tmp_path / "kept", "--job-id", "9") == code
    told = "2 files of .jsonl or .JSON not read: rename to .json"
    assert f"{told}\n::" in capsys.readouterr().err
    assert told in Path(job["GITHUB_STEP_SUMMARY"]).read_text()


@pytest.mark.parametrize("content", ["", "[]"])
def test_a_file_without_a_record_is_told(
    folder: Path, tmp_path: Path, job: dict[str, str], capsys: pytest.CaptureFixture[str], content: str
) -> None:
    (folder / "cut.json").write_text(content)
    assert upload(folder, "--to", tmp_path / "kept", "--job-id", "9") == 0
    shown = capsys.readouterr()
    assert ", no record in 1 file\n" in shown.err
    assert "Without a record: what wrote them may have been stopped\n- cut.json\n" in shown.out
    assert "no record in 1 file\n" in Path(job["GITHUB_STEP_SUMMARY"]).read_text()


@pytest.mark.parametrize(("missing", "code"), [("error", 2), ("warn", 0), ("ignore", 0)])
def test_a_directory_of_bad_records_alone_has_nothing_to_upload(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], missing: str, code: int
) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad/mock.json").write_text('{"model": {"name": "no metric"}}')
    given = ("--on-failure", "warn-invalid", "--if-no-files-found", missing)
    assert upload(tmp_path / "bad", "--to", tmp_path / "kept", *CHANGE, *given) == code
    assert "holds no valid record" in capsys.readouterr().err
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


def test_what_makes_records_hard_to_find_is_told_once_for_all_of_them(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = {"benchmark": {"name": "b"}, "model": {"name": "m"}}
    metric = {"name": "x", "benchmark_values": [1]}
    in_milliseconds = {**found, "metric": metric, "timestamp": 1_700_000_000_000}
    unnamed = {**found, "benchmark": {}, "metric": metric}
    (folder / "a.json").write_text(json.dumps([in_milliseconds, unnamed, unnamed]))
    (folder / "b.json").unlink()
    assert upload(folder, "--to", tmp_path / "kept", *CHANGE) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line for line in shown if line.startswith("- ")] == [
        (
            "- timestamp: 1700000000000 is after the year 2299, as milliseconds are; write Unix time in seconds "
            "(1 record)"
        ),
        "- benchmark.name: is missing or empty (2 records)",
    ]


def test_a_rounded_whole_number_is_kept_exactly_without_a_warning(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "b.json").write_text('{"metric": {"benchmark_values": [3086359081]}, "runners": []}')
    assert upload(folder, "--to", tmp_path / "kept", *CHANGE) == 0
    assert "Changed by the database" not in capsys.readouterr().out
    (record,) = next(records for key, records in kept(tmp_path / "kept").items() if key.endswith("b.json"))
    assert record["metric"]["extra_info"] == {"benchmark_values_exact": "[3086359081]"}


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
