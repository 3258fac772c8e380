from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest
from desk import Desk
from nights import OTHER, judged, located, measured, regressed, series

from torchperf_ci.metrics import ANCHORED

if TYPE_CHECKING:
    from torchperf_ci.verdicts.verdict import Judgement, Verdict, VerdictWord

NET, BERT = series("resnet18"), series("bert")


def on(machine: str, verdict: Verdict) -> Verdict:
    """The verdict of a machine with that digest."""
    return replace(verdict, evidence=replace(verdict.evidence, machine=machine))


def test_it_takes_as_many_nights_in_a_row_as_are_asked_for(desk: Desk) -> None:
    desk.night(1, judged(regressed(NET)))
    assert [desk.night(day, judged(measured(NET))) for day in (2, 3, 4)] == [[], [], ["recover 1"]]
    assert desk.open == []
    assert desk.night(5, judged(measured(NET))) == []


def test_a_night_that_is_not_back_begins_anew(desk: Desk) -> None:
    desk.night(1, judged(regressed(NET)))
    levels = [1.0, 1.0, 1.1, 1.0, 1.0, 1.0]
    found = [desk.night(day, judged(measured(NET, level))) for day, level in enumerate(levels, 2)]
    assert found == [[], [], [], [], [], ["recover 1"]]


def test_the_same_night_counts_once(desk: Desk) -> None:
    desk.night(1, judged(regressed(NET)))
    for _ in range(5):
        assert desk.night(2, judged(measured(NET))) == []
    assert desk.issues[1].memory.recovered == ("2026-11-02",)


def test_an_older_night_changes_nothing(desk: Desk) -> None:
    desk.night(5, judged(regressed(NET)))
    desk.night(6, judged(measured(NET)))
    before = desk.issues[1]
    assert desk.night(4, judged(measured(NET, 1.1))) == []
    assert desk.issues[1] == before


def test_nights_without_a_measurement_neither_count_nor_begin_anew(desk: Desk) -> None:
    desk.night(1, judged(regressed(NET)))
    nothing, missing = judged(), judged(measured(NET, None, "missing"))
    nights = [judged(measured(NET)), nothing, missing, judged(measured(NET)), judged(measured(NET))]
    assert [desk.night(day, night) for day, night in enumerate(nights, 2)] == [
        [],
        [],
        [],
        [],
        ["recover 1"],
    ]


def test_nights_on_another_machine_neither_count_nor_begin_anew(desk: Desk) -> None:
    """A new driver may make everything faster than it ever was, regression and all."""

    before, after = "0" * 10, "1" * 10
    desk.night(1, judged(on(before, regressed(NET))))
    assert desk.night(2, judged(on(before, measured(NET)))) == []
    for day in (3, 4, 5, 6):
        assert desk.night(day, judged(on(after, measured(NET, 0.8, "noisy")))) == []
    nights = [desk.night(day, judged(on(machine, measured(NET)))) for day, machine in ((7, before), (8, ""))]
    assert nights == [[], ["recover 1"]]


def test_all_rows_must_have_been_back_when_they_were_last_measured(desk: Desk) -> None:
    desk.night(1, judged(regressed(NET), regressed(BERT)))
    for day in (2, 3, 4, 5):
        assert desk.night(day, judged(measured(NET))) == []
    assert desk.night(6, judged(measured(NET), measured(BERT))) == ["recover 1"]


def test_a_throughput_that_was_judged_once_keeps_no_issue_open(desk: Desk) -> None:
    """Earlier versions judged it beside the latency of its case; there is no verdict on it any more."""
    throughput = series("resnet18", metric="throughput(samples/s)")
    desk.night(1, judged(regressed(NET), regressed(throughput, 0.9)))
    assert [desk.night(day, judged(measured(NET))) for day in (2, 3, 4)] == [[], [], ["recover 1"]]


@pytest.mark.parametrize(("word", "is_open"), [("improved", False), ("unchanged", True), ("regressed", True)])
def test_a_throughput_that_gives_way_to_the_latency_of_its_case_follows_that(
    desk: Desk, word: VerdictWord, is_open: bool
) -> None:
    """Of that no level before the regression is known, so only an improvement shows that it is over."""
    throughput = series("resnet18", metric="throughput(samples/s)")
    desk.night(1, judged(regressed(throughput, 0.9)))
    desk.night(2, judged(regressed(throughput, 0.9), measured(NET, 1.1, "new")))
    for day in (3, 4, 5):
        desk.night(day, judged(measured(NET, word=word)))
    assert desk.issues[1].is_open == is_open


@pytest.mark.parametrize(
    ("level", "noise", "back"),
    [
        (1.0, 0.005, True),
        (0.8, 0.005, True),
        (1.024, 0.005, True),
        (1.03, 0.005, False),
        (1.04, 0.02, True),
        (1.06, 0.2, False),
    ],
    ids=["old level", "better", "a quarter", "more than a quarter", "within noise", "more than half"],
)
def test_back_is_near_the_old_level(level: float, noise: float, back: bool) -> None:
    desk = Desk(recovered_nights=1)
    desk.night(1, judged(regressed(NET)))
    assert desk.night(2, judged(measured(NET, level, noise=noise))) == (["recover 1"] if back else [])


def test_another_machine_says_nothing_of_the_change_and_is_told_once() -> None:
    desk = Desk(recovered_nights=1)
    desk.night(1, judged(regressed(NET), regressed(BERT)))
    moved = measured(NET, 1.0, "not-comparable")
    assert desk.night(2, judged(moved, measured(BERT))) == ["strand 1"]
    assert desk.night(3, judged(moved)) == []
    assert desk.night(4, judged(measured(NET, 1.1))) == []
    assert desk.night(5, judged(moved)) == ["strand 1"]
    assert desk.night(6, judged(measured(NET))) == ["recover 1"]


def test_another_machine_is_not_told_where_it_keeps_no_issue_open() -> None:
    """It had recovered there, and elsewhere the nights show that the change is still there."""
    desk, there = Desk(recovered_nights=2), replace(NET, arch="A100")
    moved = measured(there, 1.0, "not-comparable")
    desk.night(1, judged(regressed(NET), regressed(there)))
    desk.night(2, judged(regressed(NET), measured(there)))
    assert [desk.night(day, judged(measured(NET), moved)) for day in (3, 4)] == [[], ["recover 1"]]
    desk.night(9, judged(regressed(NET), regressed(there)))
    desk.night(10, judged(measured(NET), measured(there)))
    assert desk.night(11, judged(moved)) == ["strand 1"], "no night counts any more"


@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize("level", [0.8, 1.2])
@pytest.mark.parametrize(("seen", "last_old", "done"), [(3, 18, "open 2"), (3, 3, "open 2"), (3, 2, "")])
def test_an_issue_is_not_about_what_gets_worse_on_another_machine_later(
    seen: int, last_old: int, done: str, level: float, is_open: bool
) -> None:
    """The levels do not tell, and as no night shows a recovery, people close the issue themselves."""
    desk = Desk()
    for day in range(1, seen + 1):
        desk.night(day, judged(on("1" * 10, regressed(NET))))
    desk.change(1, is_open=is_open)
    when = datetime(2026, 11, last_old, tzinfo=timezone.utc).timestamp()
    slow = regressed(NET, level * 1.1, level, ends=("3" * 40, "4" * 40), times=(when, when + 1))
    told = ["strand 1"] * bool(is_open and done)
    assert desk.night(20, judged(on("2" * 10, slow))) == [*filter(None, [done]), *told]


def test_what_gets_worse_on_another_machine_later_keeps_no_issue_open(desk: Desk) -> None:
    """Its own machine has shown the recovery, and the other one cannot undo that."""
    desk.night(1, judged(on("1" * 10, regressed(NET)), regressed(BERT)))
    desk.night(2, judged(on("1" * 10, measured(NET)), measured(BERT, 1.1)))
    when = datetime(2026, 11, 4, tzinfo=timezone.utc).timestamp()
    slow = on("2" * 10, regressed(NET, ends=("3" * 40, "4" * 40), times=(when, when + 1)))
    nights = [desk.night(day, judged(slow, measured(BERT))) for day in (5, 6, 7)]
    assert nights == [["open 2"], [], ["recover 1"]]


def test_a_machine_that_is_away_for_a_week_is_told_where_others_measure() -> None:
    desk = Desk(recovered_nights=1)
    slow, other = regressed(NET), measured(NET)
    desk.night(1, judged(replace(slow, evidence=replace(slow.evidence, machine="1" * 10))))
    other = replace(other, evidence=replace(other.evidence, machine="2" * 10))
    assert [desk.night(day, judged(other)) for day in (2, 7, 8, 9)] == [[], [], ["strand 1"], []]


def test_what_nothing_measures_for_five_weeks_is_told_once(desk: Desk) -> None:
    """Its repository was renamed, for instance, so no verdict will ever say that it has recovered."""
    desk.night(1, judged(regressed(NET), regressed(BERT)))
    memory = desk.issues[1].memory
    rows = tuple(replace(row, night="2026-09-28") for row in memory.rows)
    desk.change(1, memory=replace(memory, rows=rows))
    renamed = measured(replace(NET, repo="octo/renamed"))
    assert [desk.night(day, judged(renamed)) for day in (1, 2)] == [[], ["strand 1"]]
    assert [desk.night(day, judged(renamed, measured(BERT))) for day in (3, 4)] == [[], []]
    assert [desk.night(day, judged(measured(NET))) for day in (5, 6)] == [["recover 1"], []]


def test_what_nothing_measures_since_it_had_begun_to_recover_is_told_once(desk: Desk) -> None:
    """As where its machine is replaced a night after the fix: no night counts any more."""
    desk.night(1, judged(regressed(NET)))
    desk.night(2, judged(measured(NET)))
    memory = replace(desk.issues[1].memory, reported="2026-09-27", recovered=("2026-09-28",))
    desk.change(1, memory=memory)
    assert [desk.night(day, judged(measured(BERT))) for day in (1, 2, 3)] == [[], ["strand 1"], []]


def test_one_more_machine_does_not_hide_what_the_known_one_says() -> None:
    desk = Desk(recovered_nights=1)
    desk.night(1, judged(regressed(NET)))
    assert desk.night(2, judged(measured(NET, 1.1), measured(NET, 2.0, "not-comparable"))) == []


def test_a_verdict_that_is_still_red_is_not_back() -> None:
    desk = Desk(recovered_nights=1)
    desk.night(1, judged(regressed(NET, 1.5)))
    assert desk.night(2, judged(regressed(NET, 1.05))) == []


def test_counts_that_were_zero_can_be_back() -> None:
    desk = Desk(recovered_nights=1)
    desk.night(1, judged(regressed(NET, 2.0, old=1.0)))
    memory = desk.issues[1].memory
    desk.change(1, memory=replace(memory, rows=tuple(replace(row, old=0.0) for row in memory.rows)))
    assert desk.night(2, judged(measured(NET, 2.0))) == []
    assert desk.night(3, judged(measured(NET, 0.0))) == ["recover 1"]


def test_a_leak_is_back_where_little_is_left_of_it() -> None:
    """An amount has no ratio: 3 KiB are 30 times what leaked before, and nothing beside 500."""
    desk, leak = Desk(recovered_nights=1), series(metric="memory_leak(KiB/iter)")
    desk.night(1, judged(regressed(leak, 500.0, old=0.1)))
    assert desk.night(2, judged(measured(leak, 3.0, noise=0.0))) == ["recover 1"]


def test_a_level_next_to_zero_is_one() -> None:
    """Its ratio to another level may be zero as a floating-point number, which has no logarithm."""
    desk = Desk(recovered_nights=1)
    desk.night(1, judged(regressed(NET, 4.0, old=2.0)))
    assert desk.night(2, judged(measured(NET, 5e-324))) == ["recover 1"]


def test_what_a_bisection_measured_beside_does_not_keep_an_issue_open() -> None:
    """Of a series without a verdict nobody knows the levels."""
    desk = Desk(recovered_nights=1)
    slow = regressed(NET)
    desk.night(1, judged(slow), located(slow, measured(BERT)))
    assert {row.series.model for row in desk.issues[1].memory.rows} == {"resnet18", "bert"}
    assert desk.night(2, judged(measured(NET))) == ["recover 1"]


@pytest.mark.parametrize("first", ["beside", "judged"])
def test_what_was_judged_once_and_bisected_once_keeps_an_issue_open(first: str) -> None:
    """The bisection tells the change, and the verdict the levels, in either order."""
    desk = Desk(recovered_nights=1)
    slow, both = regressed(NET), [regressed(NET), regressed(BERT)]
    nights = [judged(slow, measured(BERT, 1.1)), judged(*both)]
    for day, night in enumerate(nights if first == "beside" else nights[::-1], 1):
        desk.night(day, night, *([located(*both)] if first == "judged" or day == 1 else []))
    assert desk.night(3, judged(measured(NET), measured(BERT, 1.1))) == []
    assert desk.night(4, judged(measured(NET), measured(BERT))) == ["recover 1"]


def test_a_night_counts_only_if_all_that_was_measured_is_back() -> None:
    desk = Desk(recovered_nights=2)
    desk.night(1, judged(regressed(NET), regressed(BERT)))
    assert desk.night(2, judged(measured(NET), measured(BERT, 1.1))) == []
    assert desk.night(3, judged(measured(NET), measured(BERT))) == []
    assert desk.night(4, judged(measured(NET), measured(BERT))) == ["recover 1"]


@pytest.mark.parametrize(
    ("level", "back"), [(1.26, []), (1.03, ["recover 1"]), (1.005, ["recover 1", "recover 2"])]
)
def test_of_two_culprits_the_small_one_is_not_over_when_the_large_one_is(
    level: float, back: list[str]
) -> None:
    """The levels of the series are those of both."""
    desk, small, large = Desk(recovered_nights=1), regressed(NET, 1.03), regressed(NET, 1.26)
    both = [located(small), located(large, commit=OTHER)]
    assert desk.night(1, judged(regressed(NET, 1.3)), *both) == ["open 1", "open 2"]
    assert desk.night(2, judged(measured(NET, level))) == back


ANCHORED_NET = replace(NET, metric=ANCHORED)


def on_a_host(ratio: Verdict, latency: float) -> Judgement:
    """The latency follows its ratio to the anchor, whatever the host of the night makes of it."""
    return judged(ratio, replace(ratio, series=NET, old=10.0, new=latency))


@pytest.mark.parametrize("version", ["this", "an earlier one"])
def test_another_host_neither_hides_a_recovery_nor_makes_a_further_regression(
    desk: Desk, version: str
) -> None:
    slow, back = regressed(ANCHORED_NET), measured(ANCHORED_NET)
    assert desk.night(1, on_a_host(slow, 11.0)) == ["open 1"]
    if version != "this":
        memory = desk.issues[1].memory
        ratio, latency = sorted(memory.rows, key=lambda row: row.series == NET)
        desk.change(1, memory=replace(memory, rows=(ratio, replace(latency, old=10.0, new=11.0))))
    nights = [desk.night(day, on_a_host(back, latency)) for day, latency in ((2, 10.2), (3, 11.6), (4, 12.9))]
    assert nights == [[], [], ["recover 1"]]


def test_a_ratio_that_gets_worse_again_later_is_another_issue_with_the_latency_beside_it(desk: Desk) -> None:
    desk.night(1, on_a_host(regressed(ANCHORED_NET), 11.0))
    later = regressed(ANCHORED_NET, 1.3, 1.1, ends=("3" * 40, "4" * 40))
    assert desk.night(9, on_a_host(later, 12.9)) == ["open 2"]
    assert {row.series for row in desk.issues[2].memory.rows} == {NET, ANCHORED_NET}
    assert desk.night(10, on_a_host(later, 13.9)) == []


def test_an_accepted_ratio_is_accepted_on_every_host(desk: Desk) -> None:
    slow = regressed(ANCHORED_NET)
    desk.night(1, on_a_host(slow, 11.0))
    desk.change(1, expected=True)
    assert desk.night(2, on_a_host(slow, 11.0)) == ["accept 1"]
    assert desk.night(3, on_a_host(slow, 12.9)) == []
    assert desk.night(4, on_a_host(regressed(ANCHORED_NET, 1.2), 10.4)) == ["open 2"]
