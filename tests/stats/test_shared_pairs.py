"""Evidence counts once, however many metrics repeat it."""

from __future__ import annotations

import numpy as np
import pytest

from torchperf_ci.stats.build_variance import Readings
from torchperf_ci.stats.posterior import evidence_worths

HEADS = np.repeat([4, 8, 12], 8)
BASES = np.zeros_like(HEADS)
NOISE = np.random.default_rng(0).normal(0, 0.01, (3, HEADS.size))
LEVELS = np.repeat([0.0, 0.03, 0.03], 8)


def read(values: np.ndarray, *, first: int = 0, without: int | None = None) -> Readings:
    """A series of pairs whose numbers begin with ``first``, ``without`` one of them."""
    kept = np.arange(HEADS.size) != without
    columns = (BASES[kept], HEADS[kept], (LEVELS + values)[kept])
    return Readings(*columns, pairs=first + np.flatnonzero(kept))


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
    turned = [Readings(one.head, one.base, one.values, pairs=one.pairs) for one in both]
    assert evidence_worths(turned).min() > 0.75


def test_series_of_other_pairs_share_nothing() -> None:
    """Also those of the same builds, as of another probe."""
    other = read(NOISE[0], first=HEADS.size)
    assert evidence_worths([read(NOISE[0]), other]) == pytest.approx([1, 1])


def test_pairs_that_some_series_lack_leave_what_they_share_of_the_others() -> None:
    same = [read(NOISE[0], without=place) for place in (None, 3, 17)]
    assert evidence_worths(same) == pytest.approx([0.34] * 3, abs=0.01)
    few = read(NOISE[0])
    few = Readings(few.base[:8], few.head[:8], few.values[:8], pairs=few.pairs[:8])
    assert evidence_worths([read(NOISE[0]), few]) == pytest.approx([0.75, 0.5])
