"""Which case gets the next pair, and when the loop ends; the pairs are scripted."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest

from torchperf_ci.bench.case import Settings
from torchperf_ci.bench.pairs import SideFailure
from torchperf_ci.bench.process import ProcessOutcome
from torchperf_ci.bench.worker_client import WorkerFailure
from torchperf_ci.compare import comparison_loop
from torchperf_ci.compare.case_verdicts import ComparisonPolicy, decided, judge_cases
from torchperf_ci.compare.command import _budget_note
from torchperf_ci.compare.compared_case import ComparedCase, Comparison, judge_controls
from torchperf_ci.compare.comparison_loop import BudgetAllocation, PairRunner, measure_rounds
from torchperf_ci.config import Config
from torchperf_ci.console import Progress
from torchperf_ci.interruption import Stopped

if TYPE_CHECKING:
    from collections.abc import Mapping

PASS, FAIL = ProcessOutcome("pass"), ProcessOutcome("failed", "on purpose")


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass only where a script says so."""

    class Clock:
        now = 0.0

        def monotonic(self) -> float:
            return self.now

    clock = Clock()
    monkeypatch.setattr(comparison_loop, "time", clock)
    return clock


def crash() -> SideFailure:
    return SideFailure("head", WorkerFailure("crashed", "killed"))


@dataclass
class Script:
    """What happens to each workload: seconds a pair takes, how many pairs are lost first, how its sides run alone."""

    seconds: dict[str, float] = field(default_factory=dict)
    lost: dict[str, int] = field(default_factory=dict)
    base_alone: dict[str, ProcessOutcome] = field(default_factory=dict)
    head_alone: dict[str, ProcessOutcome] = field(default_factory=dict)
    crashes_alone: dict[str, int] = field(default_factory=dict)
    stopped_alone: str = ""
    lost_controls: bool = False
    favour: float = 0.0
    controls: list[float] = field(default_factory=list)
    begun_by_head: list[tuple[str, bool]] = field(default_factory=list)
    changes: dict[str, float] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)


@pytest.fixture
def script(clock, a_pair, monkeypatch) -> Script:
    script = Script()

    def measure_pair(case, base, head, scratch, started=None, *, head_first):
        name = case.workload
        script.log.append(f"control {name}" if base == head else name)
        script.begun_by_head.append((script.log[-1], head_first))
        clock.now += script.seconds.get(name, 1.0)
        if script.lost.get(name, 0) > 0:
            script.lost[name] -= 1
            raise crash()
        if base == head and script.lost_controls:
            raise crash()
        if base == head and script.controls:
            return a_pair(script.controls.pop(0))
        change = 0.0 if base == head else script.changes.get(name, 0.0)
        return a_pair(change + (-script.favour if head_first else script.favour))

    def measure(case, settings, scratch, *, first):
        script.log.append(f"{settings.python} alone {case.workload}")
        assert first == case.compiled
        if settings.python == "head" and script.stopped_alone == case.workload:
            raise Stopped(signal.SIGTERM)
        if settings.python == "head" and script.crashes_alone.get(case.workload, 0) > 0:
            script.crashes_alone[case.workload] -= 1
            return FAIL
        of_side = script.head_alone if settings.python == "head" else script.base_alone
        return of_side.get(case.workload, PASS)

    monkeypatch.setattr(comparison_loop, "measure_pair", measure_pair)
    monkeypatch.setattr(comparison_loop, "measure_alone", measure)
    return script


@dataclass(frozen=True)
class CountedAllocation(BudgetAllocation):
    """Settled after a number of pairs that is said beforehand."""

    pairs: Mapping[str, int]

    def is_settled(self, compared: ComparedCase) -> bool:
        return len(compared.pairs) >= self.pairs.get(compared.case.workload, 2)


@pytest.fixture
def run(script):
    """Take all pairs, two of each workload if nothing else is said; the log of what was measured."""

    def run(
        comparison: Comparison,
        budget: float = 1000,
        pairs: Mapping[str, int] = MappingProxyType({}),
        allocation: BudgetAllocation | None = None,
    ) -> list[str]:
        runner = PairRunner(Settings("base", "cpu"), Settings("head", "cpu"), Path("scratch"))
        shown = Progress(budget, timed=True)
        counted = CountedAllocation(comparison, 0.03, pairs)
        measure_rounds(comparison, runner, budget, allocation or counted, shown)
        return script.log

    return run


def cases(a_case, *names: str, backend: str = "eager") -> Comparison:
    return Comparison([ComparedCase(a_case(name, backend), place=n) for n, name in enumerate(names)])


def test_each_case_gets_one_pair_a_round_until_it_is_settled(run, a_case) -> None:
    comparison = cases(a_case, "a", "b", "c")
    log = run(comparison, pairs={"made/a": 1, "made/b": 3, "made/c": 2})
    assert [entry for entry in log if not entry.startswith("control")] == [
        *("made/a", "made/b", "made/c"),
        *("made/b", "made/c"),
        "made/b",
    ]
    assert not comparison.out_of_time


def test_base_and_head_begin_the_pairs_of_a_case_in_turn_and_its_controls(run, script, a_case) -> None:
    run(cases(a_case, "a", "b"), pairs={"made/a": 4, "made/b": 4})
    began = {name: [first for log, first in script.begun_by_head if log == name] for name in set(script.log)}
    assert began["made/a"] == [False, True, False, True]
    assert began["made/b"] == [True, False, True, False]
    assert began["control made/a"] == [False, True, False]


@pytest.mark.parametrize(("change", "word"), [(0.0, "none"), (0.03, "increase")])
def test_what_favours_whichever_begins_is_no_change_and_hides_none(script, run, a_case, change, word) -> None:
    """By 2.5%, as in a mode that lasts; where base always begins, that is read as a change, or hides one."""
    script.favour, script.changes = -0.025, {"made/a": change}
    comparison = cases(a_case, "a")
    run(comparison, pairs={"made/a": 16})
    assert decided(comparison.cases[0], comparison.cases, 0.03).word == word
    assert not judge_controls(comparison, 0.03)["eager"].void


def test_what_is_not_settled_any_more_beside_a_later_control_gets_more_pairs(run, script, a_case) -> None:
    """Four pairs beyond two of base against itself are proof, and none beside a later one as large as they are."""
    script.changes, script.controls = {"made/a": 0.03}, [0.0, 0.001, 0.0, 0.032]
    comparison = cases(a_case, "a", "b", "c")
    run(comparison, allocation=BudgetAllocation(comparison, 0.03))
    assert len(comparison.cases[0].pairs) > 4
    assert decided(comparison.cases[0], comparison.cases, 0.03).word == "increase"


@pytest.mark.parametrize(("luck", "settled"), [(0.0, True), (0.075, False), (0.1, True)])
def test_more_pairs_are_taken_where_they_may_show_more_than_luck(a_compared_case, luck, settled) -> None:
    """Of builds that differ by more than its interval says; if the change is less, more pairs show nothing new."""
    compared = a_compared_case(0.08, sd=0.015)
    assert BudgetAllocation(Comparison([compared], luck=luck), 0.03).is_settled(compared) is settled


def test_the_control_is_the_quickest_case_once_a_round_and_one_pair_in_four_at_most(
    run, script, a_case
) -> None:
    script.seconds.update({"made/a": 5.0, "made/b": 2.0})
    comparison = cases(a_case, "a", "b")
    log = run(comparison, pairs={"made/a": 3, "made/b": 1})
    assert [entry for entry in log if entry.startswith("control")] == ["control made/b"] * 2
    assert comparison.controls["eager"].case.workload == "made/b"
    assert [before for before, _ in comparison.controls["eager"].controls] == [1, 1]


def test_each_backend_has_a_control(run, a_case) -> None:
    comparison = Comparison([ComparedCase(a_case("a")), ComparedCase(a_case("b", "inductor"))])
    run(comparison)
    assert {backend: compared.case.workload for backend, compared in comparison.controls.items()} == {
        "eager": "made/a",
        "inductor": "made/b",
    }
    assert all(compared.controls for compared in comparison.controls.values())


def test_what_seems_changed_is_measured_against_itself_between_its_pairs(run, script, a_case) -> None:
    script.seconds.update({"made/b": 9.0})
    script.changes.update({"made/b": 0.03})
    comparison = cases(a_case, "a", "b")
    log = run(comparison, pairs={"made/a": 1, "made/b": 5})
    assert [entry for entry in log if entry.endswith("made/b")] == [
        *("made/b", "made/b", "control made/b", "made/b", "made/b", "control made/b", "made/b")
    ]


def test_what_cannot_be_settled_in_time_yields_to_what_can(run, script, a_case, a_pair) -> None:
    restless = [a_pair(change) for change in (0.1, -0.1, 0.12)]
    comparison = Comparison(
        [
            ComparedCase(a_case("restless"), restless, seconds=1.0),
            ComparedCase(a_case("steady"), [a_pair()] * 3, seconds=0.5),
        ]
    )
    log = run(comparison, budget=10, pairs={"made/restless": 99, "made/steady": 8})
    assert [entry for entry in log if not entry.startswith("control")][:5] == ["made/steady"] * 5
    assert comparison.cases[1].settled
    assert comparison.out_of_time


def test_no_pair_begins_when_the_time_is_up(run, script, a_case) -> None:
    comparison = cases(a_case, "a", "b")
    run(comparison, budget=4, pairs={"made/a": 99, "made/b": 99})
    assert comparison.out_of_time
    assert [len(compared.pairs) for compared in comparison.cases] == [2, 1]
    assert len(comparison.controls["eager"].controls) == 1


def test_a_case_that_head_cannot_run_alone_either_ends_there(run, script, a_case) -> None:
    script.lost["made/a"] = 9
    script.head_alone["made/a"] = FAIL
    comparison = cases(a_case, "a", "b")
    log = run(comparison)
    assert log.count("made/a") == 1
    assert log.count("head alone made/a") == 2, "once may be chance, also after a pair"
    assert comparison.cases[0].failed
    assert len(comparison.cases[1].pairs) == 2


def test_what_was_measured_is_judged_if_the_look_at_a_failed_pair_is_interrupted(
    run, script, a_case, naming
) -> None:
    script.lost["made/b"], script.base_alone["made/b"], script.stopped_alone = 9, FAIL, "made/b"
    comparison = cases(a_case, "a", "b")
    with pytest.raises(Stopped):
        run(comparison)
    comparison.stopped = True
    verdicts = judge_cases(comparison, ComparisonPolicy(Config()), naming, judge_controls(comparison, 0.03))
    assert {(verdict.series.model, verdict.verdict, verdict.why) for verdict in verdicts} >= {
        ("made/b", "noisy", "interrupted after its first try failed: head: crashed: killed"),
        ("made/a", "noisy", "interrupted after 1 pair; at least 3 are needed"),
    }


def test_a_pair_that_is_lost_once_is_taken_again(run, script, a_case) -> None:
    script.lost["made/a"] = 1
    comparison = cases(a_case, "a")
    run(comparison)
    assert not comparison.cases[0].failed
    assert len(comparison.cases[0].pairs) == 2


def test_a_later_pair_that_is_lost_is_not_shown_as_the_one_before(
    run, script, a_case, a_pair, capsys
) -> None:
    script.lost["made/a"] = 1
    comparison = Comparison([ComparedCase(a_case("a"), [a_pair()])])
    run(comparison, pairs={"made/a": 2})
    lost, taken = capsys.readouterr().err.splitlines()
    assert lost.endswith("batch 4: the pair failed")
    assert taken.endswith("batch 4: pair 2, +0.0%, settled")


def test_pairs_that_are_lost_again_and_again_are_given_up(run, script, a_case) -> None:
    script.lost["made/a"] = 99
    comparison = cases(a_case, "a")
    run(comparison)
    assert comparison.cases[0].failed
    assert len(comparison.cases[0].lost) == 2
    assert comparison.controls == {}


def test_a_compiled_case_is_looked_at_alone_before_its_first_pair(run, script, a_case) -> None:
    """Whether it computes what the eager one does is more than a pair asks."""
    script.head_alone["made/a"] = ProcessOutcome("inaccurate", "outputs differ")
    comparison = cases(a_case, "a", backend="inductor")
    assert run(comparison) == ["base alone made/a", "head alone made/a", "head alone made/a"]
    assert comparison.cases[0].failed


def test_a_side_that_fails_alone_once_gets_another_try(run, script, a_case, naming) -> None:
    """A compiled case whose head crashed by chance when it was looked at first was broken."""
    script.crashes_alone["made/a"] = 1
    comparison = cases(a_case, "a", backend="inductor")
    assert run(comparison)[:4] == [
        "base alone made/a",
        *["head alone made/a"] * 2,
        "made/a",
    ]
    latency, *_ = judge_cases(
        comparison, ComparisonPolicy(Config()), naming, judge_controls(comparison, 0.03)
    )
    assert latency.why.endswith("; 1 of 3 tries failed: head: failed: on purpose")


@pytest.mark.parametrize("status", ["timeout", "crashed"])
def test_what_takes_too_long_alone_gets_no_other_try(run, script, a_case, status: str) -> None:
    script.head_alone["made/a"] = ProcessOutcome(status)
    comparison = cases(a_case, "a", backend="inductor")
    assert run(comparison).count("head alone made/a") == 1 + (status == "crashed")


def test_what_fails_on_both_sides_gets_no_other_try(run, script, a_case) -> None:
    script.head_alone["made/a"] = script.base_alone["made/a"] = FAIL
    assert run(cases(a_case, "a", backend="inductor")) == ["base alone made/a", "head alone made/a"]


def test_a_lost_control_spoils_nothing(run, script, a_case) -> None:
    script.lost_controls = True
    comparison = cases(a_case, "a")
    run(comparison)
    assert comparison.cases[0].settled
    assert comparison.cases[0].controls == []


def test_every_pair_is_a_line_for_a_jobs_log(run, script, a_case, capsys) -> None:
    script.lost["made/b"] = 9
    script.head_alone["made/b"] = FAIL
    run(cases(a_case, "a", "b"))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].endswith("0 of 2 settled] made/a inference fp32 eager batch 4: pair 1, +0.0%")
    assert lines[1].endswith("1 of 2 settled] made/b inference fp32 eager batch 4: head failed")
    assert lines[2].endswith("2 of 2 settled] made/a inference fp32 eager batch 4: pair 2, +0.0%, settled")


@pytest.mark.parametrize(
    ("seconds", "advice"), [(350.0, "takes 6 min and a verdict at least 3 pairs: --budget 1440"), (100.0, "")]
)
def test_a_budget_too_short_for_the_fewest_pairs_is_told_with_one_that_is_not(
    run, script, a_case, seconds, advice
) -> None:
    script.seconds["made/a"] = seconds
    comparison = cases(a_case, "a")
    run(comparison, budget=600, pairs={"made/a": 9})
    assert comparison.out_of_time
    note = _budget_note(comparison, 600)
    assert note.startswith("the budget of 600 s ran out: raise it with --budget, or choose fewer cases")
    assert advice in note
    assert ("may be enough" in note) == bool(advice)
