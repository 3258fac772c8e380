"""Which builds are there, and which commits nothing can be measured on."""

from __future__ import annotations

from torchperf_ci.bisect.reasoning.facts import Build, Facts, Failure


def test_a_commit_stays_usable_where_another_draw_of_it_fails() -> None:
    builds = (Build(3, ok=True), Build(3, ok=False, draw=1), Build(4, ok=False), Build(5, ok=True))
    facts = Facts((), builds, (Failure("p", 5, "crashed"),))
    assert facts.unusable == {4, 5}
    assert facts.built == {3, 5}
    assert facts.made == {(3, 0), (5, 0)}
