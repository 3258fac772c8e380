from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from torchperf_ci.bisect.reasoning.evidence import SuspectRange


def test_what_is_left_beside_some_steps() -> None:
    whole = SuspectRange(0, 10)
    assert whole.without([]) == [whole]
    assert whole.without([SuspectRange(6, 8), SuspectRange(2, 3)]) == [
        SuspectRange(0, 2),
        SuspectRange(3, 6),
        SuspectRange(8, 10),
    ]
    assert whole.without([SuspectRange(0, 1), SuspectRange(9, 10)]) == [SuspectRange(1, 9)]
    assert whole.without([SuspectRange(4, 5), SuspectRange(5, 6)]) == [
        SuspectRange(0, 4),
        SuspectRange(6, 10),
    ]
    assert whole.without([whole]) == []


def test_steps_elsewhere_take_nothing_away() -> None:
    assert SuspectRange(3, 6).without([SuspectRange(0, 3), SuspectRange(6, 8), SuspectRange(5, 7)]) == [
        SuspectRange(3, 6)
    ]


@given(st.integers(1, 40).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(1, n)))))
def test_each_suspect_is_in_a_step_or_in_what_is_left(given) -> None:
    count, culprits = given
    steps = [SuspectRange(position - 1, position) for position in culprits]
    left = SuspectRange(0, count).without(steps)
    covered = [position for part in (*steps, *left) for position in range(part.before + 1, part.after + 1)]
    assert sorted(covered) == list(range(1, count + 1))
