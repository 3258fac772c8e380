from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import Job
    from github_api import GitHub


@pytest.mark.parametrize("why", ["--dry-run", "no token"])
def test_a_comment_that_is_not_sent_is_printed(job: Job, github: GitHub, why: str, capsys: Any) -> None:
    if why == "no token":
        job.monkeypatch.delenv("GITHUB_TOKEN")
    assert job.comment(*([why] if why == "--dry-run" else [])) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("<!-- torchperf report -->\n### ❌ Performance: 1 regressed\n")
    assert "nothing is commented: " in shown.err
    assert github.asked == []


@pytest.mark.parametrize("to", [["--to", "summary"], []])
def test_a_summary_goes_to_the_job(job: Job, to: list[str], capsys: Any) -> None:
    assert job.report(*to) == 0
    assert (job.folder / "summary").read_text().startswith("### ❌ Performance: 1 regressed\n")
    assert capsys.readouterr().out == ""


def test_outside_a_job_the_summary_is_printed(job: Job, capsys: Any) -> None:
    job.monkeypatch.delenv("GITHUB_ACTIONS")
    assert job.report("--to", "summary") == 0
    assert capsys.readouterr().out.startswith("### ❌ Performance: 1 regressed\n")


def test_a_directory_gets_a_page(job: Job) -> None:
    assert job.report("--to", str(job.folder / "a/b")) == 0
    assert (job.folder / "a/b/report.md").read_text().startswith("### ❌ Performance: 1 regressed\n")


def test_several_files_are_one_report(job: Job) -> None:
    job.report("--dry-run", "--to", "comment")
    assert job.report("--verdicts", str(job.folder / "verdicts-1.05.json"), "--to", "summary") == 0
    assert (job.folder / "summary").read_text().startswith("### ❌ Performance: 2 regressed\n")


def test_a_file_that_is_none_is_told_before_anybody_is_asked(job: Job, github: GitHub, capsys: Any) -> None:
    (job.folder / "other.json").write_text("[]")
    assert job.comment("--verdicts", str(job.folder / "other.json"), "--pull-request", "7") == 2
    assert "is not of type 'object'" in capsys.readouterr().err
    assert github.asked == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--to", "taken"], "this directory cannot be made"),
        (["--to", "comment", "--pull-request", "7"], "comment in which repository? give --repo"),
    ],
)
def test_what_cannot_be_is_told(job: Job, arguments: list[str], told: str, capsys: Any) -> None:
    for name in ("GITHUB_REPOSITORY", "GITHUB_RUN_ID"):
        job.monkeypatch.delenv(name)
    job.monkeypatch.chdir(job.folder)
    (job.folder / "taken").write_text("")
    assert job.report(*arguments) == 2
    assert told in capsys.readouterr().err


def test_a_report_needs_verdicts(job: Job, capsys: Any) -> None:
    from torchperf_ci.cli import main

    assert main(["report", "--to", "summary"]) == 2
    assert "report what? give files of verdicts" in capsys.readouterr().err
