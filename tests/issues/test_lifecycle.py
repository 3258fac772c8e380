from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING

import pytest
from desk import Desk
from nights import OTHER, judged, located, located_within, measured, regressed, series

from torchperf_ci.issues.tracker import TrackedIssue

if TYPE_CHECKING:
    from torchperf_ci.culprits.culprit import Bisection

NET, BERT = series("resnet18"), series("bert")
ON_CPU = series("resnet18", "cpu")
LATER = ("3" * 40, "4" * 40)
A, B, C = "a" * 40, "b" * 40, "c" * 40


def test_a_culprit_has_one_issue_for_all_its_series(desk: Desk) -> None:
    slow = [regressed(NET), regressed(BERT)]
    assert desk.night(1, judged(*slow), located(*slow)) == ["open 1"]
    (issue,) = desk.open
    assert issue.memory.kind == "culprit"
    assert {row.series for row in issue.memory.rows} == {NET, BERT}


def test_history_that_still_calls_it_regressed_opens_no_second_issue(desk: Desk) -> None:
    desk.night(1, judged(regressed(NET)), located(regressed(NET)))
    assert desk.night(2, judged(regressed(NET))) == []
    assert desk.night(3, judged(regressed(NET, ends=LATER))) == []


def test_another_device_is_evidence_for_the_same_culprit(desk: Desk) -> None:
    desk.night(1, judged(regressed(NET)), located(regressed(NET)))
    both = [regressed(NET), regressed(ON_CPU)]
    assert desk.night(2, judged(*both), located(both[0]), located(both[1])) == ["extend 1"]
    assert desk.night(3, judged(*both), located(both[0]), located(both[1])) == []


def test_another_model_in_the_same_range_is_evidence_too(desk: Desk) -> None:
    desk.night(1, judged(regressed(NET)))
    assert desk.night(2, judged(regressed(NET), regressed(BERT))) == ["extend 1"]


def test_another_machine_that_shows_it_on_a_later_night_adds_to_the_issue(desk: Desk) -> None:
    """Hosted runners have several CPU models, each of which proves a regression on a night of its own."""
    later = [regressed(replace(one, arch="A100"), ends=LATER) for one in (NET, BERT)]
    assert desk.night(1, judged(regressed(NET))) == ["open 1"]
    assert desk.night(8, judged(*later)) == ["extend 1"]


def test_what_was_not_located_becomes_the_issue_of_its_culprit(desk: Desk) -> None:
    assert desk.night(1, judged(regressed(NET))) == ["open 1"]
    assert desk.night(2, judged(regressed(NET)), located(regressed(NET))) == ["locate 1"]
    (issue,) = desk.open
    assert issue.memory.kind == "culprit"
    assert len(issue.memory.fingerprints) == 2
    assert desk.night(3, judged(regressed(NET))) == []
    assert desk.issues[1].memory.kind == "culprit"


@pytest.mark.parametrize("arch", [NET.arch, "A100"])
def test_what_a_culprit_does_not_explain_leaves_its_issue(desk: Desk, arch: str) -> None:
    rest = replace(BERT, arch=arch)
    slow = judged(regressed(NET), regressed(rest, 1.5))
    assert desk.night(1, slow) == ["open 1"]
    assert desk.night(2, slow, located(regressed(NET))) == ["open 2", "locate 1"]
    assert [[row.series for row in issue.memory.rows] for issue in desk.open] == [[NET], [rest]]
    assert desk.night(3, slow) == desk.night(4, slow, located(regressed(NET))) == []
    assert desk.night(5, slow, located(regressed(NET), regressed(rest, 1.5))) == [
        "duplicate 2",
        "extend 1",
    ]


@pytest.mark.parametrize("before", [[], [()]], ids=["at once", "a night later"])
def test_a_culprit_does_not_get_what_shows_later_in_its_range_without_proof(
    desk: Desk, before: list[tuple[()]]
) -> None:
    net, both = judged(regressed(NET)), judged(regressed(NET), regressed(BERT))
    for day, locations in enumerate([*before, (located(regressed(NET)),)], 1):
        desk.night(day, net, *locations)
    for day, tonight in ((3, both), (4, judged(regressed(BERT))), (5, both)):
        assert desk.night(day, tonight) == ["open 2"] * (day == 3)
    assert [[row.series for row in issue.memory.rows] for issue in desk.open] == [[NET], [BERT]]
    desk.change(2, is_open=False)
    assert desk.night(6, both) == desk.night(7, both, located(regressed(NET))) == []
    assert [row.series for row in desk.issues[1].memory.rows] == [NET]


@pytest.mark.parametrize("again", [True, False])
def test_a_culprit_does_not_get_what_is_over_without_proof(desk: Desk, again: bool) -> None:
    slow, other = regressed(NET), regressed(BERT)
    desk.night(1, judged(slow, other))
    desk.night(2, judged(slow, measured(BERT)))
    assert desk.night(3, judged(slow, *[measured(BERT)] * again), located(slow)) == ["locate 1"]
    assert [row.series for row in desk.issues[1].memory.rows] == [NET]
    assert desk.night(4, judged(slow, other)) == ["open 2"]


def test_one_culprit_for_two_issues_leaves_one(desk: Desk) -> None:
    """Regressions are not located by device; the culprit is the same on both."""
    both = [regressed(NET), regressed(ON_CPU)]
    assert desk.night(1, judged(*both)) == ["open 1", "open 2"]
    found = desk.night(2, judged(*both), located(both[0]), located(both[1]))
    assert sorted(found) == ["duplicate 2", "locate 1"]


def test_a_set_of_commits_has_one_issue_which_becomes_that_of_the_one_that_is_proven(desk: Desk) -> None:
    slow = judged(regressed(NET))
    within = partial(located_within, regressed(NET))
    assert desk.night(1, slow, within(commits=(A, B, C))) == ["open 1"]
    assert desk.night(2, slow, within(commits=(A, B))) == []
    assert desk.night(3, slow, within(commits=(B,))) == ["locate 1"]
    assert desk.night(4, slow, within(commits=(A, B)), within(commits=(B,))) == []
    assert desk.night(5, slow, within(commits=(A, B, C))) == []


def test_another_machine_has_the_issue_of_a_set_too_and_each_proven_commit_its_own(desk: Desk) -> None:
    slow = judged(here := regressed(NET), there := regressed(ON_CPU))
    assert desk.night(1, slow, located_within(here, commits=(A, B))) == ["open 1", "open 2"]
    sets = [located_within(here, commits=(A, B)), located_within(there, commits=(B, C))]
    assert desk.night(2, slow, *sets) == ["duplicate 2", "extend 1"]
    proven = [located(here, commit=A), sets[1]]
    assert desk.night(3, slow, *proven) == ["open 2", "locate 1"], "the other set is without A"
    assert desk.night(4, slow, located(here, commit=A), located(there, commit=B)) == ["locate 2"]


@pytest.mark.parametrize(("first", "then"), [(A, ["locate 2"]), (B, ["open 3", "duplicate 2", "extend 1"])])
def test_of_two_commits_of_a_set_the_first_takes_its_issue(desk: Desk, first: str, then: list[str]) -> None:
    both = [regressed(NET), regressed(BERT)]
    desk.night(1, judged(*both), located_within(*both, commits=(A, B)))
    assert desk.night(2, judged(*both), located(both[0], commit=first)) == ["open 2", "locate 1"]
    proven = [located(both[0], commit=A), located(both[1], commit=B)]
    assert desk.night(3, judged(*both), *proven) == then
    desk.night(4, judged(*both), *proven, located_within(*both, commits=(A, B)))
    assert len(desk.open) == 2


def test_two_commits_of_a_set_that_are_proven_in_one_night_share_what_it_explained(desk: Desk) -> None:
    both = [regressed(NET, 1.3), regressed(BERT)]
    desk.night(1, judged(*both), located_within(*both, commits=(A, B)))
    proven = [located(both[0], commit=A), located(both[1], commit=B)]
    assert desk.night(2, judged(*both), *proven) == ["open 2", "locate 1"]
    assert [[row.series for row in issue.memory.rows] for issue in desk.open] == [[NET], [BERT]]


def test_an_issue_waits_a_night_to_be_the_duplicate_of_one_that_is_just_opened(desk: Desk) -> None:
    net, bert = (regressed(replace(one, arch="A100"), 1.3) for one in (NET, BERT))
    desk.night(1, judged(regressed(NET), bert), located_within(bert, commits=(A, B)))
    every = judged(regressed(NET), bert, net)
    proven = [located(bert, commit=A), located(net, commit=B)]
    assert desk.night(2, every, *proven) == ["open 3", "locate 1"]
    assert desk.night(3, every, *proven) == ["duplicate 2"]


def test_what_is_proven_on_several_nights_is_a_duplicate_once_all_of_it_is(desk: Desk) -> None:
    """Bisections of a range do not all end in one night."""
    net, bert = regressed(NET), regressed(BERT)
    vit = regressed(series("vit"))
    desk.night(1, judged(vit), located(vit))
    assert desk.night(2, judged(vit, net, bert)) == ["open 2"]
    assert desk.night(3, judged(vit, net, bert), located(vit, net)) == ["extend 1"]
    assert desk.night(4, judged(bert), located(bert)) == ["duplicate 2", "extend 1"]


def test_a_further_step_is_no_duplicate_of_the_first(desk: Desk) -> None:
    further = regressed(NET, 1.3, 1.1, ends=LATER)
    desk.night(1, judged(regressed(NET)), located(regressed(NET)))
    assert desk.night(2, judged(further)) == ["open 2"]
    assert desk.night(3, judged(measured(NET, 1.3), regressed(BERT)), located(regressed(BERT))) == [
        "extend 1"
    ]
    assert len(desk.open) == 2


def test_the_issue_of_a_set_from_an_earlier_version_goes_on(desk: Desk) -> None:
    """It knew a set by its last commit."""
    slow = judged(regressed(NET))
    desk.night(1, slow, located(regressed(NET), commit=C))
    assert desk.night(2, slow, located_within(regressed(NET), commits=(A, B, C))) == []
    assert desk.night(3, slow, located(regressed(NET), commit=C)) == []


def test_a_closed_issue_of_a_set_is_not_that_of_a_commit_of_it(desk: Desk) -> None:
    slow = regressed(NET)
    desk.night(1, judged(slow), located_within(slow, commits=(A, B)))
    for day in (2, 3, 4):
        desk.night(day, judged(measured(NET)))
    other = regressed(BERT)
    assert desk.night(5, judged(other), located(other, commit=B)) == ["open 2"]
    assert desk.night(6, judged(other), located(other, commit=A)) == ["open 3"]


def test_a_set_of_thousands_of_commits_leaves_room_for_rows(desk: Desk) -> None:
    commits = tuple(f"{number:040x}" for number in range(5000))
    slow = regressed(NET)
    assert desk.night(1, judged(slow), located_within(slow, commits=commits)) == ["open 1"]
    assert desk.issues[1].memory.rows
    assert desk.night(2, judged(slow), located_within(slow, commits=commits)) == []


def test_two_culprits_of_one_series_are_two_issues(desk: Desk) -> None:
    slow = regressed(NET, 1.3)
    both = [located(slow), located(slow, commit=OTHER)]
    assert desk.night(1, judged(slow), *both) == ["open 1", "open 2"]
    assert desk.night(2, judged(slow), *both) == []


@pytest.mark.parametrize("again", [False, True], ids=["first", "after a recovery"])
def test_two_culprits_of_what_had_one_issue_are_two_issues(desk: Desk, again: bool) -> None:
    both = [regressed(NET, 1.3), regressed(BERT)]
    desk.night(1, judged(*both))
    if again:
        for day in (2, 3, 4):
            desk.night(day, judged(measured(NET), measured(BERT)))
    culprits = [located(both[0]), located(both[1], commit=OTHER)]
    assert desk.night(5, judged(*both), *culprits) == ["open 2", "reopen 1" if again else "locate 1"]
    assert [row.series for row in desk.issues[2].memory.rows] == [BERT]
    assert desk.night(6, judged(*both), *culprits) == []


def test_what_another_culprit_explains_leaves_the_issue(desk: Desk) -> None:
    both = [regressed(NET, 1.3), regressed(BERT)]
    desk.night(1, judged(*both))
    desk.night(2, judged(*both), located(both[0]), located(both[1], commit=OTHER))
    assert [row.series for row in desk.issues[1].memory.rows] == [NET]


def test_what_gets_worse_again_later_is_another_issue(desk: Desk) -> None:
    desk.night(1, judged(regressed(NET, 1.1)))
    slower = regressed(NET, 1.3, 1.1, ends=LATER)
    assert desk.night(9, judged(slower)) == ["open 2"]
    culprit = located(slower, ends=LATER)
    assert desk.night(10, judged(slower), culprit) == ["locate 2"]
    assert desk.night(11, judged(slower), culprit) == []
    nights = [desk.night(day, judged(measured(NET, 1.1))) for day in (12, 13, 14)]
    assert nights == [[], [], ["recover 2"]]
    assert [issue.number for issue in desk.open] == [1]


def test_a_culprit_of_what_got_worse_again_leaves_the_first_issue(desk: Desk) -> None:
    desk.night(1, judged(regressed(NET, 1.1)))
    slower = regressed(NET, 1.3, 1.1, ends=LATER)
    assert desk.night(9, judged(slower), located(slower, ends=LATER)) == ["open 2"]
    assert desk.night(10, judged(slower), located(slower, ends=LATER)) == []


def test_a_culprit_of_what_got_worse_again_is_not_that_of_the_first_issue_once_history_is_used_to_it(
    desk: Desk,
) -> None:
    desk.night(1, judged(regressed(NET, 1.1)))
    slower = [regressed(NET, 1.3, 1.1, ends=LATER), regressed(BERT, ends=LATER)]
    culprit = located(*slower, ends=LATER)
    assert desk.night(9, judged(*slower), culprit) == ["open 2"]
    assert desk.night(10, judged(measured(NET, 1.3), slower[1]), culprit) == []


def test_what_was_as_fast_as_before_after_the_culprit_was_found_is_another_issue(desk: Desk) -> None:
    seconds = [datetime(2026, 11, day, 4, tzinfo=timezone.utc).timestamp() for day in (1, 2)]
    desk.night(1, judged(regressed(NET)), located(regressed(NET)))
    both = [regressed(one, 1.3, ends=LATER, times=(seconds[0], seconds[1])) for one in (NET, BERT)]
    assert desk.night(2, judged(*both)) == ["open 2"]
    assert [row.series for row in desk.issues[1].memory.rows] == [NET]
    assert desk.night(3, judged(*both)) == []


def test_another_range_of_other_series_is_another_issue(desk: Desk) -> None:
    desk.night(1, judged(regressed(NET)))
    assert desk.night(2, judged(regressed(NET), regressed(BERT, ends=LATER))) == ["open 2"]


def test_what_a_memory_has_no_room_for_is_no_news_every_night(desk: Desk) -> None:
    slow = [
        regressed(series(f"a model with a long name, number {number}"), 1.1 + number / 1e4)
        for number in range(300)
    ]
    assert desk.night(1, judged(*slow), located(*slow)) == ["open 1"]
    assert len(desk.issues[1].memory.rows) < len(slow)
    assert desk.night(2, judged(*slow), located(*slow)) == desk.night(3, judged(*slow)) == []
    assert desk.night(4, judged(*slow, regressed(NET, 1.5))) == ["open 2"], "not among what it has forgotten"
    assert [row.series for row in desk.issues[2].memory.rows] == [NET]


@pytest.mark.parametrize("bisections", [[], [located(regressed(NET))]], ids=["no culprit", "culprit"])
def test_of_two_issues_about_the_same_the_older_one_goes_on(desk: Desk, bisections: list[Bisection]) -> None:
    """GitHub's list missed the first, which was opened moments ago."""
    desk.night(1, judged(regressed(NET)), *bisections)
    desk.issues[2] = replace(desk.issues[1], number=2)
    assert desk.night(2, judged(regressed(NET))) == ["duplicate 2"]
    assert desk.night(3, judged(regressed(NET)), *bisections) == []


def test_closed_issues_are_not_compared_with_each_other(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """After years there are thousands, whose plan took minutes."""
    assert desk.night(1, judged(regressed(NET), regressed(BERT, ends=LATER))) == ["open 1", "open 2"]
    for day in (2, 3, 4):
        desk.night(day, judged(measured(NET), measured(BERT)))
    assert desk.open == []
    monkeypatch.setattr(TrackedIssue, "__eq__", lambda *_: pytest.fail("compared"))
    (action,) = desk.plan(9, judged(regressed(series("vit"), ends=(A, B)))).actions
    assert action.what == "open"


def test_what_has_no_room_is_postponed_to_the_next_night() -> None:
    desk = Desk(max_per_night=2)
    slow = [
        regressed(series(f"model {number}"), level, ends=("1" * 40, f"{number}" * 40))
        for number, level in enumerate((1.05, 1.4, 1.2, 1.1), 2)
    ]
    plan = desk.plan(1, judged(*slow))
    assert [row.series.model for one in plan.postponed for row in one.rows] == ["model 5", "model 2"]
    assert desk.night(1, judged(*slow)) == ["open 1", "open 2"]
    assert desk.night(2, judged(*slow)) == ["open 3", "open 4"]
    assert not desk.plan(3, judged(*slow)).postponed


def test_what_is_postponed_is_not_added_to_another_issue_of_that_night_when_it_is_repeated() -> None:
    desk = Desk(max_per_night=1)
    elsewhere = regressed(replace(NET, arch="A100"), ends=LATER)
    assert desk.night(1, judged(regressed(NET, 1.3), elsewhere)) == ["open 1"]
    assert desk.night(2, judged(regressed(NET, 1.3), elsewhere)) == ["extend 1"]


def test_a_count_has_room_before_all_others_since_it_is_told_once() -> None:
    desk = Desk(max_per_night=1)
    slow = regressed(NET, 1.4, ends=("1" * 40, "2" * 40))
    breaks = replace(
        regressed(series(metric="graph_breaks"), 4.0, 3.0, ends=("1" * 40, "3" * 40)), effect=None, noise=None
    )
    assert desk.night(1, judged(slow, breaks)) == ["open 1"]
    assert [row.series.metric for row in desk.issues[1].memory.rows] == ["graph_breaks"]
    as_before = replace(breaks, verdict="unchanged", old=4.0)
    assert desk.night(2, judged(slow, as_before)) == ["open 2"]
    assert len(desk.open) == 2


def test_of_more_series_than_an_issue_remembers_only_those_that_began_later_are_news(desk: Desk) -> None:
    """Which of them are the largest differs from night to night."""
    names = [f"vision/model-with-a-long-name/{number}" for number in range(300)]
    old, late = (datetime(2026, 11, day, tzinfo=timezone.utc).timestamp() for day in (1, 5))
    for day in (3, 4):
        sizes = [1.1 + 0.0001 * abs(number - 300 * (day == 4)) for number in range(300)]
        slow = [
            regressed(series(name), size, times=(old, old)) for name, size in zip(names, sizes, strict=True)
        ]
        assert desk.night(day, judged(*slow)) == ["open 1"] * (day == 3)
    assert desk.night(6, judged(*slow, regressed(NET, 1.5, times=(late, late)))) == ["extend 1"]


def test_a_series_stays_in_the_issue_of_a_set_until_one_of_its_commits_is_proven(desk: Desk) -> None:
    both = [regressed(NET), regressed(BERT)]
    desk.night(1, judged(*both), located_within(*both, commits=(A, B)))
    assert desk.night(2, judged(*both), located_within(both[0], commits=(B, C))) == []
