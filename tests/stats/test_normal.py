from __future__ import annotations

import numpy as np
import pytest

from torchperf_ci.stats.noise import score_of_student, score_of_tail, student_of_score, tail_probability


def test_tail_and_score_are_inverse_down_to_one_in_a_trillion() -> None:
    scores = np.array([-3.0, 0.0, 1.6448536269514722, 7.0])
    np.testing.assert_allclose(tail_probability(scores[1:3]), [0.5, 0.05])
    np.testing.assert_allclose(score_of_tail(tail_probability(scores)), scores, rtol=1e-9, atol=1e-9)
    assert np.isnan(tail_probability(np.array([np.nan]))).all()


@pytest.mark.parametrize(
    # Quantiles of Student's distribution from printed tables.
    ("df", "t", "tail"),
    [(4, 2.776, 0.025), (4, 4.604, 0.005), (10, 2.764, 0.01), (16, 3.686, 0.001), (30, 3.385, 0.001)],
)
def test_students_distribution_agrees_with_the_tables(df: int, t: float, tail: float) -> None:
    score = score_of_student(np.array([t, -t]), df)
    np.testing.assert_allclose(tail_probability(score[:1]), tail, rtol=0.06)
    assert score[1] == -score[0]
    np.testing.assert_allclose(student_of_score(score, df), [t, -t])


@pytest.mark.parametrize(
    ("df", "t", "tail"), [(3, 3.182, 0.025), (3, 5.841, 0.005), (3, 10.215, 0.001), (4, 7.173, 0.001)]
)
def test_it_believes_no_deviation_more_than_students_distribution_does(
    df: int, t: float, tail: float
) -> None:
    exact = score_of_tail(np.array([tail]))[0]
    assert exact - (0.02 if t <= 4 else 0.06) < score_of_student(np.array(t), df) < exact + 0.003
