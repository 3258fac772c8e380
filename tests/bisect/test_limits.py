from __future__ import annotations

from torchperf_ci.bisect.measurement_setup import BisectLimits
from torchperf_ci.bisect.reasoning.evidence import BisectFacts, BisectReading, BuildAttempt
from torchperf_ci.deadline import Deadline

FACTS = BisectFacts(
    (BisectReading("p", 0, 9, {"s": 0.0}, "confirm"),) * 3,
    (BuildAttempt(0, ok=True), BuildAttempt(4, ok=False)),
)


def test_failed_builds_and_all_pairs_count() -> None:
    assert BisectLimits(builds=3).may_build(FACTS)
    assert not BisectLimits(builds=2).may_build(FACTS)
    assert BisectLimits(pairs=4).ended_by(FACTS) == ""
    assert BisectLimits(pairs=3).ended_by(FACTS) == "--max-runs"


def test_several_builds_must_all_be_allowed_and_none_always_is() -> None:
    assert BisectLimits(builds=4).may_build(FACTS, 2)
    assert not BisectLimits(builds=3).may_build(FACTS, 2)
    assert BisectLimits(builds=0).may_build(FACTS, 0)


def test_without_limits_there_is_no_end() -> None:
    assert BisectLimits().may_build(FACTS)
    assert BisectLimits().ended_by(FACTS) == ""
    assert BisectLimits().after(FACTS) == BisectLimits()


def test_the_deadline_ends_it_when_it_has_passed() -> None:
    assert BisectLimits(deadline=Deadline.after(-1)).ended_by(BisectFacts()) == "--deadline"
    assert BisectLimits(deadline=Deadline.after(3600)).ended_by(BisectFacts()) == ""


def test_what_follows_has_what_is_left() -> None:
    deadline = Deadline.after(3600)
    assert BisectLimits(5, 10, deadline).after(FACTS) == BisectLimits(3, 7, deadline)
    assert BisectLimits(1, 2).after(FACTS) == BisectLimits(0, 0)
