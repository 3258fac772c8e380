from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from torchperf_ci import deadline as module
from torchperf_ci.deadline import FIRST_PAUSE, MAX_PAUSE, Deadline


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that only sleeping moves; the sleeps."""
    slept: list[float] = []
    monkeypatch.setattr(module.time, "monotonic", lambda: 1000.0 + sum(slept))
    monkeypatch.setattr(module.time, "sleep", slept.append)
    return slept


def test_the_first_try_comes_at_once_and_the_last_before_the_end(pauses: list[float]) -> None:
    deadline = Deadline.after(60)
    numbers = list(deadline.tries())
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(pauses) == len(numbers) - 1
    assert 0 < deadline.left < MAX_PAUSE


@pytest.mark.parametrize("seconds", [1e7, 1e300])
def test_a_deadline_that_is_never_reached_is_one_until_which_a_program_can_be_waited_for(
    seconds: float,
) -> None:
    left = Deadline.after(seconds).left
    subprocess.run([sys.executable, "-c", ""], timeout=left, capture_output=True, check=True)


def test_what_takes_longer_is_left_to_itself() -> None:
    ended = threading.Event()
    with pytest.raises(TimeoutError):
        Deadline.after(0.1).wait_for(ended.wait)
    ended.set()


def test_what_ends_in_time_is_waited_for_whatever_its_end() -> None:
    deadline = Deadline.after(60)
    assert deadline.wait_for(lambda: "result") == "result"
    with pytest.raises(ZeroDivisionError):
        deadline.wait_for(lambda: 1 / 0)


def test_after_the_deadline_there_is_one_try_left_to_refuse(pauses: list[float]) -> None:
    assert list(Deadline.after(0).tries()) == [1]
    assert not pauses


def test_pauses_double_up_to_the_longest(pauses: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.random, "uniform", lambda low, high: (low, high)[1])
    list(Deadline.after(100).tries(most=10))
    assert pauses == [min(FIRST_PAUSE * 2**number, MAX_PAUSE) for number in range(1, 10)]


def test_hours_of_tries_have_no_end_of_their_own(pauses: list[float]) -> None:
    deadline = Deadline.after(3 * 3600)
    assert len(list(deadline.tries())) > 1024
    assert 0 < deadline.left < MAX_PAUSE


def test_those_who_collided_wait_differently(pauses: list[float]) -> None:
    for _ in range(20):
        list(Deadline.after(100).tries(most=2))
    assert len({round(pause, 6) for pause in pauses}) > 10
    assert all(0 <= pause <= 2 * FIRST_PAUSE for pause in pauses)
