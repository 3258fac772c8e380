from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from nights import judged, located, measured, regressed, series

from torchperf_ci.stats.effect import Effect

if TYPE_CHECKING:
    from desk import Desk

NET, BERT = series("resnet18"), series("bert")
ON_CPU = series("resnet18", "cpu")
LATER, LAST = ("3" * 40, "4" * 40), ("5" * 40, "6" * 40)


def test_what_is_expected_is_accepted(desk: Desk) -> None:
    desk.night(1, judged(regressed(NET)))
    desk.change(1, expected=True)
    assert desk.night(2, judged(regressed(NET, 1.12))) == ["accept 1"]
    (issue,) = desk.issues.values()
    assert (issue.is_open, issue.memory.accepted) == (False, True)
    assert [row.new for row in issue.memory.rows] == [1.12]


def test_a_change_to_nothing_is_accepted_without_its_levels(desk: Desk) -> None:
    gone = replace(regressed(NET), effect=Effect(0.0), old=None, new=None)
    desk.night(1, judged(gone))
    desk.change(1, expected=True)
    assert desk.night(2, judged(gone)) == ["accept 1"]


@pytest.mark.parametrize("level", [1.08, 1.1, 1.11])
def test_nothing_is_said_of_an_accepted_level(desk: Desk, level: float) -> None:
    accepted(desk)
    assert desk.night(3, judged(regressed(NET, level))) == []
    assert desk.night(4, judged(regressed(NET, level, ends=LATER))) == []
    slow = regressed(NET, level)
    assert desk.night(5, judged(slow), located(slow)) == []


@pytest.mark.parametrize(
    ("level", "noise", "found"), [(1.13, 0.005, []), (1.14, 0.005, ["open 2"]), (1.14, 0.05, [])]
)
def test_what_goes_beyond_is_told(desk: Desk, level: float, noise: float, found: list[str]) -> None:
    """By 3%, since half of the accepted change is more."""
    accepted(desk)
    assert desk.night(3, judged(regressed(NET, level, ends=LATER, noise=noise))) == found


@pytest.mark.parametrize(
    ("metric", "old", "new", "now", "found"),
    [
        ("graph_breaks", 0.0, 4.0, 5.0, ["open 2"]),
        ("graph_breaks", 0.0, 4.0, 4.0, []),
        ("memory_leak(KiB/iter)", 0.1, 500.0, 510.0, []),
        ("memory_leak(KiB/iter)", 0.1, 500.0, 520.0, ["open 2"]),
    ],
)
def test_what_goes_beyond_a_level_without_a_ratio_is_told(
    desk: Desk, metric: str, old: float, new: float, now: float, found: list[str]
) -> None:
    verdict = replace(regressed(series(metric=metric), 2.0), effect=None, noise=None, old=old, new=new)
    desk.night(1, judged(verdict))
    desk.change(1, expected=True)
    desk.night(2, judged(verdict))
    assert desk.night(3, judged(replace(verdict, new=now))) == found


@pytest.mark.parametrize(("old", "new", "found"), [(0.6, 0.9, ["open 2"]), (0.97, 1.06, [])])
def test_what_has_been_better_since_and_got_worse_is_told(
    desk: Desk, old: float, new: float, found: list[str]
) -> None:
    accepted(desk)
    desk.night(3, judged(measured(NET, old, "improved")))
    assert desk.night(9, judged(regressed(NET, new, old, ends=LATER))) == found


def test_another_series_of_the_range_is_told(desk: Desk) -> None:
    accepted(desk)
    assert desk.night(3, judged(regressed(NET), regressed(BERT, ends=LATER))) == ["open 2"]


def test_an_accepted_culprit_is_accepted_on_every_device(desk: Desk) -> None:
    desk.night(1, judged(regressed(NET)), located(regressed(NET)))
    desk.change(1, expected=True)
    desk.night(2, judged(regressed(NET)))
    both = [regressed(NET), regressed(ON_CPU)]
    assert desk.night(3, judged(*both), located(both[0]), located(both[1])) == []


def test_an_accepted_culprit_is_told_where_an_issue_is_open_with_all_that_it_explains_there(
    desk: Desk,
) -> None:
    desk.night(1, judged(regressed(NET), regressed(ON_CPU)), located(regressed(NET)))
    desk.change(1, expected=True)
    bert = regressed(replace(BERT, device="cpu", arch=ON_CPU.arch))
    here = judged(regressed(ON_CPU), bert)
    assert sorted(desk.night(2, here, located(regressed(ON_CPU), bert))) == ["accept 1", "locate 2"]
    assert {row.series for row in desk.issues[2].memory.rows} == {ON_CPU, bert.series}


def test_what_was_accepted_reopens_no_older_issue_about_it(desk: Desk) -> None:
    """Though another series has got worse beside it."""
    desk.night(1, judged(regressed(NET, 1.3)))
    for day in (2, 3, 4):
        desk.night(day, judged(measured(NET)))
    assert desk.night(5, judged(regressed(NET, 1.14, ends=LATER))) == ["open 2"]
    desk.change(2, expected=True)
    desk.night(6, judged(regressed(NET, 1.14, ends=LATER)))
    both = judged(regressed(NET, 1.15, ends=LAST), regressed(BERT, ends=LAST))
    assert desk.night(7, both) == ["open 3"]
    assert [row.series for row in desk.issues[3].memory.rows] == [BERT]


def test_what_somebody_closed_stays_closed_and_is_said(desk: Desk) -> None:
    desk.night(1, judged(regressed(NET)))
    desk.change(1, is_open=False)
    plan = desk.plan(2, judged(regressed(NET)))
    assert [issue.number for _, issue in plan.dismissed] == [1]
    assert desk.night(2, judged(regressed(NET, ends=LATER))) == []


def test_a_culprit_without_series_is_not_what_somebody_has_closed_an_issue_about(desk: Desk) -> None:
    """Files of other tools may name none."""
    desk.night(1, judged(regressed(NET)))
    desk.change(1, is_open=False)
    bisection = located(regressed(BERT), ends=LATER)
    unnamed = replace(bisection, culprits=tuple(replace(one, series=()) for one in bisection.culprits))
    assert desk.night(2, judged(measured(BERT)), unnamed) == ["open 2"]
    desk.change(2, is_open=False)
    assert desk.night(3, judged(measured(BERT)), unnamed) == []


@pytest.mark.parametrize("commit", ["", "1" * 40])
def test_what_has_no_range_is_not_all_that_will_ever_have_none(desk: Desk, commit: str) -> None:
    """Records of other harnesses may name no commit, or the one of benchmarks that seldom change."""
    unknown = (commit, commit)
    desk.night(1, judged(regressed(NET, ends=unknown)))
    desk.change(1, is_open=False)
    assert desk.night(2, judged(regressed(NET, ends=unknown))) == []
    assert desk.night(9, judged(regressed(NET, ends=unknown), regressed(BERT, ends=unknown))) == ["open 2"]
    assert [row.series for row in desk.issues[2].memory.rows] == [BERT]


def test_what_a_closed_issue_lacks_is_told_with_what_goes_beyond_it(desk: Desk) -> None:
    desk.night(1, judged(regressed(NET, 1.04)))
    desk.change(1, is_open=False)
    assert desk.night(2, judged(regressed(NET, 1.04), regressed(BERT))) == []
    assert desk.night(3, judged(regressed(NET), regressed(BERT))) == ["open 2"]
    assert {row.series for row in desk.issues[2].memory.rows} == {NET, BERT}


def test_what_somebody_closed_comes_back_after_it_was_over(desk: Desk) -> None:
    desk.night(1, judged(regressed(NET)))
    desk.change(1, is_open=False)
    for day in (2, 3, 4):
        assert desk.night(day, judged(measured(NET))) == []
    assert desk.night(5, judged(regressed(NET, ends=LATER))) == ["reopen 1"]


def test_what_somebody_closed_is_not_over_while_a_series_of_it_is_slow_and_not_measured(desk: Desk) -> None:
    """A machine that runs once a week still has it."""
    weekly = regressed(replace(NET, arch="A100"))
    desk.night(1, judged(regressed(NET), weekly))
    desk.change(1, is_open=False)
    for day in (2, 3, 4):
        desk.night(day, judged(measured(NET)))
    assert desk.night(8, judged(measured(NET), weekly)) == []


def test_who_opens_again_what_was_accepted_is_left_alone(desk: Desk) -> None:
    accepted(desk)
    desk.change(1, is_open=True)
    assert desk.night(3, judged(regressed(NET))) == []


def test_who_removes_the_label_and_opens_it_again_takes_it_back(desk: Desk) -> None:
    accepted(desk)
    desk.change(1, expected=False)
    assert desk.night(3, judged(regressed(NET, 1.1))) == []
    desk.change(1, is_open=True)
    assert desk.night(4, judged(regressed(NET), regressed(BERT))) == ["extend 1"]
    desk.night(5, judged(measured(NET), measured(BERT)))
    desk.night(6, judged(measured(NET), measured(BERT)))
    assert desk.night(7, judged(measured(NET), measured(BERT))) == ["recover 1"]


def accepted(desk: Desk) -> None:
    desk.night(1, judged(regressed(NET)))
    desk.change(1, expected=True)
    assert desk.night(2, judged(regressed(NET))) == ["accept 1"]
