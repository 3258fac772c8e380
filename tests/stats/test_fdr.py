from __future__ import annotations

import numpy as np

from torchperf_ci.stats.gate import adjusted


def test_the_example_of_benjamini_and_hochberg() -> None:
    """Table 1 of their paper: at a rate of 5%, the first four of fifteen tests are discoveries."""
    p = np.array(
        [
            "0.0001",
            "0.0004",
            "0.0019",
            "0.0095",
            "0.0201",
            "0.0278",
            "0.0298",
            "0.0344",
            "0.0459",
            "0.3240",
            "0.4262",
            "0.5719",
            "0.6528",
            "0.7590",
            "1",
        ],
        dtype=float,
    )
    shuffled = np.random.default_rng(0).permutation(15)
    q = adjusted(p[shuffled])
    np.testing.assert_array_equal(q <= 0.05, p[shuffled] <= 0.0095)


def test_what_is_not_tested_takes_no_part() -> None:
    q = adjusted(np.array([0.01, np.nan, 0.5]))
    np.testing.assert_allclose(q, [0.02, np.nan, 0.5])
    assert np.isnan(adjusted(np.full(3, np.nan))).all()


def test_without_any_effect_there_is_a_discovery_in_as_many_families_as_the_rate_says() -> None:
    random = np.random.default_rng(3)
    families = [(adjusted(random.random(200)) <= 0.1).any() for _ in range(2000)]
    assert 0.07 < np.mean(families) < 0.13


def test_fewer_tests_than_the_fewest_count_as_so_many() -> None:
    p = np.array([0.001, np.nan, 0.5])
    np.testing.assert_allclose(adjusted(p, 10), [0.01, np.nan, 1.0])
    np.testing.assert_allclose(adjusted(p, 2), adjusted(p))
