from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from torchperf_ci.bisect.reasoning.segment import Segment


def test_what_is_left_beside_some_steps() -> None:
    whole = Segment(0, 10)
    assert whole.without([]) == [whole]
    assert whole.without([Segment(6, 8), Segment(2, 3)]) == [Segment(0, 2), Segment(3, 6), Segment(8, 10)]
    assert whole.without([Segment(0, 1), Segment(9, 10)]) == [Segment(1, 9)]
    assert whole.without([Segment(4, 5), Segment(5, 6)]) == [Segment(0, 4), Segment(6, 10)]
    assert whole.without([whole]) == []


def test_steps_elsewhere_take_nothing_away() -> None:
    assert Segment(3, 6).without([Segment(0, 3), Segment(6, 8), Segment(5, 7)]) == [Segment(3, 6)]


@given(st.integers(1, 40).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(1, n)))))
def test_each_suspect_is_in_a_step_or_in_what_is_left(given) -> None:
    count, culprits = given
    steps = [Segment(position - 1, position) for position in culprits]
    left = Segment(0, count).without(steps)
    covered = [position for part in (*steps, *left) for position in range(part.before + 1, part.after + 1)]
    assert sorted(covered) == list(range(1, count + 1))
