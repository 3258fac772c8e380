from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from github_api import JOB, LOGINS, PERSON
from nights import CULPRIT, OTHER, judged, located, located_within, measured, regressed, series

from torchperf_ci.issues.memory import IssueMemory, IssueRow, memory_line, parse_memory

if TYPE_CHECKING:
    from conftest import Nightly
    from github_api import GitHub

    from torchperf_ci.culprits.culprit import Bisection
    from torchperf_ci.issues.memory import IssueKind
    from torchperf_ci.verdicts.verdict import Verdict

NET, BERT, ON_CPU = series("resnet18"), series("bert"), series("resnet18", "cpu")
SLOW = regressed(NET)
LATER = ("3" * 40, "4" * 40)
LAST_WEEK, TONIGHT = 1793491200.0, 1794096000.0  # 2026-11-01 and 2026-11-08
WEEKLY = regressed(replace(NET, arch="NVIDIA A100"), ends=LATER, times=(LAST_WEEK, TONIGHT))
UNKNOWN = replace(located(WEEKLY, ends=LATER), status="inconclusive", culprits=())
US = LOGINS[JOB]


def test_a_culprit_opens_one_issue_and_the_next_night_none(nightly: Nightly, github: GitHub) -> None:
    assert nightly.report(1, judged(SLOW), located(SLOW)) == 0
    (issue,) = nightly.issues
    assert issue.labels == ["torchperf"]
    assert "resnet18" in issue.title
    assert CULPRIT[:10] in issue.title
    assert "Simplify the scheduler" in issue.body
    assert "issues<<" in nightly.output
    assert "https://github.example/octo/perf/issues/1\n" in nightly.output
    assert "### Issues: 1 opened" in nightly.summary
    assert nightly.report(2, judged(SLOW)) == 0
    assert nightly.states == ["open"]
    assert nightly.said == []


def test_the_same_night_again_writes_nothing(nightly: Nightly, github: GitHub) -> None:
    nightly.report(1, judged(SLOW), located(SLOW))
    github.asked.clear()
    assert nightly.report(1, judged(SLOW), located(SLOW)) == 0
    assert len(github.asked) == 3  # who we are, what our label is called, and which issues there are
    assert "- known [" in nightly.summary


def test_it_is_found_whatever_its_title_has_become(nightly: Nightly, github: GitHub) -> None:
    nightly.report(1, judged(SLOW), located(SLOW))
    (issue,) = nightly.issues
    issue.title = "Scheduler is slow"
    issue.body = "We look into it.\n\n" + issue.body.replace("\n", "\r\n")
    assert nightly.report(2, judged(SLOW, regressed(BERT)), located(SLOW, regressed(BERT))) == 0
    assert len(nightly.issues) == 1
    assert issue.title == "Scheduler is slow"
    assert issue.body.startswith("We look into it.")
    assert "bert" in issue.body
    issue.body = "\r\n".join(issue.body.splitlines())
    github.asked.clear()
    nightly.report(2, judged(SLOW, regressed(BERT)), located(SLOW, regressed(BERT)))
    assert github.written == []


def test_new_evidence_is_one_comment(nightly: Nightly, github: GitHub) -> None:
    both = [SLOW, regressed(ON_CPU)]
    nightly.report(1, judged(SLOW), located(SLOW))
    for day in (2, 2, 3):
        assert nightly.report(day, judged(*both), located(SLOW), located(both[1])) == 0
    (said,) = nightly.said
    assert "2026-11-02" in said
    assert "Xeon" in nightly.issues[0].body


def test_a_machine_that_runs_once_a_week_is_evidence_for_the_culprit_that_another_has_proven(
    nightly: Nightly,
) -> None:
    nightly.report(2, judged(SLOW), located(SLOW))
    nightly.report(8, judged(measured(NET, 1.1), WEEKLY))
    (issue,) = nightly.issues
    row = next(line for line in issue.body.splitlines() if line.startswith("|") and "A100" in line)
    assert row.endswith("| history |")
    assert "not been bisected" not in issue.body
    (said,) = nightly.said
    assert "A100" in said
    proven = located(WEEKLY, commit=OTHER, ends=LATER)
    nightly.report(9, judged(measured(NET, 1.1), WEEKLY), proven)
    assert [one.title[-10:] for one in nightly.issues] == [CULPRIT[:10], OTHER[:10]]


@pytest.mark.parametrize("cause", [[located(SLOW)], []], ids=["culprit", "no culprit"])
@pytest.mark.parametrize(
    ("other", "bisections"),
    [
        (regressed(WEEKLY.series, ends=LATER, times=(TONIGHT, TONIGHT)), []),
        (regressed(replace(BERT, arch="NVIDIA A100"), ends=LATER, times=(LAST_WEEK, TONIGHT)), []),
        (regressed(ON_CPU, ends=LATER, times=(LAST_WEEK, TONIGHT)), []),
        (WEEKLY, [UNKNOWN]),
    ],
    ids=["old level after the culprit", "another model", "another device", "its own bisection"],
)
def test_what_may_have_another_cause_than_on_another_machine_has_its_own_issue(
    nightly: Nightly, other: Verdict, bisections: list[Bisection], cause: list[Bisection]
) -> None:
    nightly.report(2, judged(SLOW), *cause)
    nightly.report(8, judged(measured(NET, 1.1), other), *bisections)
    assert len(nightly.issues) == 2


def test_a_series_that_is_back_while_another_keeps_the_issue_open_is_told_once_with_its_range(
    nightly: Nightly,
) -> None:
    weekly = measured(BERT, 1.1)
    nightly.report(1, judged(SLOW, regressed(BERT)), located(SLOW, regressed(BERT)))
    nightly.report(6, judged(measured(NET), weekly))
    assert nightly.said == []
    back = regressed(NET, ends=LATER, times=(TONIGHT - 86_400, TONIGHT))
    for day in (8, 8, 9):
        nightly.report(day, judged(back, weekly))
    (said,) = nightly.said
    since = f"this time it began between {LATER[0]} and {LATER[1]}: **resnet18 10.0% slower on H100**"
    assert said == f"Seen again on the night of 2026-11-08, after a recovery; {since}"


def test_a_series_that_is_back_is_told_also_while_another_is_reported_every_night(nightly: Nightly) -> None:
    others = regressed(BERT)
    nightly.report(6, judged(SLOW, others), located(SLOW, others))
    nightly.report(7, judged(measured(NET), others), located(SLOW, others))
    assert nightly.said == []
    back = regressed(NET, ends=LATER, times=(TONIGHT - 86_400, TONIGHT))
    for day in (8, 8, 9):
        nightly.report(day, judged(back, others), located(SLOW, others))
    (said,) = nightly.said
    assert said.startswith(
        "Seen again on the night of 2026-11-08, after a recovery; this time it began between"
    )


def test_a_culprit_found_later_rewrites_the_issue(nightly: Nightly, github: GitHub) -> None:
    nightly.report(1, judged(SLOW))
    before = nightly.issues[0].title
    nightly.report(2, judged(SLOW), located(SLOW))
    (issue,) = nightly.issues
    assert issue.title != before
    assert "Simplify the scheduler" in issue.body
    (said,) = nightly.said
    assert "Simplify the scheduler" in said


def test_the_issue_of_a_set_of_commits_becomes_that_of_the_one_that_is_proven(nightly: Nightly) -> None:
    both = [SLOW, regressed(ON_CPU)]
    several = located_within(SLOW, commits=(CULPRIT, OTHER))
    nightly.report(1, judged(SLOW), several)
    (issue,) = nightly.issues
    assert OTHER[:10] in issue.title
    nightly.report(2, judged(*both), several, located(both[1]))
    assert CULPRIT[:10] in issue.title
    assert "Xeon" in issue.body
    assert "one of 2 commits" not in issue.body
    (said,) = nightly.said
    assert said.startswith("Commit found: ")
    nightly.report(3, judged(*both), several, located(both[1], commit=OTHER), located(both[1]))
    assert [one.title[-10:] for one in nightly.issues] == [CULPRIT[:10], OTHER[:10]]
    assert nightly.states == ["open", "open"]


def test_it_closes_with_the_evidence_and_opens_again(nightly: Nightly, github: GitHub) -> None:
    nightly.settings("recovered_nights: 2")
    nightly.report(1, judged(SLOW), located(SLOW))
    nightly.report(2, judged(measured(NET, 1.001)))
    assert nightly.states == ["open"]
    nightly.report(3, judged(measured(NET, 1.002)))
    assert nightly.states == ["completed"]
    assert "1.002" in [*github.comments.values()][-1].body
    again = regressed(NET, ends=LATER)
    nightly.report(9, judged(again), located(again, commit=OTHER, ends=LATER))
    assert nightly.states == ["reopened"]
    assert OTHER[:10] in nightly.said[-1]
    assert len(nightly.said) == 2
    (issue,) = nightly.issues
    assert issue.title.endswith(f"since {OTHER[:10]}")
    assert CULPRIT not in issue.body, "the culprit of a change that is over"
    assert OTHER in issue.body


def test_of_two_changes_of_a_series_the_one_that_closes_says_that_it_may_be_the_other(
    nightly: Nightly,
) -> None:
    """The level between them is left by either."""
    nightly.settings("recovered_nights: 1")
    nightly.report(1, judged(SLOW), located(SLOW))
    further = regressed(NET, 1.3, 1.1, ends=LATER)
    nightly.report(9, judged(further), located(further, commit=OTHER, ends=LATER))
    nightly.report(10, judged(measured(NET, 1.1)))
    assert nightly.states == ["open", "completed"]
    assert "(https://github.example/octo/perf/issues/1) is about the same numbers" in nightly.said[-1]
    nightly.report(11, judged(measured(NET)))
    assert "is about the same numbers" not in nightly.said[-1]


def test_what_opens_again_without_a_culprit_is_about_the_range_in_which_it_is_back(nightly: Nightly) -> None:
    nightly.settings("recovered_nights: 1")
    for day, night in enumerate(
        [judged(SLOW), judged(measured(NET)), judged(regressed(NET, 1.3, ends=LATER))], 1
    ):
        nightly.report(day, night)
        (issue,) = nightly.issues
        if day == 1:
            issue.body = f"Look!{issue.body}\nI did. -- Ada"
    assert nightly.states == ["reopened"]
    assert (issue.body[:5], issue.body[-13:]) == ("Look!", "I did. -- Ada")
    assert issue.title == f"resnet18 30.0% slower on H100 between {LATER[0][:10]} and {LATER[1][:10]}"
    assert "+30.0%" in issue.body
    assert "+10.0%" not in issue.body
    assert f"bisect it between {LATER[0]} and {LATER[1]}" in issue.body


def test_what_is_meant_is_closed_and_stays_closed(nightly: Nightly, github: GitHub) -> None:
    nightly.report(1, judged(SLOW), located(SLOW))
    nightly.issues[0].labels.append("torchperf: expected")
    for day in (2, 2, 3, 9):
        assert nightly.report(day, judged(SLOW), located(SLOW)) == 0
    assert nightly.states == ["not_planned"]
    (said,) = [comment.body for comment in github.comments.values()]
    assert "torchperf baseline update" in said


def test_who_accepts_and_closes_is_heard(nightly: Nightly, github: GitHub) -> None:
    nightly.report(1, judged(SLOW), located(SLOW))
    nightly.issues[0].labels.append("torchperf: expected")
    nightly.issues[0].state = "closed"
    nightly.report(2, judged(SLOW), located(SLOW))
    memory = parse_memory(nightly.issues[0].body)
    assert memory is not None
    assert memory.accepted


def test_what_somebody_closed_is_left_alone_and_said(nightly: Nightly, github: GitHub) -> None:
    nightly.report(1, judged(SLOW), located(SLOW))
    nightly.issues[0].state = "closed"
    nightly.report(2, judged(SLOW), located(SLOW))
    assert nightly.states == ["closed"]
    assert "was closed and stays closed" in nightly.summary
    nightly.report(3, judged(measured(NET, 1.1)))
    assert not [asked for asked in github.asked if asked.startswith("PATCH")]


def test_what_we_closed_ourselves_is_said_to_have_recovered(nightly: Nightly) -> None:
    nightly.settings("recovered_nights: 1")
    nightly.report(1, judged(SLOW), located(SLOW))
    nightly.report(2, judged(measured(NET)))
    nightly.report(3, judged(measured(NET)), located(SLOW))
    assert "was closed as recovered and stays closed" in nightly.summary


def test_no_more_than_so_many_are_opened_in_a_night(nightly: Nightly, github: GitHub) -> None:
    nightly.settings("max_per_night: 1")
    slow = [
        regressed(series(name), 1.1 + size / 100, ends=("1" * 40, str(size) * 40))
        for size, name in enumerate("abc", 2)
    ]
    for _ in range(2):
        assert nightly.report(1, judged(*slow)) == 0
    (first,) = nightly.issues
    assert first.title.startswith("c ")
    assert "### Issues: 1 opened, 2 postponed" in nightly.summary
    assert "postponed to another night: b" in nightly.summary
    assert "postponed to another night: a" in nightly.summary
    nightly.report(2, judged(*slow))
    nightly.report(3, judged(*slow))
    assert [issue.title[:2] for issue in nightly.issues] == ["c ", "b ", "a "]


@pytest.mark.parametrize("kind", ["digest", "nightly"])
@pytest.mark.parametrize("state", ["open", "closed"])
def test_an_issue_of_an_earlier_version_about_something_else_is_left_alone(
    nightly: Nightly, github: GitHub, kind: IssueKind, state: str
) -> None:
    row = IssueRow(NET, 1.0, 1.1, SLOW.effect, "2026-11-01")
    memory = IssueMemory(kind, ("0" * 16,), (row,), "2026-11-01", "2026-11-01")
    old = github.issue("An old one", memory_line(memory), US, ["torchperf", "torchperf: expected"])
    old.state = state
    assert nightly.report(1, judged(SLOW), located(SLOW)) == 0
    assert nightly.report(2, judged(measured(NET))) == 0
    assert (old.body, old.state) == (memory_line(memory), state)
    assert len(nightly.issues) == 2


@pytest.mark.parametrize(("login", "kept"), [("mallory", 2), ("other[bot]", 2), (US, 1)])
def test_a_memory_in_somebody_elses_issue_is_none(
    nightly: Nightly, github: GitHub, login: str, kept: int
) -> None:
    nightly.report(1, judged(SLOW), located(SLOW))
    nightly.issues[0].login = login
    nightly.report(2, judged(SLOW), located(SLOW))
    assert len(nightly.issues) == kept


@pytest.mark.parametrize("change", ["no label", "no memory", "a pull request"])
def test_what_is_no_issue_of_ours_is_not_touched(nightly: Nightly, github: GitHub, change: str) -> None:
    nightly.report(1, judged(SLOW), located(SLOW))
    (issue,) = nightly.issues
    memory = parse_memory(issue.body)
    assert memory is not None
    if change == "no label":
        issue.labels.clear()
    elif change == "no memory":
        issue.body = issue.body.replace(memory_line(memory), "")
    else:
        issue.is_pull = True
    before = issue.body
    nightly.report(2, judged(SLOW), located(SLOW))
    assert issue.body == before
    assert len(nightly.issues) == 2
    assert nightly.summary.count("1 has our label") == (change == "no memory")
    issue.login = "mallory"
    nightly.report(3, judged(SLOW))
    assert nightly.summary.count("1 has our label") == (change == "no memory")


def test_ours_is_found_on_a_later_page(nightly: Nightly, github: GitHub) -> None:
    nightly.report(1, judged(SLOW), located(SLOW))
    for number in range(120):
        github.issue(f"chatter {number}", "", "octocat", ["torchperf"])
    nightly.report(2, judged(SLOW), located(SLOW))
    assert len(nightly.issues) == 121


def test_a_person_has_issues_of_their_own(nightly: Nightly, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", PERSON)
    for day in (1, 2):
        assert nightly.report(day, judged(SLOW), located(SLOW)) == 0
    (issue,) = nightly.issues
    assert issue.login == "octocat"


def test_an_app_finds_its_issues_again(nightly: Nightly, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LOGINS, JOB, "perf-app[bot]")
    for day in (1, 2):
        assert nightly.report(day, judged(SLOW), located(SLOW)) == 0
    (issue,) = nightly.issues
    assert issue.login == "perf-app[bot]"


def test_an_app_of_which_nobody_knows_who_it_is_leaves_no_issue_open(
    nightly: Nightly, github: GitHub, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setitem(LOGINS, JOB, "perf-app[bot]")
    github.tells_viewer = False
    assert nightly.report(1, judged(SLOW), located(SLOW)) == 4
    assert nightly.states == ["not_planned"]
    assert "is of perf-app[bot], and may not ask who it is" in capsys.readouterr().err


@pytest.mark.parametrize(("mention", "told"), [("true", "@ada-l"), ("false", "")])
def test_the_author_is_notified_only_if_asked_for(
    nightly: Nightly, github: GitHub, mention: str, told: str
) -> None:
    github.commits[CULPRIT] = "ada-l"
    nightly.settings(f"mention_authors: {mention}")
    nightly.report(1, judged(SLOW), located(SLOW))
    body = nightly.issues[0].body
    assert told in body
    assert ("@" in body.replace("&#64;", "")) == bool(told)


@pytest.mark.parametrize("login", [None, "somebody"])
def test_an_author_that_github_does_not_know_is_named_only(
    nightly: Nightly, github: GitHub, login: str | None
) -> None:
    if login is None:
        github.commits[CULPRIT] = None
    nightly.settings("mention_authors: true")
    assert nightly.report(1, judged(SLOW), located(SLOW)) == 0
    assert "Ada" in nightly.issues[0].body
