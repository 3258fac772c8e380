"""Evidence counts once, however many metrics repeat it."""

from __future__ import annotations

import numpy as np
import pytest

from torchperf_ci.stats.posterior import evidence_worths

HEADS = np.repeat([4, 8, 12], 8)
BASES = np.zeros_like(HEADS)
NOISE = np.random.default_rng(0).normal(0, 0.01, (3, HEADS.size))
LEVELS = np.repeat([0.0, 0.03, 0.03], 8)


def read(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return BASES, HEADS, LEVELS + values


def test_one_series_counts_whole() -> None:
    assert evidence_worths([read(NOISE[0])]) == pytest.approx([1])


def test_one_number_twice_counts_once() -> None:
    one = read(NOISE[0])
    assert evidence_worths([one, read(NOISE[0].copy())]) == pytest.approx([0.5, 0.5])


def test_series_that_share_a_part_share_as_much_of_their_worth() -> None:
    alike = evidence_worths([read(NOISE[0] + NOISE[1] / 2), read(NOISE[0] + NOISE[2] / 2)])
    apart = evidence_worths([read(NOISE[0]), read(NOISE[1])])
    assert 0.5 < alike.max() < 0.65 < 0.75 < apart.min() < 1


def test_a_step_that_both_show_is_no_shared_luck() -> None:
    steep = 10 * LEVELS
    both = [read(NOISE[0] + steep), read(NOISE[1] + steep)]
    assert evidence_worths(both).min() > 0.75
    assert evidence_worths([(head, base, values) for base, head, values in both]).min() > 0.75


def test_series_of_other_pairs_share_nothing() -> None:
    other = (BASES[:-1], HEADS[:-1], NOISE[1][:-1])
    assert evidence_worths([read(NOISE[0]), other]) == pytest.approx([1, 1])
