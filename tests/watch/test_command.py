"""One issue about a nightly that does not run, on a GitHub that answers as described."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from github_api import ELSEWHERE, JOB, LOGINS, Fault, Workflow
from serving import encrypt, serving

from torchperf_ci import deadline
from torchperf_ci import watch as command
from torchperf_ci.cli import main
from torchperf_ci.issues.findings import cause_fingerprint
from torchperf_ci.issues.memory import IssueMemory, memory_line, parse_memory

if TYPE_CHECKING:
    from pathlib import Path

    from github_api import GitHub, Issue
    from reporting_job import Job

US = LOGINS[JOB]
NIGHT = timedelta(days=1)


class Clock:
    """What time it is."""

    def __init__(self) -> None:
        self.now = datetime.now(timezone.utc)

    def next_day(self) -> None:
        self.now += NIGHT

    def ended(self, conclusion: str | None, ago: timedelta, **members: Any) -> dict[str, Any]:
        """A scheduled run as GitHub shows it."""
        began = (self.now - ago).strftime("%Y-%m-%dT%H:%M:%SZ")
        number = 900 - int(ago / timedelta(hours=1))
        return {
            "id": number,
            "run_number": number,
            "event": "schedule",
            "head_branch": "main",
            "status": "completed" if conclusion else "in_progress",
            "conclusion": conclusion,
            "created_at": began,
            "run_started_at": began,
            "html_url": f"https://github.example/octo/perf/actions/runs/{number}",
            **members,
        }


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Today, until a test goes on to the next day."""
    clock = Clock()
    monkeypatch.setattr(command, "_now", lambda: clock.now)
    return clock


@pytest.fixture(autouse=True)
def workflow(github: GitHub, job: Job, monkeypatch: pytest.MonkeyPatch) -> Workflow:
    """The nightly, which has never run."""
    assert job.github is github
    monkeypatch.setattr(deadline, "MAX_PAUSE", 0.01)
    return github.workflows.setdefault("nightly.yml", Workflow())


def watch(*arguments: str) -> int:
    return main(["watch", *arguments])


def the_issue(github: GitHub) -> Issue:
    (issue,) = github.issues.values()
    return issue


def comments(github: GitHub) -> list[str]:
    return [comment.body for comment in github.comments.values()]


def test_a_nightly_that_worked_is_told_and_nothing_is_written(
    clock: Clock, job: Job, github: GitHub, workflow: Workflow, capsys: Any
) -> None:
    workflow.runs = [clock.ended("success", timedelta(hours=5))]
    assert watch() == 0
    assert "nightly.yml: run 895 of " in capsys.readouterr().err
    assert not github.written
    assert job.output.split("\n")[1] == "true"


def test_one_that_did_not_run_is_an_issue_an_annotation_and_no_failure(
    clock: Clock, job: Job, github: GitHub, workflow: Workflow, capsys: Any
) -> None:
    workflow.runs = [clock.ended("success", 3 * NIGHT)]
    assert watch() == 0
    issue = the_issue(github)
    assert issue.title == "No results from the scheduled benchmarks (nightly.yml)"
    assert issue.labels == ["torchperf"]
    began = f"{workflow.runs[0]['run_started_at'][:16].replace('T', ' ')} UTC"
    page = "https://github.example/octo/perf/actions/workflows/nightly.yml"
    assert (
        f"**The benchmarks did not run.** [`nightly.yml`]({page}): its schedule has started no run"
        in issue.body
    )
    assert f"| {began} | [828](https://github.example/octo/perf/actions/runs/828) | success |" in issue.body
    told = capsys.readouterr().err
    assert f"::error title=No results::nightly.yml: its schedule has started no run since {began}" in told
    assert "false" in job.output.split("\n")
    assert f"https://github.example/octo/perf/issues/{issue.number}" in job.output
    assert "The benchmarks did not run" in (job.folder / "summary").read_text()


def test_the_same_again_changes_nothing_that_people_see(
    clock: Clock, github: GitHub, workflow: Workflow
) -> None:
    workflow.runs = [clock.ended("success", 3 * NIGHT)]
    assert [watch(), watch(), watch()] == [0, 0, 0]
    assert [method for method in github.written if method != "POST"] == []
    assert len(github.issues) == 1
    assert not github.comments


def test_the_issue_says_what_is_the_matter_today(clock: Clock, github: GitHub, workflow: Workflow) -> None:
    watch()
    assert "has never started a run" in the_issue(github).body
    clock.next_day()
    workflow.runs = [clock.ended("failure", timedelta(hours=5))]
    watch()
    assert "**The benchmarks fail.**" in the_issue(github).body
    assert "| failure |" in the_issue(github).body
    clock.next_day()
    workflow.state = "disabled_inactivity"
    watch()
    assert "nothing was committed for 60 days" in the_issue(github).body
    assert "*Enable workflow*" in the_issue(github).body
    assert not github.comments


def test_a_run_closes_it_at_once_and_the_next_gap_opens_the_same_again(
    clock: Clock, github: GitHub, workflow: Workflow
) -> None:
    watch()
    workflow.runs = [clock.ended("success", timedelta(hours=5))]
    assert [watch(), watch()] == [0, 0]
    issue = the_issue(github)
    assert (issue.state, issue.state_reason) == ("closed", "completed")
    (said,) = comments(github)
    assert said.startswith("It runs again: [run 895 of ")
    assert "(https://github.example/octo/perf/actions/runs/895)" in said

    clock.next_day()
    workflow.runs = [clock.ended("success", 3 * NIGHT)]
    assert [watch(), watch()] == [0, 0]
    assert the_issue(github).state == "open"
    assert comments(github)[1].startswith("Again: its schedule has started no run since ")
    assert len(github.comments) == 2
    memory = parse_memory(the_issue(github).body)
    assert memory
    assert memory.recovered == ()


def test_who_closes_it_is_left_alone_until_the_nightly_has_run_meanwhile(
    clock: Clock, github: GitHub, workflow: Workflow
) -> None:
    watch()
    issue = the_issue(github)
    issue.state = "closed"
    clock.next_day()
    assert [watch(), watch()] == [0, 0]
    assert issue.state == "closed"

    workflow.runs = [clock.ended("success", timedelta(hours=5))]
    assert [watch(), watch()] == [0, 0]
    assert github.written.count("PATCH") == 1
    clock.next_day()
    workflow.runs = []
    assert watch() == 0
    assert issue.state == "open"


def test_a_run_that_is_red_because_something_regressed_has_done_its_work(
    clock: Clock, github: GitHub, workflow: Workflow
) -> None:
    workflow.runs = [clock.ended("failure", timedelta(hours=5))]
    github.artifacts = {895: ["torchperf-records-cpu", "torchperf-verdicts"]}
    assert watch() == 0
    assert not github.issues
    github.artifacts = {895: ["torchperf-records-cpu"]}
    assert watch() == 0
    assert the_issue(github).state == "open"


def test_a_run_that_goes_on_neither_opens_nor_closes(
    clock: Clock, github: GitHub, workflow: Workflow
) -> None:
    workflow.runs = [clock.ended(None, timedelta(hours=1)), clock.ended("success", 3 * NIGHT)]
    assert watch() == 0
    assert not github.issues
    workflow.runs = workflow.runs[1:]
    watch()
    workflow.runs = [clock.ended(None, timedelta(hours=1)), *workflow.runs]
    assert watch() == 0
    assert the_issue(github).state == "open"


def test_an_old_run_that_is_run_again_is_the_newest(clock: Clock, github: GitHub, workflow: Workflow) -> None:
    again = clock.ended("failure", timedelta(hours=1))
    workflow.runs = [clock.ended("success", 3 * NIGHT), again, clock.ended("failure", 5 * NIGHT)]
    watch()
    when = f"{again['run_started_at'][:16].replace('T', ' ')} UTC"
    assert f"its last run failed, at {when}." in the_issue(github).body


def test_only_scheduled_runs_count_and_those_of_the_branch(
    clock: Clock, github: GitHub, workflow: Workflow
) -> None:
    workflow.runs = [clock.ended("success", timedelta(hours=1), event="workflow_dispatch")]
    watch()
    assert the_issue(github).state == "open"
    workflow.runs = [clock.ended("success", timedelta(hours=1), head_branch="release")]
    watch("--branch", "main")
    assert the_issue(github).state == "open"
    watch("--branch", "release")
    assert the_issue(github).state == "closed"


def test_patience_is_given_and_each_workflow_has_an_issue_of_its_own(
    clock: Clock, github: GitHub, workflow: Workflow
) -> None:
    workflow.runs = [clock.ended("success", 3 * NIGHT)]
    github.workflows["weekly.yml"] = Workflow()
    assert watch("--within", "4d") == 0
    assert not github.issues
    assert [watch("--within", "71h"), watch("--workflow", "weekly.yml")] == [0, 0]
    assert [issue.title[-13:] for issue in github.issues.values()] == ["(nightly.yml)", " (weekly.yml)"]


@pytest.mark.parametrize("login", [US, "mallory"])
def test_the_issues_of_others_and_about_other_things_are_left_alone(github: GitHub, login: str) -> None:
    watch()
    ours = the_issue(github).body
    github.issues.clear()
    labels = ["torchperf"] if login != US else []
    theirs = github.issue("No results", ours, login, labels)
    assert watch() == 0
    assert theirs.body == ours
    assert len(github.issues) == 2


def test_an_issue_that_vanishes_while_it_is_kept_is_opened_anew(
    clock: Clock, github: GitHub, workflow: Workflow
) -> None:
    watch()
    workflow.runs = [clock.ended("failure", timedelta(hours=5))]
    first = the_issue(github)

    def vanish(_method: str) -> None:
        first.deleted |= any("/issues?" in asked for asked in github.asked)  # it was listed a moment ago

    clock.next_day()
    github.asked.clear()
    github.before = vanish
    assert watch() == 0
    assert len([issue for issue in github.issues.values() if not issue.deleted]) == 1


def test_a_locked_issue_is_closed_without_a_comment(clock: Clock, github: GitHub, workflow: Workflow) -> None:
    watch()
    the_issue(github).locked = True
    workflow.runs = [clock.ended("success", timedelta(hours=5))]
    assert watch() == 0
    assert the_issue(github).state == "closed"


def test_a_dry_run_asks_and_shows_and_touches_nothing(github: GitHub, capsys: Any) -> None:
    assert watch("--dry-run") == 0
    shown = capsys.readouterr()
    assert "No results from the scheduled benchmarks (nightly.yml)" in shown.out
    assert "**The benchmarks did not run.**" in shown.out
    assert "no issue was changed: this is a dry run" in shown.err
    assert not github.written
    assert not [asked for asked in github.asked if "issues" in asked]


@pytest.mark.parametrize(
    ("fault", "code", "told"),
    [
        (Fault("GET", 404, where="/workflows/"), 2, "octo/perf has no workflow 'nightly.yml'"),
        (Fault("GET", 403, where="/runs"), 4, "permissions: actions: read"),
        (Fault("GET", 422, where="/runs"), 4, "GitHub refuses to list the runs of nightly.yml in octo/perf"),
        (Fault("POST", 403, where="/issues"), 4, "permissions: issues: write"),
    ],
)
def test_what_is_missing_is_named(github: GitHub, capsys: Any, fault: Fault, code: int, told: str) -> None:
    github.faults = [fault]
    assert watch() == code
    assert told in capsys.readouterr().err


def test_what_may_pass_is_tried_again(clock: Clock, github: GitHub, workflow: Workflow) -> None:
    workflow.runs = [clock.ended("failure", timedelta(hours=5))]
    github.faults = [Fault("GET", 502, where="/runs?"), Fault("GET", 503, where="/artifacts")]
    assert watch() == 0
    assert not github.faults


def test_without_a_token_or_a_repository_nothing_can_be_watched(
    monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.delenv("GITHUB_TOKEN")
    assert watch() == 4
    assert "there is no GITHUB_TOKEN" in capsys.readouterr().err
    for token in ("ab\udcff", "日本", "a\nb"):
        monkeypatch.setenv("GITHUB_TOKEN", token)
        assert watch() == 4
        assert "the token in GITHUB_TOKEN is not one: " in capsys.readouterr().err
    monkeypatch.delenv("GITHUB_REPOSITORY")
    assert watch() == 2
    assert "in which repository? give --repo" in capsys.readouterr().err


def test_another_repository_can_be_watched(github: GitHub) -> None:
    assert watch("--repo", ELSEWHERE) == 0
    assert f"GET /repos/{ELSEWHERE}/actions/workflows/nightly.yml" in github.asked


def test_a_certificate_that_is_not_accepted_is_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    with serving(HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)) as server:
        encrypt(server, tmp_path)
        monkeypatch.setenv("GITHUB_API_URL", f"https://127.0.0.1:{server.server_port}")
        assert watch() == 4
    assert "GitHub's certificate is not accepted: self-signed certificate; " in capsys.readouterr().err


def test_it_gives_up_in_time(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(command, "_SECONDS", 0.2)
    monkeypatch.setenv("GITHUB_API_URL", "http://127.0.0.1:9")
    assert watch() == 4
    assert "GitHub cannot be reached: ConnectionError" in capsys.readouterr().err


@pytest.mark.parametrize("given", ["36", "0h", "soon", "1w", "-1h", "99999h"])
def test_a_time_is_a_number_with_its_unit(given: str, capsys: Any) -> None:
    assert watch(f"--within={given}") == 2
    assert "a length of time above 0, such as 90m, 36h or 2d" in capsys.readouterr().err


def test_who_opens_it_again_by_hand_may_close_it_by_hand(
    clock: Clock, github: GitHub, workflow: Workflow
) -> None:
    watch()
    issue = the_issue(github)
    workflow.runs = [clock.ended("success", timedelta(hours=5))]
    watch()
    clock.next_day()
    workflow.runs, issue.state = [], "open"
    watch()
    clock.next_day()
    issue.state = "closed"
    assert watch() == 0
    assert issue.state == "closed"


def test_the_issue_that_an_earlier_version_opened_is_kept(
    clock: Clock, github: GitHub, workflow: Workflow
) -> None:
    memory = IssueMemory(
        "nightly", (cause_fingerprint("nightly", "nightly.yml"),), (), "2026-01-01", "2026-01-02"
    )
    issue = github.issue("No results", f"{memory_line(memory)}\n\nIt does not run.\n", US, ["torchperf"])
    assert watch() == 0
    assert len(github.issues) == 1
    assert "has never started a run" in issue.body
    clock.next_day()
    workflow.runs = [clock.ended("success", timedelta(hours=5))]
    assert watch() == 0
    assert issue.state == "closed"


def test_the_issues_about_regressions_are_left_alone(github: GitHub) -> None:
    memory = IssueMemory("unlocated", ("0" * 16,), (), "2026-01-01", "2026-01-02")
    labels = ["torchperf", "torchperf: expected"]
    issue = github.issue("Slower", memory_line(memory), US, labels)
    assert watch() == 0
    assert (issue.body, issue.state) == (memory_line(memory), "open")
    assert len(github.issues) == 2


def test_two_issues_about_the_same_nightly_end_with_the_older_one_kept(github: GitHub) -> None:
    watch()
    first = the_issue(github)
    later = github.issue(first.title, first.body, US, ["torchperf"])
    assert watch() == 0
    assert (len(github.issues), first.state, later.state) == (2, "open", "open")
