from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from torchperf_ci.bench.profiles import Cost, Profile, ProfileKey, compare_profiles

if TYPE_CHECKING:
    from collections.abc import Mapping

STEP = {"addmm": 1.0, "erf": 0.6, "layer_norm": 0.4, "cumsum": 0.3, "mul": 0.2, "add": 0.1, "arange": 0.002}
"""Milliseconds of a step's operators; each is called twelve times."""


def profile(
    times: Mapping[str, float], counts: Mapping[str, float] | None = None, kind: str = "operator", **more
) -> Profile:
    calls = dict.fromkeys(times, 12.0) | dict(counts or {})
    return Profile({ProfileKey(kind, name): Cost(ms, calls[name]) for name, ms in times.items()}, **more)


def noisy(rng: random.Random, times: Mapping[str, float], of_process: float, of_row: float = 0.01) -> Profile:
    """As on a machine where whole processes differ, and rows a little more."""
    speed = rng.lognormvariate(0, of_process)
    return profile({name: ms * speed * rng.lognormvariate(0, of_row) for name, ms in times.items()})


def moved(old: list[Profile], new: list[Profile]) -> list[str]:
    return [row.key.name for row in compare_profiles(old, new).moved]


def test_what_got_slower_is_told_with_what_it_took_before_and_now() -> None:
    old = [profile(STEP), profile({**STEP, "erf": 0.61})]
    new = [profile({**STEP, "erf": 0.80}), profile({**STEP, "erf": 0.82})]
    [row] = compare_profiles(old, new).moved
    assert row.key == ProfileKey("operator", "erf")
    assert (row.old.ms, row.new.ms, row.change_ms) == pytest.approx((0.605, 0.81, 0.205))
    assert (row.old.count, row.new.count, row.noise_ms) == (12, 12, pytest.approx(0.02))
    assert (row.in_time, row.in_count) == (True, False)


def test_the_same_twice_moves_nothing_and_all_rows_are_there() -> None:
    changes = compare_profiles([profile(STEP)] * 2, [profile(STEP)] * 2)
    assert (changes.moved, changes.graph_breaks) == ((), ())
    assert {row.key.name for row in changes.rows} == {*STEP}


@pytest.mark.parametrize("of_process", [0.0, 0.15])
def test_profiles_of_one_build_hardly_ever_name_anything(of_process: float) -> None:
    rng = random.Random(7)
    named = 0
    for _ in range(500):
        sides = [[noisy(rng, STEP, of_process) for _ in range(2)] for _ in range(2)]
        named += bool(moved(*sides))
    assert named <= 15


@pytest.mark.parametrize("of_process", [0.0, 0.15])
def test_what_moved_by_more_than_the_noise_is_named_alone_on_any_machine(of_process: float) -> None:
    rng = random.Random(8)
    slower = {**STEP, "layer_norm": 0.6}
    found = [
        moved(
            [noisy(rng, STEP, of_process), noisy(rng, STEP, of_process)],
            [noisy(rng, slower, of_process), noisy(rng, slower, of_process)],
        )
        for _ in range(200)
    ]
    assert sum("layer_norm" in names for names in found) == 200
    assert sum(len(names) > 1 for names in found) <= 12


def test_where_everything_got_slower_on_a_quiet_machine_everything_is_told() -> None:
    slower = {name: 1.1 * ms for name, ms in STEP.items()}
    assert moved([profile(STEP)] * 2, [profile(slower)] * 2) == ["addmm", "erf", "layer_norm", "cumsum"]


def test_sides_that_lie_apart_by_less_than_one_of_them_is_wide_have_not_moved() -> None:
    def with_erf(*times: float) -> list[Profile]:
        return [profile({**STEP, "erf": ms}) for ms in times]

    assert moved(with_erf(0.5, 0.7), with_erf(0.8, 0.9)) == []
    assert moved(with_erf(0.5, 0.7), with_erf(0.95, 1.0)) == ["erf"]


def test_a_step_of_one_operator_is_compared_as_it_is() -> None:
    old = [profile({"mm": 1.0}), profile({"mm": 1.1})]
    assert moved(old, [profile({"mm": 1.5}), profile({"mm": 1.55})]) == ["mm"]


def test_what_is_new_or_gone_or_called_more_often_is_told_after_what_takes_time() -> None:
    old = [profile({**STEP, "view": 0.001})] * 2
    new = [profile({**STEP, "item": 0.001, "copy_": 0.5}, {"arange": 13})] * 2
    rows = compare_profiles(old, new).moved
    assert [(row.key.name, row.in_time, row.in_count) for row in rows] == [
        ("copy_", True, True),
        ("item", False, True),
        ("view", False, True),
        ("arange", False, True),
    ]
    assert [(row.old is None, row.new is None) for row in rows] == [
        (True, False), (True, False), (False, True), (False, False),
    ]  # fmt: skip


def test_counts_that_differ_from_process_to_process_are_no_change() -> None:
    old = [profile(STEP, {"add": 12.0}), profile(STEP, {"add": 12.1})]
    assert moved(old, [profile(STEP, {"add": 12.1}), profile(STEP, {"add": 12.2})]) == []


def test_a_change_that_nobody_would_look_for_is_not_told() -> None:
    assert moved([profile(STEP)] * 2, [profile({**STEP, "arange": 0.01})] * 2) == []


def test_phases_go_with_the_speed_of_the_operators_and_kinds_are_kept_apart() -> None:
    def step(speed: float, backward: float) -> Profile:
        phases = {
            ProfileKey("phase", "forward"): Cost(2.6 * speed, 1),
            ProfileKey("phase", "backward"): Cost(backward * speed, 1),
        }
        return Profile({**profile({name: ms * speed for name, ms in STEP.items()}).costs, **phases})

    changes = compare_profiles([step(1.0, 5.0), step(1.3, 5.0)], [step(1.5, 6.0), step(1.1, 6.0)])
    assert [row.key for row in changes.moved] == [ProfileKey("phase", "backward")]


def test_graph_breaks_are_new_where_there_are_more_of_them_for_a_reason() -> None:
    def broken(**breaks: int) -> Profile:
        return profile(STEP, graph_breaks=breaks)

    old = [broken(print=1, item=1), broken(print=2, item=1)]
    new = [broken(print=2, item=2, log=3), broken(print=2, item=3, log=3)]
    assert compare_profiles(old, new).graph_breaks == ("log", "item")
