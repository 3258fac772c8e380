from __future__ import annotations

from dataclasses import replace

import pytest
from desk import Desk
from nights import OTHER, judged, located, located_within, measured, regressed, series

from torchperf_ci.issues.body import IssueContext
from torchperf_ci.issues.publishing import text_of_action
from torchperf_ci.verdicts.verdict import evidence_of

NET, BERT = series("resnet18"), series("bert")
LATER = ("3" * 40, "4" * 40)


@pytest.fixture
def desk() -> Desk:
    """An issue that is closed, because all was back."""
    desk = Desk(recovered_nights=1)
    desk.night(1, judged(regressed(NET)), located(regressed(NET)))
    assert desk.night(2, judged(measured(NET))) == ["recover 1"]
    return desk


@pytest.mark.parametrize(("level", "found"), [(1.1, "reopen 1"), (1.06, "reopen 1"), (1.04, "open 2")])
def test_half_of_the_way_back_is_the_same_again(desk: Desk, level: float, found: str) -> None:
    assert desk.night(9, judged(regressed(NET, level, ends=LATER))) == [found]


def test_a_night_that_is_repeated_with_another_result_reopens_what_it_has_closed(desk: Desk) -> None:
    assert desk.night(2, judged(regressed(NET))) == ["reopen 1"]
    assert desk.night(2, judged(measured(NET))) == ["recover 1"]


def test_what_was_closed_as_recovered_stays_so_where_more_nights_are_asked_for_later(desk: Desk) -> None:
    desk.recovered_nights = 3
    assert desk.night(9, judged(regressed(NET))) == ["reopen 1"]
    desk.change(1, is_open=False)
    assert desk.night(10, judged(regressed(NET))) == [], "somebody has closed it"


@pytest.mark.parametrize("who", ["we", "somebody"])
def test_who_reopens_what_is_over_is_left_alone_until_it_has_been_slow_again(desk: Desk, who: str) -> None:
    """Whoever had closed it."""
    if who == "somebody":
        desk = Desk(recovered_nights=1)
        desk.night(1, judged(regressed(NET)))
        desk.change(1, is_open=False)
        assert desk.night(2, judged(measured(NET))) == []
    desk.change(1, is_open=True)
    for day in (3, 4):
        assert desk.night(day, judged(measured(NET))) == []
    desk.night(5, judged(regressed(NET)))
    assert desk.night(6, judged(measured(NET))) == ["recover 1"]


@pytest.mark.parametrize(
    ("levels", "done"), [((1.0, 1.1, 1.1), ["reopen 1"]), ((1.1, 1.0, 1.1), []), ((1.0, 1.03, 1.03), [])]
)
def test_what_history_does_not_prove_again_reopens_once_it_stays(
    levels: tuple[float, ...], done: list[str]
) -> None:
    """A level that has come and gone before is no proof, but this one had an issue."""
    desk = Desk(recovered_nights=2)
    desk.night(1, judged(regressed(NET)))
    desk.night(2, judged(measured(NET)))
    assert desk.night(3, judged(measured(NET))) == ["recover 1"]
    points = [{"value": level} for level in levels]
    again = replace(
        measured(NET, levels[-1], "noisy"), candidate=True, evidence=evidence_of({"points": points})
    )
    assert desk.night(9, judged(again)) == done
    assert desk.night(10, judged(measured(NET, levels[-1]))) == []
    assert [issue.is_open for issue in desk.issues.values()] == [done != []]


def test_what_was_accepted_in_another_issue_is_no_return_of_an_old_one(desk: Desk) -> None:
    desk.change(1, memory=replace(desk.issues[1].memory, fingerprints=("0" * 16,)))
    accepted = replace(desk.issues[1].memory, accepted=True, recovered=(), fingerprints=("1" * 16,))
    desk.issues[2] = replace(desk.issues[1], number=2, memory=accepted)
    points = evidence_of({"points": [{"value": 1.1}]})
    again = replace(measured(NET, 1.1, "noisy"), candidate=True, evidence=points)
    assert desk.night(9, judged(again)) == []
    del desk.issues[2]
    assert desk.night(9, judged(again)) == ["reopen 1"]


def test_what_returns_reopens_only_the_newest_issue_about_it() -> None:
    desk = Desk(recovered_nights=1)
    for day, level in ((1, 1.3), (3, 1.1)):
        assert desk.night(day, judged(regressed(NET, level))) == [f"open {day // 2 + 1}"]
        desk.night(day + 1, judged(measured(NET)))
    points = evidence_of({"points": [{"value": 1.3}]})
    again = replace(measured(NET, 1.3, "noisy"), candidate=True, evidence=points)
    assert desk.night(9, judged(again)) == ["reopen 2"]


def test_what_another_issue_explains_tonight_is_no_return_of_an_old_one(desk: Desk) -> None:
    slow, net = regressed(BERT, ends=LATER), regressed(NET, ends=LATER)
    assert desk.night(9, judged(slow), located(slow, commit=OTHER, ends=LATER)) == ["open 2"]
    again = replace(net, verdict="noisy", candidate=True, evidence=evidence_of({"points": [{"value": 1.1}]}))
    both = located(slow, net, commit=OTHER, ends=LATER)
    assert desk.night(10, judged(slow, again), both) == ["extend 2"]


def test_a_candidate_whose_culprit_is_proven_reopens_the_issue(desk: Desk) -> None:
    slow = replace(regressed(NET, ends=LATER), verdict="noisy", candidate=True)
    assert desk.night(9, judged(slow), located(slow, commit=OTHER, ends=LATER)) == ["reopen 1"]


def test_the_newest_run_tells_where_it_is(desk: Desk) -> None:
    """The level of a verdict may be a mean with nights on which it was mended."""
    slow = regressed(NET, 1.02, ends=LATER)
    points = [{"value": level} for level in (1.0, 1.0, 1.1)]
    slow = replace(slow, evidence=evidence_of({**slow.evidence.members, "points": points}))
    (action,) = desk.plan(9, judged(slow)).actions
    assert action.what == "reopen"
    said = text_of_action(action, IssueContext("2026-11-09", "", "https://github.example", None)).comment
    assert f"This time it began between {LATER[0]} and {LATER[1]}." in said
    assert said.rstrip().endswith("| 1.1\N{NO-BREAK SPACE}ms |")


def test_the_range_is_that_of_what_is_back() -> None:
    desk = Desk(recovered_nights=1)
    desk.night(1, judged(regressed(NET), regressed(BERT, 1.5)))
    desk.night(2, judged(measured(NET), measured(BERT)))
    slightly = replace(regressed(BERT, 1.04), verdict="noisy", candidate=True)
    (action,) = desk.plan(9, judged(slightly, regressed(NET, ends=LATER))).actions
    said = text_of_action(action, IssueContext("2026-11-09", "", "https://github.example", None)).comment
    assert f"This time it began between {LATER[0]} and {LATER[1]}." in said


def test_levels_that_tonight_does_not_tell_are_still_known(desk: Desk) -> None:
    slow = replace(regressed(NET, ends=LATER), old=None, new=None)
    (action,) = desk.plan(9, judged(slow)).actions
    assert [(row.old, row.new) for row in action.memory.rows] == [(1.0, 1.1)]


def test_a_new_culprit_of_the_same_series_reopens_the_issue(desk: Desk) -> None:
    slow = regressed(NET, ends=LATER)
    plan = desk.plan(9, judged(slow), located(slow, commit=OTHER, ends=LATER))
    (action,) = plan.actions
    culprit = action.findings[0].culprit
    assert culprit
    assert (action.what, culprit.commit) == ("reopen", OTHER)
    desk.do(action)
    assert len(desk.issues[1].memory.fingerprints) == 2
    assert desk.issues[1].memory.recovered == ()


@pytest.mark.parametrize("first", ["b", "c"])
def test_a_new_set_of_commits_reopens_the_issue_which_becomes_that_of_the_proven_one(first: str) -> None:
    desk, slow, later = Desk(recovered_nights=1), regressed(NET), (first * 40, OTHER)
    desk.night(1, judged(slow), located_within(slow, commits=("a" * 40, "b" * 40)))
    assert desk.night(2, judged(measured(NET))) == ["recover 1"]
    again = regressed(NET, ends=LATER)
    assert desk.night(9, judged(again), located_within(again, commits=later, ends=LATER)) == ["reopen 1"]
    assert desk.night(10, judged(again), located(again, commit=OTHER, ends=LATER)) == ["locate 1"]


def test_a_culprit_that_is_found_a_night_after_it_is_back_becomes_that_of_the_issue(desk: Desk) -> None:
    again = regressed(NET, ends=LATER)
    assert desk.night(9, judged(again)) == ["reopen 1"]
    assert desk.night(10, judged(again), located(again, commit=OTHER, ends=LATER)) == ["locate 1"]
    assert desk.night(11, judged(again), located(again, commit=OTHER, ends=LATER)) == []


def test_an_old_bisection_alone_reopens_nothing(desk: Desk) -> None:
    assert desk.night(3, judged(measured(NET)), located(regressed(NET))) == []


def test_a_series_without_an_issue_is_none(desk: Desk) -> None:
    assert desk.night(9, judged(regressed(BERT, ends=LATER))) == ["open 2"]
