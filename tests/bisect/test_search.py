"""The search loop with a real state file and simulated builds and measurements."""

from __future__ import annotations

import signal
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from simulated_range import Silent, Simulated, SimulatedRange, bisected

from torchperf_ci.bench.case import Settings
from torchperf_ci.bisect.commits import BuildSequence, uniform
from torchperf_ci.bisect.measurement_setup import BisectLimits, MeasurementSetup
from torchperf_ci.bisect.reasoning.evidence import (
    BisectFacts,
    BisectReading,
    BuildAttempt,
    ProbeFailure,
    SuspectRange,
)
from torchperf_ci.bisect.reasoning.investigation import Investigation
from torchperf_ci.bisect.search import _state_plan, investigate
from torchperf_ci.bisect.state_file import StateFile
from torchperf_ci.deadline import Deadline
from torchperf_ci.environments.revisions import Revision
from torchperf_ci.errors import EnvironmentUnderTestError
from torchperf_ci.interruption import Stopped
from torchperf_ci.options.comparison_commands import BisectOptions

if TYPE_CHECKING:
    from pathlib import Path

    from torchperf_ci.bisect.reasoning.evidence import BisectQuestion, PlannedPair

N = 30
PLAN = {"good": "a", "bad": "b"}
CULPRIT = {"s": [SuspectRange(16, 17)]}


def a_range(changes=None, **more) -> SimulatedRange:
    return SimulatedRange(N, {"s": Simulated({17: 1.07} if changes is None else changes)}, **more)


def quietly(question: BisectQuestion) -> Silent:
    return Silent(question, [str(position) for position in range(N + 1)])


@pytest.fixture
def state(tmp_path: Path):
    with StateFile.open(tmp_path / "state.jsonl", PLAN) as state:
        yield state


def go(world: SimulatedRange, state: StateFile, limits: BisectLimits | None = None) -> str:
    question = world.question()
    return investigate(question, world, state, limits or BisectLimits(), quietly(question))


def culprits(world: SimulatedRange, facts: BisectFacts) -> dict[str, list[SuspectRange]]:
    evidence = Investigation(world.question(), facts).series
    return {series.name: list(series.culprits) for series in evidence if series.culprits}


def test_it_goes_on_until_the_culprit_is_proven(state) -> None:
    world = a_range()
    assert go(world, state) == ""
    assert culprits(world, state.facts) == CULPRIT
    assert world.done == len(state.facts.builds) + len(state.facts.readings)


def test_from_any_moment_on_the_next_job_finds_the_same(tmp_path) -> None:
    """Its readings are others: another machine's."""
    events = bisected(a_range(unbuildable=frozenset({15, 20}))).events
    for count in range(len(events) + 1):
        world = a_range(unbuildable=frozenset({15, 20}), seed=count + 1)
        with StateFile.open(tmp_path / f"{count}.jsonl", PLAN) as state:
            for event in events[:count]:
                state.add(event)
        with StateFile.open(tmp_path / f"{count}.jsonl", PLAN) as state:
            assert go(world, state) == ""
            assert culprits(world, state.facts) == CULPRIT
            assert len(state.facts.builds) + len(state.facts.readings) == count + world.done
            assert len({build.position for build in state.facts.builds}) == len(state.facts.builds)


@pytest.mark.parametrize(("position", "which"), [(0, "good"), (N, "bad")])
def test_an_end_that_cannot_be_built_is_told_with_the_reason(state, position, which) -> None:
    with pytest.raises(EnvironmentUnderTestError, match=f"the {which} commit cannot be built.*no such file"):
        go(a_range(unbuildable=frozenset({position})), state)
    assert [build.ok for build in state.facts.builds if build.position == position] == [False] * 3


@pytest.mark.parametrize("position", [0, 16, 17, N])
def test_a_build_that_fails_by_chance_changes_nothing(state, position) -> None:
    world = a_range(flaky=frozenset({position}))
    assert go(world, state) == ""
    assert culprits(world, state.facts) == CULPRIT
    assert [build.ok for build in state.facts.builds if build.position == position] == [False, True]


def test_what_cannot_be_built_is_tried_twice_more_and_what_does_not_run_is_not(state) -> None:
    world = a_range(unbuildable=frozenset({15}), fails={"p": frozenset({16})})
    assert go(world, state) == ""
    assert culprits(world, state.facts) == {"s": [SuspectRange(14, 17)]}
    assert [build.position for build in state.facts.builds if not build.ok] == [15, 15, 15]
    assert state.facts.failures == (ProbeFailure("p", 16, "crashed"),)


@pytest.mark.parametrize("count", [2, 3, 5, 9])
def test_builds_that_fail_side_by_side_by_chance_change_nothing(state, count) -> None:
    world = a_range(flaky=frozenset(range(17 - count // 2, 17 - count // 2 + count)))
    assert go(world, state) == ""
    assert culprits(world, state.facts) == CULPRIT


def test_of_many_that_cannot_be_built_side_by_side_two_are_tried_twice_more(state) -> None:
    world = a_range(unbuildable=frozenset(range(14, 20)))
    assert go(world, state) == ""
    assert culprits(world, state.facts) == {"s": [SuspectRange(13, 20)]}
    tries = Counter(build.position for build in state.facts.builds if not build.ok)
    assert sorted(tries.values()) == [1, 1, 1, 1, 3, 3]


@pytest.mark.parametrize("most", range(8))
def test_no_more_is_built_than_may_be(state, most) -> None:
    world = a_range()
    ended_by = go(world, state, BisectLimits(builds=most))
    assert len(state.facts.builds) <= most
    assert ended_by == ("" if culprits(world, state.facts) else "--max-builds")
    assert go(world, state) == "", "given more, it goes on"
    assert culprits(world, state.facts) == CULPRIT


@pytest.mark.parametrize("most", [0, 1, 6, 20])
def test_no_more_is_measured_than_may_be(state, most) -> None:
    world = a_range()
    ended_by = go(world, state, BisectLimits(pairs=most))
    assert len(state.facts.readings) <= most
    assert ended_by == ("" if culprits(world, state.facts) else "--max-runs")


def test_what_is_finished_with_its_last_build_or_pair_was_ended_by_no_limit(state) -> None:
    """Nothing got slower, which two builds and so many pairs have shown."""
    world = a_range({})
    assert go(world, state) == ""
    enough = BisectLimits(builds=2, pairs=len(state.facts.readings))
    assert go(world, state, enough) == ""
    assert go(world, state, BisectLimits(deadline=Deadline.after(0))) == ""


def test_a_deadline_that_has_passed_begins_nothing(state) -> None:
    world = a_range()
    assert go(world, state, BisectLimits(deadline=Deadline.after(0))) == "--deadline"
    assert world.done == 0


class Ended(SimulatedRange):
    """Somebody ends the job while the seventh pair is measured."""

    def measure(self, step):
        if self.done >= 8:
            raise Stopped(signal.SIGTERM)
        return super().measure(step)


def test_what_was_learnt_before_a_signal_is_kept(state) -> None:
    stopped = Ended(N, {"s": Simulated({17: 1.07})})
    with pytest.raises(Stopped):
        go(stopped, state)
    assert len(state.facts.builds) + len(state.facts.readings) == stopped.done >= 8
    world = a_range(seed=1)
    assert go(world, state) == ""
    assert culprits(world, state.facts) == CULPRIT


class Told(Silent):
    """What a progress is told."""

    said: list[object]

    def begin_build(self, position: int, draw: int = 0) -> None:
        self.said.append(position)

    def begin_pair(self, step: PlannedPair) -> None:
        self.said.append((step.base, step.head))

    def end(self, event, facts: BisectFacts) -> None:
        assert event in (*facts.builds[-1:], *facts.readings[-1:], *facts.failures[-1:]), "of what is known"
        self.said.append(event)


def test_people_are_told_before_and_after_each_thing(state) -> None:
    world = a_range({})
    question = world.question()
    shown = Told(question, [""] * (N + 1))
    shown.said = []
    investigate(question, world, state, BisectLimits(pairs=1), shown)
    assert shown.said[:3] == [0, BuildAttempt(0, ok=True, seconds=10.0), N]
    assert shown.said[4] == (0, N)
    assert isinstance(shown.said[5], BisectReading)
    assert len(shown.said) == 6


def test_a_search_is_resumed_with_the_same_suite_only_wherever_the_checkout_is(
    tmp_path, git, monkeypatch
) -> None:
    """A workload of the same name in another file, or in one that was edited, is another workload."""

    def plan(checkout: str, *suites: str, configured: str = "", content: str = "") -> dict[str, object]:
        folder = tmp_path / checkout / "benchmarks"
        folder.mkdir(parents=True, exist_ok=True)
        git(folder.parent, "init", "--quiet")
        monkeypatch.chdir(folder)
        ends = [Revision(folder, sha, "") for sha in ("a", "b")]
        options = BisectOptions(suite=suites, workload=["made/a"], repo=str(folder))
        read = [folder / file for file in (*suites, configured) if file.endswith(".py")]
        for file in read:
            file.write_text(content)
        setup = MeasurementSetup((), Settings("", "cpu", tuple(map(str, read))))
        return dict(_state_plan(BuildSequence(ends, uniform(1)), setup, options))

    first = plan("one", "core", "suite.py")
    assert first["suite"] == ["core", "benchmarks/suite.py e3b0c442"]
    assert first == plan("two", "core", "suite.py")
    assert first == plan("two", "core", str(tmp_path / "two/benchmarks/suite.py"))
    assert first != plan("one", "core", "other.py")
    assert first != plan("one", "core", "suite.py", content="import torch")
    assert plan("one", str(tmp_path / "suite.py"))["suite"] == ["suite.py e3b0c442"]
    assert "suite" not in plan("one")
    assert plan("one", "mine", configured="suite.py") != plan("one", "mine", configured="other.py")
    assert plan("one", configured="suite.py") == plan("two", configured="suite.py")
