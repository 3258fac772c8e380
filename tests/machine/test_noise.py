from __future__ import annotations

import time

import pytest

from torchperf_ci.machine import examination
from torchperf_ci.machine.examination import BlockNoise, measure_noise, noise_of


def test_noise_is_the_spread_of_equal_blocks():
    found = noise_of([0.9, 1.0, 1.1])
    assert found.cv == pytest.approx(0.1)
    assert found.typical == 1.0


def test_what_can_be_resolved_by_hand():
    assert BlockNoise(cv=0.01, typical=1.0).resolvable == pytest.approx(2.8 * 0.01 * (2 / 3) ** 0.5)


def test_the_same_work_is_timed_over_and_over(monkeypatch):
    works = []
    clock = iter(range(1000))
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(examination, "_work_for", lambda _: 7)
    real = examination._block
    monkeypatch.setattr(examination, "_block", lambda work: works.append(work) or real(work))
    assert measure_noise(4) == BlockNoise(cv=0.0, typical=1)
    assert works == [7] * 5


def test_this_machine_has_some():
    assert measure_noise(5).cv > 0


def test_a_disturbance_while_the_work_is_sized_does_not_shrink_it(monkeypatch):
    disturbances = iter([0.0, 10.0] * 100)
    monkeypatch.setattr(examination, "_block", lambda work: work * 1e-6 + next(disturbances))
    assert examination._work_for(0.02) == 20_000
