from __future__ import annotations

from torchperf_ci.bisect.limits import Limits
from torchperf_ci.bisect.reasoning.facts import Build, Facts, Reading
from torchperf_ci.deadline import Deadline

FACTS = Facts((Reading("p", 0, 9, {"s": 0.0}, "confirm"),) * 3, (Build(0, ok=True), Build(4, ok=False)))


def test_failed_builds_and_all_pairs_count() -> None:
    assert Limits(builds=3).may_build(FACTS)
    assert not Limits(builds=2).may_build(FACTS)
    assert Limits(pairs=4).ended_by(FACTS) == ""
    assert Limits(pairs=3).ended_by(FACTS) == "--max-runs"


def test_several_builds_must_all_be_allowed_and_none_always_is() -> None:
    assert Limits(builds=4).may_build(FACTS, 2)
    assert not Limits(builds=3).may_build(FACTS, 2)
    assert Limits(builds=0).may_build(FACTS, 0)


def test_without_limits_there_is_no_end() -> None:
    assert Limits().may_build(FACTS)
    assert Limits().ended_by(FACTS) == ""
    assert Limits().after(FACTS) == Limits()


def test_the_deadline_ends_it_when_it_has_passed() -> None:
    assert Limits(deadline=Deadline.after(-1)).ended_by(Facts()) == "--deadline"
    assert Limits(deadline=Deadline.after(3600)).ended_by(Facts()) == ""


def test_what_follows_has_what_is_left() -> None:
    deadline = Deadline.after(3600)
    assert Limits(5, 10, deadline).after(FACTS) == Limits(3, 7, deadline)
    assert Limits(1, 2).after(FACTS) == Limits(0, 0)
