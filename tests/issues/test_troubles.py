from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from github_api import Fault
from nights import OTHER, judged, located, measured, regressed, series
from scripted_http import scripted_server

from torchperf_ci.report import issue_report

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Nightly
    from github_api import GitHub

NET, BERT = series("resnet18"), series("bert")
SLOW = regressed(NET)
FAULT_OF_CREATION = "/repos/octo/perf/issues"


@pytest.fixture(autouse=True)
def labels(github: GitHub) -> None:
    """They are there, so that what is written is about issues."""
    github.labels.update({"torchperf": "", "torchperf: expected": ""})


def once(method: str, do: Callable[[], object]) -> Callable[[str], None]:
    """``do`` just before the first request with ``method`` is done."""
    waiting = [do]

    def before(asked: str) -> None:
        if asked == method and waiting:
            waiting.pop()()

    return before


def third_get(do: Callable[[], object]) -> Callable[[str], None]:
    """``do`` after it was asked who we are and which issues there are, before one is looked at again."""
    gets = iter([lambda: None, lambda: None, do])

    def before(method: str) -> None:
        if method == "GET":
            next(gets, lambda: None)()

    return before


@pytest.mark.parametrize("fate", ["deleted", "transferred out of sight", "transferred"])
@pytest.mark.parametrize("moment", ["GET", "PATCH"])
def test_what_is_gone_is_opened_anew(nightly: Nightly, github: GitHub, fate: str, moment: str) -> None:
    """Between the list and the edit; in the second case between the last look and the edit."""
    nightly.report(1, judged(SLOW), located(SLOW))
    (gone,) = nightly.issues
    before = gone.body

    def vanish() -> None:
        gone.deleted, gone.moved, gone.seen_there = (
            fate == "deleted",
            fate != "deleted",
            fate == "transferred",
        )

    github.before = once("PATCH", vanish) if moment == "PATCH" else third_get(vanish)
    assert nightly.report(2, judged(SLOW), located(SLOW)) == 0
    assert [issue.state for issue in nightly.issues] == ["open", "open"]
    if not (moment == "PATCH" and fate == "transferred"):  # GitHub takes it there, and nobody is told
        assert gone.body == before


def test_what_changes_meanwhile_is_looked_at_again(nightly: Nightly, github: GitHub) -> None:
    nightly.settings("recovered_nights: 1")
    nightly.report(1, judged(SLOW), located(SLOW))
    (issue,) = nightly.issues

    def edit() -> None:
        issue.body = f"An edit.\n\n{issue.body}"

    github.before = third_get(edit)
    assert nightly.report(2, judged(measured(NET))) == 0
    assert nightly.states == ["completed"]
    assert issue.body.startswith("An edit.")
    assert len(nightly.said) == 1


def test_a_duplicate_that_changes_meanwhile_is_looked_at_again(nightly: Nightly, github: GitHub) -> None:
    both = judged(SLOW, on_cpu := regressed(series("resnet18", "cpu")))
    nightly.report(1, both)
    _, duplicate = nightly.issues

    def edit() -> None:
        duplicate.body = f"An edit.\n\n{duplicate.body}"

    github.before = third_get(edit)
    assert nightly.report(2, both, located(SLOW), located(on_cpu)) == 0
    assert nightly.states == ["open", "duplicate"]
    assert duplicate.body.startswith("An edit.")
    assert "Same as #1, which stays open." in nightly.said
    assert nightly.summary.count("- closed ") == 1


def test_what_changes_again_and_again_is_told(nightly: Nightly, github: GitHub, capsys: Any) -> None:
    nightly.report(1, judged(SLOW), located(SLOW))
    (issue,) = nightly.issues

    def edit(method: str) -> None:
        issue.body += "."

    github.before = edit
    assert nightly.report(2, judged(SLOW), located(SLOW)) == 4
    assert "it kept changing in the meantime" in capsys.readouterr().err


def test_issues_that_are_switched_off_are_told(nightly: Nightly, github: GitHub, capsys: Any) -> None:
    github.has_issues = False
    assert nightly.report(1, judged(SLOW), located(SLOW)) == 4
    told = capsys.readouterr().err
    assert "octo/perf has issues disabled" in told
    assert "Settings → General → Features" in told


def test_a_missing_permission_is_named(nightly: Nightly, github: GitHub, capsys: Any) -> None:
    github.writable = False
    assert nightly.report(1, judged(SLOW), located(SLOW)) == 4
    told = "give the job `permissions: issues: write`, or another token if the repository is not its own"
    assert told in capsys.readouterr().err
    assert "❌ not published" in nightly.summary


@pytest.mark.parametrize(
    ("status", "message"), [(403, "refused"), (403, "Repository access blocked"), (404, "refused")]
)
def test_issues_that_cannot_be_listed_are_told(
    nightly: Nightly, github: GitHub, status: int, message: str, capsys: Any
) -> None:
    github.faults = [Fault("GET", status, message, where="/issues?")]
    assert nightly.report(1, judged(SLOW), located(SLOW)) == 4
    assert "permissions: issues: write" in capsys.readouterr().err
    assert nightly.issues == []


def test_a_secondary_rate_limit_is_waited_for(
    nightly: Nightly, github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was refused for that was not done, so that even an issue may be opened again."""
    slept: list[float] = []
    monkeypatch.setattr("torchperf_ci.github.time.sleep", slept.append)
    github.faults = [Fault("POST", 403, "secondary rate limit", {"Retry-After": "7"})]
    assert nightly.report(1, judged(SLOW), located(SLOW)) == 0
    assert 7.0 in slept
    assert len(nightly.issues) == 1


def test_an_issue_that_may_have_been_opened_is_not_opened_twice(
    nightly: Nightly, github: GitHub, capsys: Any
) -> None:
    github.faults = [Fault("POST", 502, late=True)]
    assert nightly.report(1, judged(SLOW), located(SLOW)) == 4
    assert "not published: resnet18 10.0% slower" in capsys.readouterr().err
    assert nightly.report(1, judged(SLOW), located(SLOW)) == 0
    assert len(nightly.issues) == 1


@pytest.mark.parametrize("is_made", [False, True])
def test_a_comment_that_may_have_been_made_is_made_once(
    nightly: Nightly, github: GitHub, is_made: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = github.comment
    monkeypatch.setattr(
        github, "comment", lambda number, body, login: made(number, body.replace("\n", "\r\n"), login)
    )
    nightly.report(1, judged(SLOW))
    github.faults = [Fault("POST", 502, late=is_made, where="/comments")]
    assert nightly.report(2, judged(SLOW, regressed(BERT))) == 0
    assert len(nightly.said) == 1


def test_a_comment_that_is_lost_is_told_also_if_another_issue_is_looked_at_again(
    nightly: Nightly, github: GitHub, capsys: Any
) -> None:
    later = ("3" * 40, "4" * 40)
    both = [SLOW, regressed(BERT, ends=later)]
    nightly.report(1, judged(*both))
    _, edited = nightly.issues
    github.faults = [Fault("POST", 422, "no", where="/1/comments")]
    github.before = once("POST", lambda: setattr(edited, "body", f"An edit.\n\n{edited.body}"))
    found = [located(both[0]), located(both[1], commit=OTHER, ends=later)]
    assert nightly.report(2, judged(*both), *found) == 4
    assert "not published: the comment on #1: GitHub refuses to comment on #1" in capsys.readouterr().err
    assert "1 not published" in nightly.summary
    assert OTHER[:10] in edited.title


def test_what_was_done_is_told_even_if_nobody_can_look_again(
    nightly: Nightly, github: GitHub, capsys: Any
) -> None:
    nightly.report(1, judged(SLOW), located(SLOW))
    (issue,) = nightly.issues
    other = regressed(BERT, ends=("3" * 40, "4" * 40))

    def spoil() -> None:
        issue.body += "."
        github.faults = [Fault("GET", 404, "gone", where="/issues?")]

    github.before = once("POST", spoil)
    assert nightly.report(2, judged(SLOW, other)) == 4
    assert "not published: what changed in the meantime: " in capsys.readouterr().err
    assert "- opened [#<!-- -->2 bert" in nightly.summary


@pytest.mark.parametrize(("on_failure", "code"), [("error", 4), ("warn", 0)])
def test_what_fails_hinders_nothing_else(
    nightly: Nightly, github: GitHub, on_failure: str, code: int, capsys: Any
) -> None:
    slow = [
        regressed(series(name), ends=("1" * 40, size * 40)) for size, name in zip("234", "abc", strict=True)
    ]
    github.faults = [Fault("POST", 422, "no", where=FAULT_OF_CREATION)]
    to = ["issues", "--on-failure", on_failure]
    assert nightly.report(1, judged(*slow), to=to) == code
    assert [issue.title[:2] for issue in nightly.issues] == ["b ", "c "]
    told = capsys.readouterr().err
    assert "not published: a 10.0% slower" in told
    assert ("::warning title=Not reported::" in told) == (on_failure == "warn")
    assert "opened<<" in nightly.output
    assert nightly.report(1, judged(*slow), to=to) == 0
    assert len(nightly.issues) == 3


def test_what_only_adds_to_a_report_does_not_stop_it(
    nightly: Nightly, github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GitHub does not say who wrote a commit of thousands of files."""
    monkeypatch.setattr(issue_report, "_SECONDS", 2)
    nightly.settings("mention_authors: true")
    github.faults = [Fault("GET", 500, where="/commits/")] * 9999
    assert nightly.report(1, judged(SLOW), located(SLOW)) == 0
    assert nightly.report(2, judged(SLOW, regressed(BERT, ends=("3" * 40, "4" * 40))), located(SLOW)) == 0
    assert len(nightly.issues) == 2


def test_a_locked_conversation_is_edited_in_silence(nightly: Nightly, github: GitHub) -> None:
    nightly.report(1, judged(SLOW))
    (issue,) = nightly.issues
    issue.locked = True
    assert nightly.report(2, judged(SLOW, regressed(BERT))) == 0
    assert "bert" in issue.body
    assert nightly.said == []
    assert "is locked" in nightly.summary


def test_a_locked_duplicate_is_closed_in_silence(nightly: Nightly) -> None:
    both = judged(SLOW, on_cpu := regressed(series("resnet18", "cpu")))
    nightly.report(1, both)
    nightly.issues[1].locked = True
    assert nightly.report(2, both, located(SLOW), located(on_cpu)) == 0
    assert nightly.states == ["open", "duplicate"]
    assert [line.split(":")[0] for line in nightly.said] == ["Commit found"]
    assert "#<!-- -->2 is locked" in nightly.summary


def test_an_enterprise_server_is_asked_at_its_own_place(
    nightly: Nightly, github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    github.prefix = "/api/v3"
    monkeypatch.setenv("GITHUB_API_URL", github.base)
    for day in (1, 2):
        assert nightly.report(day, judged(SLOW), located(SLOW)) == 0
    (issue,) = nightly.issues
    assert "https://github.example/octo/perf/commit/" in issue.body


def test_no_answer_in_time_is_told(nightly: Nightly, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(issue_report, "_SECONDS", 0.2)
    monkeypatch.setenv("GITHUB_API_URL", "http://127.0.0.1:9")
    assert nightly.report(1, judged(SLOW)) == 4
    assert "GitHub cannot be reached: ConnectionError" in capsys.readouterr().err


def test_a_server_that_is_no_api_is_told(
    nightly: Nightly, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """GitHub Enterprise Server shows a page to log in where the path of its API is left out."""
    with scripted_server() as server:
        server.answers = [(200, b"<html>Sign in</html>")]
        monkeypatch.setenv("GITHUB_API_URL", server.url)
        assert nightly.report(1, judged(SLOW)) == 4
    assert "what answers is not GitHub's API: see the URL in GITHUB_API_URL" in capsys.readouterr().err


def test_a_bad_token_is_told_and_not_shown(
    nightly: Nightly, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "ghs_expired")
    assert nightly.report(1, judged(SLOW)) == 4
    told = capsys.readouterr().err
    assert "GitHub refuses the token in GITHUB_TOKEN" in told
    assert "ghs_expired" not in told


@pytest.mark.parametrize(
    ("settings", "to", "repository"),
    [
        ("", [], "octo/perf"),
        ("repo: octo/else", [], "octo/else"),
        ("repo: octo/else", ["--repo", "octo/perf"], "octo/perf"),
    ],
)
def test_issues_are_opened_where_they_are_wanted(
    nightly: Nightly, github: GitHub, settings: str, to: list[str], repository: str
) -> None:
    nightly.settings(settings)
    nightly.report(1, judged(SLOW), to=["issues", *to])
    assert {asked.split("/labels")[0] for asked in github.asked if "/labels/torchperf" in asked} == {
        f"GET /repos/{repository}"
    }


def test_issues_of_a_renamed_repository_are_found(nightly: Nightly, github: GitHub) -> None:
    """GitHub's redirects lead a list to that of all open issues, and an issue nowhere."""
    nightly.settings("repo: octo/former, recovered_nights: 1")
    for day, night in enumerate([judged(SLOW), judged(measured(NET)), judged(SLOW)], 1):
        assert nightly.report(day, night) == 0
    assert nightly.states == ["reopened"]
    assert len(nightly.said) == 2


def test_what_is_gone_when_it_is_commented_is_opened_anew(nightly: Nightly, github: GitHub) -> None:
    nightly.report(1, judged(SLOW))
    github.faults = [Fault("POST", 410, "This issue was deleted", where="/comments")]
    gone = nightly.issues[0]
    github.before = once("POST", lambda: setattr(gone, "deleted", True))
    assert nightly.report(2, judged(SLOW, regressed(BERT))) == 0
    assert [issue.deleted for issue in nightly.issues] == [True, False]


def test_of_two_issues_about_the_same_the_older_one_is_kept(nightly: Nightly, github: GitHub) -> None:
    nightly.report(1, judged(SLOW), located(SLOW))
    (ours,) = nightly.issues
    later = github.issue("theirs", ours.body, ours.login, ours.labels)
    assert nightly.report(2, judged(SLOW, regressed(BERT)), located(SLOW, regressed(BERT))) == 0
    assert "bert" in ours.body
    assert "bert" not in later.body
    assert nightly.states == ["open", "duplicate"]
