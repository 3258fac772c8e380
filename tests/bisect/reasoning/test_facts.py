"""Which builds exist, and which commits cannot be measured."""

from __future__ import annotations

from torchperf_ci.bisect.reasoning.evidence import BisectFacts, BuildAttempt, ProbeFailure


def test_a_commit_stays_usable_where_another_draw_of_it_fails_and_for_other_probes() -> None:
    builds = (
        BuildAttempt(3, ok=True),
        BuildAttempt(3, ok=False, draw=1),
        BuildAttempt(4, ok=False),
        BuildAttempt(5, ok=True),
        BuildAttempt(5, ok=True, draw=1),
        BuildAttempt(5, ok=True, draw=2, repeated=True),
    )
    facts = BisectFacts((), builds, (ProbeFailure("p", 5, "crashed"),))
    assert facts.failing("p") == {5}
    assert facts.failing("q") == frozenset()
    assert facts.unbuilt == {4}
    assert facts.built == {3, 5}
    assert facts.made == {(3, 0), (5, 0), (5, 1), (5, 2)}
    assert facts.wasted == {(3, 1), (5, 2)}


def failed(*positions: int) -> BisectFacts:
    return BisectFacts(
        (),
        (
            BuildAttempt(0, ok=True),
            BuildAttempt(9, ok=True),
            *(BuildAttempt(place, ok=False) for place in positions),
        ),
    )


def test_what_failed_once_or_twice_may_have_failed_by_chance_but_not_a_row() -> None:
    assert failed(4, 7).unsettled == {4, 7}
    assert failed(4, 4, 7).unsettled == {4, 7}
    assert failed(4, 4, 4, 7).unsettled == {7}
    assert failed(4, 5, 7, 8).unsettled == {4, 5, 7, 8}
    assert failed(4, 5, 7, 8, 5, 5).unsettled == {4, 7, 8}
    assert failed(4, 5, 7, 8, 5, 5, 7, 7).unsettled == frozenset()
    apart = BisectFacts((), (*failed(4, 4, 4, 7, 7, 7, 5).builds, BuildAttempt(6, ok=True)))
    assert apart.unsettled == {5}, "what failed on the other side of a build says nothing of it"
    assert failed(4, 5, 7, 8).unbuilt == {4, 5, 7, 8}
    assert failed(4, 4).tries == {0: 1, 4: 2, 9: 1}


def test_what_was_built_in_the_end_is_as_good_as_any() -> None:
    builds = (BuildAttempt(3, ok=False), BuildAttempt(3, ok=True))
    assert (BisectFacts((), builds).unbuilt, BisectFacts((), builds).unsettled) == (frozenset(), frozenset())
