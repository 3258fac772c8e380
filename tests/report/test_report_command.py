from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest
from github_api import MEASURING, REPOSITORY, Pull
from made_night import BERT, RESNET, a_regression
from nights import judged, located, regressed, series

from torchperf_ci.cli import main
from torchperf_ci.culprits.culprit import write_culprits
from torchperf_ci.issues.memory import parse_memory
from torchperf_ci.report.contents import ReportInputs, report_markdown
from torchperf_ci.report.pull_request_comment import comment_marker
from torchperf_ci.report.report_page import pair_chart
from torchperf_ci.stats.effect import Effect
from torchperf_ci.verdicts.verdict import Evidence, write_verdicts

if TYPE_CHECKING:
    from pathlib import Path

    from github_api import GitHub
    from reporting_job import Job


@pytest.mark.parametrize("why", ["--dry-run", "no token"])
def test_a_comment_that_is_not_sent_is_written(job: Job, github: GitHub, why: str, capsys: Any) -> None:
    if why == "no token":
        job.monkeypatch.delenv("GITHUB_TOKEN")
    job.monkeypatch.chdir(job.folder)
    assert job.comment(*([why] if why == "--dry-run" else [])) == 0
    text = (job.folder / "torchperf-report/comment.md").read_text()
    assert text.startswith(f"{comment_marker(MEASURING)}\n### ❌ Performance: 1 regressed\n")
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "written to torchperf-report/comment.md" in shown.err
    assert "no comment written: " in shown.err
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
    job.report("--dry-run", "--to", "comment", "--out", str(job.folder / "out"))
    assert job.report("--verdicts", str(job.folder / "verdicts-1.05.json"), "--to", "summary") == 0
    assert (job.folder / "summary").read_text().startswith("### ❌ Performance: 2 regressed\n")


def test_a_file_that_is_none_is_told_before_anybody_is_asked(job: Job, github: GitHub, capsys: Any) -> None:
    (job.folder / "other.json").write_text("[]")
    assert job.comment("--verdicts", str(job.folder / "other.json"), "--pull-request", "7") == 2
    assert "is not an object; expected: verdicts.json" in capsys.readouterr().err
    assert github.asked == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--to", "taken"], "taken/report.md: cannot be written"),
        (
            ["--to", "comment", "--pull-request", "7"],
            "in which repository? give --repo OWNER/NAME",
        ),
    ],
)
def test_what_cannot_be_is_told(job: Job, arguments: list[str], told: str, capsys: Any) -> None:
    for name in ("GITHUB_REPOSITORY", "GITHUB_RUN_ID"):
        job.monkeypatch.delenv(name)
    job.monkeypatch.chdir(job.folder)
    (job.folder / "taken").write_text("")
    assert job.report(*arguments) == 2
    assert told in capsys.readouterr().err


def test_a_report_has_all_its_destinations(job: Job) -> None:
    assert job.report("--to", "summary", "--to", str(job.folder / "pages")) == 0
    assert (job.folder / "summary").read_text().startswith("### ❌ Performance: 1 regressed\n")
    assert (job.folder / "pages/report.html").exists()


def test_a_report_needs_verdicts(job: Job, capsys: Any) -> None:
    assert main(["report", "--to", "summary"]) == 2
    assert "report what? give files of verdicts" in capsys.readouterr().err


def test_that_nothing_was_judged_is_told_alone_and_in_a_comment(job: Job, capsys: Any) -> None:
    assert job.comment("--unjudged") == 2
    assert "or --unjudged alone" in capsys.readouterr().err
    assert main(["report", "--unjudged"]) == 2
    assert "--unjudged is for an earlier comment: give --to comment" in capsys.readouterr().err


def test_a_report_may_be_of_culprits_alone(job: Job, tmp_path: Path) -> None:
    path = tmp_path / "culprits.json"
    write_culprits(path, located(regressed(series())))
    assert main(["report", "--culprits", str(path), "--to", "summary"]) == 0
    assert (tmp_path / "summary").read_text().startswith("### 🎯 Bisection: 1 culprit found")


def test_culprits_are_told_below_the_verdicts(job: Job, github: GitHub, tmp_path: Path) -> None:
    path = tmp_path / "culprits.json"
    write_culprits(path, located(regressed(series())))
    github.add(Pull(7, "a" * 40))
    assert job.comment("--culprits", str(path), "--pull-request", "7") == 0
    (comment,) = github.comments.values()
    assert comment.body.index("### ❌ Performance") < comment.body.index("### 🎯 Bisection")
    assert "](https://github.example/octo/perf/commit/" in comment.body


def test_many_bisections_fit_into_a_comment() -> None:
    slow = [regressed(series(f"model {number}")) for number in range(200)]
    told = ReportInputs(
        (judged(*slow * 20),), tuple(located(*slow, commit=f"{number:040}") for number in range(40))
    )
    text = report_markdown(told, 65_000)
    assert 40_000 < len(text.encode()) <= 65_000
    assert "more bisections, left out here" in text
    assert "…and 1 more bisection, left" in report_markdown(ReportInputs((), told.bisections[:2]), 6000)
    assert "200 regressed" not in report_markdown(ReportInputs((), told.bisections), 65_000)


@pytest.mark.parametrize("why", ["--dry-run", "no token"])
def test_issues_that_are_not_opened_are_written(job: Job, github: GitHub, why: str, capsys: Any) -> None:
    if why == "no token":
        job.monkeypatch.delenv("GITHUB_TOKEN")
    out = job.folder / "out"
    assert job.report("--to", "issues", "--out", str(out), *([why] if why == "--dry-run" else [])) == 0
    (path,) = out.iterdir()
    assert path.name.startswith("issue-")
    text = path.read_text()
    assert text.startswith("# vision/resnet18 5.0% slower")
    assert parse_memory(text) is not None
    assert "no issue was changed, 1 draft written: " in capsys.readouterr().err
    assert github.asked == []


def test_of_what_has_no_room_no_draft_is_written(job: Job) -> None:
    (job.folder / "torchperf.yml").write_text("issues: {max_per_night: 0}\n")
    job.monkeypatch.chdir(job.folder)
    assert job.report("--to", "issues", "--dry-run") == 0
    assert not (job.folder / "torchperf-report").exists()


def test_a_page_has_verdicts_culprits_and_issues(job: Job) -> None:
    slow = regressed(series())
    verdicts, found = job.folder / "verdicts.json", job.folder / "culprits.json"
    write_verdicts(verdicts, judged(slow))
    write_culprits(found, located(slow))
    page = job.folder / "page"
    assert main(["report", "--verdicts", str(verdicts), "--culprits", str(found), "--to", str(page)]) == 0
    text, html = (page / "report.md").read_text(), (page / "report.html").read_text()
    for part in ("Performance: 1 regressed", "Bisection: 1 culprit found", "Issues"):
        assert part in text
        assert part in html
    assert f"<h1>Performance of {REPOSITORY}</h1>" in html
    assert f"<p>{datetime.now(timezone.utc):%Y-%m-%d} " in html
    assert "<summary>resnet18 10.0% slower on H100 since cccccccccc</summary>" in html


def test_a_page_draws_the_pairs_of_a_comparison(job: Job) -> None:
    evidence = Evidence(others={"controls": [0.0, 0.02], "log_ratios": [0.18, 0.19, 0.2]})
    slow, verdicts = replace(regressed(series()), evidence=evidence), job.folder / "verdicts.json"
    write_verdicts(verdicts, judged(slow))
    assert main(["report", "--verdicts", str(verdicts), "--to", str(job.folder / "page")]) == 0
    html, text = (job.folder / "page/report.html").read_text(), (job.folder / "page/report.md").read_text()
    assert html.count("<svg") == 1
    assert html.index("Performance: 1 regressed") < html.index("<svg") < html.index("<table")
    assert "resnet18 latency: 2 of base against itself, then 3 of head against base" in html
    assert [f"<title>{value}</title>" in html for value in ("0", "2.02013", "22.1403")] == [True] * 3
    assert "Blue: each pair. Red: the level before and after." in html
    assert 'x-axis "pairs, the last is 0" -4 --> 0' in text


def test_the_chart_of_a_page_is_of_a_regression_if_there_is_one(job: Job) -> None:
    """It was of a larger change that one run does not prove."""
    unproven = replace(a_regression(BERT, 1.0, 1.3), verdict="noisy", candidate=True)
    verdicts, html = job.folder / "verdicts.json", job.folder / "page/report.html"
    for found, model in (
        ((unproven, a_regression(RESNET, 1.0, 1.1)), RESNET.model),
        ((unproven,), BERT.model),
    ):
        write_verdicts(verdicts, judged(*found))
        assert main(["report", "--verdicts", str(verdicts), "--to", str(html.parent)]) == 0
        title = html.read_text().partition('<text class="title"')[2].partition("</text>")[0]
        assert f">{model} latency" in title


@pytest.mark.parametrize("pairs", [None, "many", [], [1e9]])
def test_a_page_draws_nothing_that_is_no_pair(pairs: object) -> None:
    slow = regressed(series())
    assert pair_chart(replace(slow, evidence=Evidence(others={"log_ratios": pairs}))) is None


def test_a_page_draws_the_pairs_beside_a_change_beyond_all_bounds(job: Job) -> None:
    """The file may be a stranger's: the level of its change is not drawn."""
    evidence = Evidence(others={"controls": [0.0, 0.02], "log_ratios": [0.18, 0.19, 0.2]})
    huge = replace(regressed(series()), effect=Effect(1.7e308, 1.0, 1.7e308, 3), evidence=evidence)
    write_verdicts(job.folder / "verdicts.json", judged(huge))
    page = job.folder / "page"
    assert main(["report", "--verdicts", str(job.folder / "verdicts.json"), "--to", str(page)]) == 0
    assert (page / "report.html").read_text().count("<svg") == 1


@pytest.mark.parametrize(("on_failure", "code"), [("warn", 0), ("error", 4)])
def test_whoever_likes_has_a_warning_instead_of_a_failure(
    job: Job, github: GitHub, on_failure: str, code: int, capsys: Any
) -> None:
    github.writable = False
    github.add(Pull(7, "a" * 40))
    pages = job.folder / "pages"
    assert job.comment("--pull-request", "7", "--on-failure", on_failure, "--to", str(pages)) == code
    assert "pull-requests: write" in capsys.readouterr().err
    assert (pages / "report.html").exists()


def test_every_destination_that_failed_is_told(job: Job, github: GitHub, capsys: Any) -> None:
    github.writable = False
    github.add(Pull(7, "a" * 40))
    assert job.comment("--pull-request", "7", "--to", "issues") == 4
    told = capsys.readouterr().err
    assert "may not comment on octo/perf#7" in told
    assert "issues: write" in told


def test_a_pull_request_that_does_not_exist_keeps_the_report_from_no_other_place(
    job: Job, capsys: Any
) -> None:
    pages = job.folder / "pages"
    assert job.comment("--pull-request", "8", "--on-failure", "warn", "--to", str(pages)) == 2
    assert "has no pull request #8" in capsys.readouterr().err
    assert (pages / "report.html").exists()


@pytest.mark.parametrize("night", ["yesterday", "2026-13-01", "20261101"])
def test_a_night_is_a_date(job: Job, night: str, capsys: Any) -> None:
    assert job.report("--night", night) == 2
    assert "it is a date such as 2026-08-31" in capsys.readouterr().err
