from __future__ import annotations

import re
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from github_api import LOGINS, MEASURING, PERSON, Fault, Pull

from torchperf_ci import deadline
from torchperf_ci.report import pull_request_comment as destination
from torchperf_ci.report.contents import ReportInputs
from torchperf_ci.report.pull_request_comment import COMMENT_LIMIT, MeasuredHead, comment_body, comment_marker
from torchperf_ci.report.pull_request_comment import MARKER as OLD_MARKER

if TYPE_CHECKING:
    from github_api import GitHub
    from reporting_job import Job

    from torchperf_ci.verdicts.verdict import Judgement

SHA = "a" * 40
MARKER = comment_marker(MEASURING)


@pytest.fixture(autouse=True)
def pull(github: GitHub, job: Job, monkeypatch: pytest.MonkeyPatch) -> Pull:
    """An open pull request, for which the job runs."""
    monkeypatch.setattr(deadline, "MAX_PAUSE", 0.01)
    job.event(
        pull_request={"number": 7, "head": {"sha": SHA, "ref": "topic", "repo": {"full_name": "octo/perf"}}}
    )
    return github.add(Pull(7, SHA))


def bodies(github: GitHub) -> list[str]:
    return [comment.body for comment in github.comments.values()]


def test_the_first_report_is_a_comment_with_the_verdict_and_its_run(job: Job, github: GitHub) -> None:
    assert job.comment() == 0
    (text,) = bodies(github)
    assert text.startswith(f"{MARKER}\n### ❌ Performance: 1 regressed\n")
    assert text.rstrip().endswith(
        f"<sub>Measured at {SHA} in [this run](https://github.example/octo/perf/actions/runs/72).</sub>"
    )
    (number,) = github.comments
    assert f"https://github.example/octo/perf/pull/7#issuecomment-{number}\n" in job.output


def test_further_reports_update_it(job: Job, github: GitHub) -> None:
    assert [job.comment(ratio=ratio) for ratio in (1.05, 1.06, 1.07)] == [0, 0, 0]
    (text,) = bodies(github)
    assert "+7.0%" in text
    assert github.written == ["POST", "PATCH", "PATCH"]


def test_an_unchanged_report_edits_nothing(job: Job, github: GitHub) -> None:
    job.comment()
    (comment,) = github.comments.values()
    comment.body = comment.body.replace("\n", "\r\n").rstrip()
    assert job.comment() == 0
    assert github.written == ["POST"]


def test_each_workflow_has_a_comment_of_its_own(job: Job, github: GitHub) -> None:
    """One on a CPU and one on a GPU, say."""
    job.comment(ratio=1.05)
    job.after_run(path=".github/workflows/gpu.yml", head_repository=None, head_branch=None)
    assert [job.comment(ratio=ratio) for ratio in (1.06, 1.07)] == [0, 0]
    first, second = bodies(github)
    assert "+5.0%" in first
    assert "+7.0%" in second
    assert first.splitlines()[0] != second.splitlines()[0]


def test_a_workflow_finds_its_comment_from_its_own_job_and_after_it(job: Job, github: GitHub) -> None:
    job.comment(ratio=1.05)
    job.after_run(head_repository=None, head_branch=None)
    assert job.comment(ratio=1.06) == 0
    (text,) = bodies(github)
    assert "+6.0%" in text


def test_a_comment_from_before_each_workflow_had_its_own_is_taken_over(job: Job, github: GitHub) -> None:
    old = github.comment(7, f"{OLD_MARKER}\r\nold")
    assert job.comment() == 0
    assert old.body.startswith(f"{MARKER}\n### ❌")
    left = github.comment(7, f"{OLD_MARKER}\nby hand")
    assert job.comment(ratio=1.06) == 0
    assert left.body.endswith("by hand")
    assert github.written == ["PATCH", "PATCH"]


@pytest.mark.parametrize("name", ["--> <img src=x>", "a\nb", "\ud800"])
def test_a_workflow_with_a_hostile_name_has_a_marker(name: str) -> None:
    assert re.fullmatch(r"<!-- torchperf report [0-9a-f]{16} -->", comment_marker(name))


@pytest.mark.parametrize(
    "earlier",
    [
        f"{MARKER}\n### ✅ Performance: 1 unchanged\n\n<sub>Measured at {SHA}.</sub>",
        f"{MARKER}\n### ❌ Performance: 1 regressed\n\n<sub>Measured at {'b' * 40}.</sub>",
        f"{MARKER}\n### ❌ Performance: 1 regressed\n\n<sub>Measured.</sub>",
        f"{MARKER}\n### ❌ Performance: 1 regressed\n\n<sub>Measured at {SHA}.</sub>\n\nIn an artifact's words",
        MARKER,
    ],
    ids=["green", "another commit", "no commit", "a commit elsewhere", "nothing"],
)
def test_where_nothing_was_judged_an_earlier_comment_says_so(job: Job, github: GitHub, earlier: str) -> None:
    github.comment(7, earlier)
    job.after_run(head_repository=None, head_branch=None)
    assert job.unjudged() == 0
    see = "see [the run](https://github.example/octo/perf/actions/runs/71)"
    (text,) = bodies(github)
    assert text == (
        f"{MARKER}\n### ⚠️ Performance: not compared\n\nCommit {SHA} could not be compared: {see}.\n"
    )


def test_a_rerun_without_verdicts_leaves_a_red_comment_on_its_commit_standing(
    job: Job, github: GitHub
) -> None:
    job.comment()
    (red,) = bodies(github)
    job.after_run(head_repository=None, head_branch=None)
    assert [job.unjudged(), job.unjudged()] == [0, 0]
    (text,) = bodies(github)
    assert text == (
        f"{red}<sub>A later run at this commit could not compare: see [the run]"
        "(https://github.example/octo/perf/actions/runs/71).</sub>\n"
    )
    assert github.written == ["POST", "PATCH"]
    assert job.comment(ratio=1.07) == 0
    (text,) = bodies(github)
    assert "+7.0%" in text
    assert "A later run" not in text


def test_where_nothing_was_judged_no_comment_is_made(job: Job, github: GitHub, capsys: Any) -> None:
    other = github.comment(7, f"{comment_marker('gpu.yml')}\nof another workflow")
    assert job.unjudged() == 0
    assert github.written == []
    assert other.body.endswith("of another workflow")
    assert "no comment written: there is no comment to update" in capsys.readouterr().err


def test_a_deleted_comment_is_made_anew(job: Job, github: GitHub) -> None:
    job.comment()
    github.comments.clear()
    assert job.comment() == 0
    assert github.written == ["POST", "POST"]


def test_older_ones_are_not_piled_up(job: Job, github: GitHub) -> None:
    for _ in range(3):
        github.comment(7, f"{MARKER}\nold")
    first = min(github.comments)
    assert job.comment() == 0
    assert list(github.comments) == [first]
    assert "1 regressed" in bodies(github)[0]


@pytest.mark.parametrize(
    ("login", "text"),
    [
        ("mallory", f"{MARKER}\nmine"),
        ("other[bot]", MARKER),
        (LOGINS["ghs_token-of-the-job"], f"> {MARKER}"),
        (LOGINS["ghs_token-of-the-job"], f"Accepted, see #12.\n\n{MARKER}\n### ❌"),
    ],
)
def test_what_is_not_ours_is_left_alone(job: Job, github: GitHub, login: str, text: str) -> None:
    """A marker in somebody else's comment, in a quotation, or below what somebody has written."""
    theirs = github.comment(7, text, login)
    assert [job.comment(ratio=ratio) for ratio in (1.1, 1.2, 1.3)] == [0, 0, 0]
    assert theirs.body == text
    assert len(github.comments) == 2


def test_ours_is_found_on_a_later_page(job: Job, github: GitHub) -> None:
    for number in range(250):
        github.comment(7, f"chatter {number}", "octocat")
    ours = github.comment(7, f"{MARKER}\nold")
    assert job.comment() == 0
    assert "1 regressed" in ours.body
    assert github.written == ["PATCH"]


def test_a_person_updates_their_own_comment(
    job: Job, github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", PERSON)
    ours = github.comment(7, MARKER, "octocat")
    github.comment(7, MARKER)
    assert job.comment() == 0
    assert "1 regressed" in ours.body
    assert len(github.comments) == 2


@pytest.mark.parametrize(("tells", "written"), [(True, ["PATCH"]), (False, ["POST", "DELETE", "PATCH"])])
def test_an_app_is_told_who_it_is_or_learns_it_from_its_own_comment(
    job: Job, github: GitHub, monkeypatch: pytest.MonkeyPatch, tells: bool, written: list[str]
) -> None:
    monkeypatch.setitem(LOGINS, "ghs_token-of-the-job", "perf-app[bot]")
    github.tells_viewer = tells
    first = github.comment(7, f"{MARKER}\nold", "perf-app[bot]")
    assert job.comment() == 0
    assert list(github.comments) == [first.id]
    assert "1 regressed" in first.body
    assert github.written == written


def test_two_racing_jobs_end_with_one_comment(job: Job, github: GitHub) -> None:
    """Both look, see nothing, and write at the same moment."""
    both = threading.Barrier(2, timeout=300)
    github.before = lambda method: both.wait() if method == "POST" else None  # type: ignore[assignment,return-value]
    codes: list[int] = []
    jobs = [
        threading.Thread(target=lambda ratio=ratio: codes.append(job.comment(ratio=ratio)))
        for ratio in (1.1, 1.2)
    ]
    for thread in jobs:
        thread.start()
    for thread in jobs:
        thread.join(60)
    assert codes == [0, 0]
    assert sorted(method for method in github.written if method != "PATCH") == ["DELETE", "POST", "POST"]
    assert len(bodies(github)) == 1


def test_a_comment_that_vanishes_before_it_is_updated_is_made_anew(job: Job, github: GitHub) -> None:
    github.comment(7, f"{MARKER}\nold")

    def vanish(method: str) -> None:
        if method == "PATCH":
            github.comments.clear()

    github.before = vanish
    assert job.comment() == 0
    assert github.written == ["PATCH", "POST"]


def test_a_duplicate_that_vanishes_is_no_failure(job: Job, github: GitHub) -> None:
    github.comment(7, f"{MARKER}\nold")
    github.comment(7, f"{MARKER}\nold")

    def vanish(method: str) -> None:
        if method == "DELETE":
            del github.comments[max(github.comments)]

    github.before = vanish
    assert job.comment() == 0
    assert len(github.comments) == 1


@pytest.mark.parametrize("status", [500, 502, 503])
def test_what_may_pass_is_tried_again_where_that_is_safe(job: Job, github: GitHub, status: int) -> None:
    github.comment(7, f"{MARKER}\nold")
    github.faults = [Fault("GET", status), Fault("PATCH", status, late=True), Fault("GET", status)]
    assert job.comment() == 0
    assert github.written == ["PATCH", "PATCH"]
    assert not github.faults


def test_a_comment_that_may_have_been_made_is_not_made_twice(job: Job, github: GitHub, capsys: Any) -> None:
    github.faults = [Fault("POST", 502, late=True)]
    assert job.comment() == 4
    assert "GitHub answered 502: not now; run the same again later" in capsys.readouterr().err
    assert github.written == ["POST"]
    assert job.comment() == 0
    assert github.written == ["POST"]


@pytest.mark.parametrize(
    ("status", "message", "headers", "seconds"),
    [
        (403, "secondary rate limit", {"Retry-After": "17"}, 17.0),
        (403, "You have exceeded a secondary rate limit. Please wait.", {}, 60.0),
        (429, "slow down", {}, 60.0),
        (
            403,
            "API rate limit exceeded for x",
            {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1030"},
            30.0,
        ),
    ],
)
def test_a_rate_limit_is_waited_for(
    job: Job,
    github: GitHub,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    message: str,
    headers: dict[str, str],
    seconds: float,
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("torchperf_ci.github.time.sleep", slept.append)
    monkeypatch.setattr("torchperf_ci.github.time.time", lambda: 1000.0)
    github.faults = [Fault("GET", status, message, headers)]
    assert job.comment() == 0
    assert seconds in slept


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (429, {"Retry-After": "3600"}),
        (403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(2**40)}),
    ],
)
def test_who_is_to_come_back_after_the_deadline_gives_up(
    job: Job, github: GitHub, capsys: Any, status: int, headers: dict[str, str]
) -> None:
    github.faults = [Fault("GET", status, "slow down", headers)]
    assert job.comment() == 4
    assert f"GitHub answered {status}: slow down; run the same again later" in capsys.readouterr().err
    assert len(github.asked) == 1


def test_no_answer_in_time_is_told(
    job: Job, github: GitHub, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(destination, "_SECONDS", 0.2)
    monkeypatch.setenv("GITHUB_API_URL", "http://127.0.0.1:9")
    assert job.comment() == 4
    assert "GitHub cannot be reached: ConnectionError" in capsys.readouterr().err


def test_a_missing_permission_is_named(job: Job, github: GitHub, capsys: Any) -> None:
    github.writable = False
    assert job.comment() == 4
    told = capsys.readouterr().err
    assert "may not comment on octo/perf#7" in told
    assert "pull-requests: write" in told


def test_a_locked_conversation_is_told(job: Job, pull: Pull, capsys: Any) -> None:
    pull.locked = True
    assert job.comment() == 4
    assert "the conversation of octo/perf#7 is locked" in capsys.readouterr().err


def test_a_bad_token_is_told_and_not_shown(job: Job, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "ghs_expired")
    assert job.comment() == 4
    told = capsys.readouterr().err
    assert "GitHub refuses the token in GITHUB_TOKEN" in told
    assert "ghs_expired" not in told


def test_a_comment_fits_into_what_github_takes(judgement: Judgement) -> None:
    many = replace(judgement, verdicts=[*judgement.verdicts] * 5000)
    text = comment_body(
        ReportInputs((many,)), MeasuredHead(SHA, run_url="https://github.example/" + "x" * 100)
    )
    assert COMMENT_LIMIT - 400 < len(text.encode()) <= COMMENT_LIMIT
    assert text.rstrip().endswith("</sub>")


def test_of_a_report_by_hand_no_run_is_known(judgement: Judgement) -> None:
    assert "<sub>" not in comment_body(ReportInputs((judgement,)), MeasuredHead())
