"""When another wheel looks slower, the report says whether build luck alone could explain it."""

from __future__ import annotations

import numpy as np
import pytest
from made_points import DAY, START, point, series
from made_verdicts import judged

NIGHTS = 40


def past(tau: float, sigma: float, torch: str = "wheel {}") -> list:
    """Two runs of each wheel, half a day apart."""
    random = np.random.default_rng(20261202)
    offsets = tau * random.normal(size=NIGHTS)
    values = 10 * np.exp(np.repeat(offsets, 2) + sigma * random.normal(size=2 * NIGHTS))
    return [run(value, half, torch.format(half // 2)) for half, value in enumerate(values)]


def run(value: float, half: int, torch: str):
    when = START + half * DAY // 2
    return point(value, half, timestamp=when, commit="c" * 40, info={"torch": torch})


def newest(factor: float, count: int = 2, torch: str = "new wheel") -> list:
    return [run(10 * factor, 2 * NIGHTS + half, torch) for half in range(count)]


def one(old: list, new: list, metric: str = "latency(ms)"):
    return judged({series(metric): old}, {series(metric): new})[metric]


def test_a_step_that_a_wheel_makes_by_luck_is_told_as_such_and_judged_as_before() -> None:
    verdict = one(past(0.0, 0.004, torch="wheel"), newest(1.02, count=4))
    assert verdict.verdict == "regressed"
    assert "; build luck could explain it (wheels differ by 0.3% by luck, 0.1% to 1.8%)" in verdict.why
    told = verdict.evidence.luck
    assert told
    assert 0.01 < told.chance < 0.05


def test_a_candidate_says_it_too() -> None:
    verdict = one(past(0.01, 0.002), newest(1.02))
    assert (verdict.verdict, verdict.candidate) == ("noisy", True)
    assert "build luck could explain it" in verdict.why
    told = verdict.evidence.luck
    assert told
    assert 0.003 < told.low < 0.01 < told.high


def test_a_step_beyond_luck_says_so() -> None:
    verdict = one(past(0.003, 0.003), newest(1.05, count=5))
    assert verdict.verdict == "regressed"
    assert "; more than build luck explains (wheels differ by " in verdict.why
    told = verdict.evidence.luck
    assert told
    assert told.chance < 0.001


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (past(0.01, 0.002, torch="wheel"), newest(1.05, torch="wheel")),
        (past(0.01, 0.002), newest(1.05, torch=f"wheel {NIGHTS - 1}")),
        (past(0.01, 0.002, torch=""), newest(1.05, torch="")),
        (past(0.01, 0.002), newest(1.05, torch="")),
    ],
    ids=["the same wheel", "a wheel of the past", "no wheels", "an unknown wheel"],
)
def test_where_no_other_wheel_is_known_nothing_is_said_of_luck(old: list, new: list) -> None:
    verdict = one(old, new)
    assert verdict.candidate or verdict.verdict == "regressed"
    assert "luck" not in verdict.why
    assert verdict.evidence.luck is None


@pytest.mark.parametrize("factor", [1.0, 0.9])
def test_nor_where_nothing_is_worse(factor: float) -> None:
    assert one(past(0.003, 0.003), newest(factor, count=5)).evidence.luck is None


def test_runs_of_one_session_say_nothing_of_what_runs_of_a_wheel_differ_by() -> None:
    """Three runs of each wheel in one hour, with an offset of the session, which is no luck of the wheel."""
    random = np.random.default_rng(20261203)
    old = [
        point(10 * np.exp(value), night, info={"torch": f"wheel {night}"}, **at(night, hour))
        for night, session in enumerate(0.02 * random.normal(size=NIGHTS))
        for hour, value in enumerate(session + 0.002 * random.normal(size=3))
    ]
    told = one(old, [point(12.0, NIGHTS, info={"torch": "new wheel"})]).evidence.luck
    assert told
    assert told.tau < 0.005


def at(night: int, hour: int) -> dict:
    return {"timestamp": START + night * DAY + 1200 * hour, "run": f"{night}.{hour}", "commit": "c" * 40}


def test_the_change_itself_is_no_luck_of_the_past() -> None:
    """Its first two runs, of the only other wheel, are in the past by the time the third one proves it."""
    steps = newest(1.08, count=3)
    told = one([*past(0.0, 0.01, torch="wheel"), *steps[:2]], steps[2:]).evidence.luck
    assert told
    assert told.tau < 0.005
