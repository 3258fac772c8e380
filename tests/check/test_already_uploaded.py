from __future__ import annotations

import numpy as np
from made_points import point, row, series

from torchperf_ci.check.recorded_past import without_uploaded

A, B, BREAKS = series(model="a"), series(model="b"), series("graph_breaks")


def stored(value: float) -> float:
    """As a store has it."""
    return float(np.float32(value))


def measured(*values: float, **changes: object) -> object:
    return point(sorted(values)[len(values) // 2], 9, repetitions=values, **changes)


def test_a_run_that_the_store_has_already_is_no_past() -> None:
    fresh = {A: [measured(1.10001, 1.20002, run="records")], BREAKS: [measured(0.0, 0.0, run="records")]}
    kept = {
        A: [*row([1.0, 1.0]), measured(*map(stored, (1.10001, 1.20002)), run="77.1")],
        BREAKS: [*row([0.0, 0.0]), measured(0.0, 0.0, run="77.1")],
    }
    assert without_uploaded(kept, fresh) == {A: row([1.0, 1.0]), BREAKS: row([0.0, 0.0])}


def test_the_engine_may_round_the_other_way() -> None:
    """ClickHouse 26 makes 22.2705 of 22.27049921979466; the nearest Float32 is one less."""
    fresh = {A: [measured(28.191726291801732, 26.841045783840162, 22.27049921979466, run="records")]}
    kept = {A: [measured(28.191727, 26.841045, 22.2705, run="77.1")]}
    assert without_uploaded(kept, fresh) == {A: []}


def test_a_run_of_the_same_name_is_the_same() -> None:
    assert without_uploaded({A: row([1.0, 2.0])}, {A: row([2.5], 1)}) == {A: row([1.0])}


def test_runs_that_agree_by_chance_are_others() -> None:
    kept = {A: row([1.5] * 5), BREAKS: row([2.0] * 5)}
    assert without_uploaded(kept, {A: row([1.5], 9), BREAKS: row([2.0], 9)}) == kept


def test_a_run_that_differs_anywhere_is_another() -> None:
    fresh = {A: [measured(1.10001, 1.20002, run="new")], B: [measured(5.0, run="new")]}
    kept = {A: [measured(1.10001, 1.20002, run="77.1")], B: [measured(6.0, run="77.1")]}
    assert without_uploaded(kept, fresh) == kept


def test_numbers_beyond_float32_are_compared_as_they_are() -> None:
    kept = {A: [measured(1e300, run="77.1")]}
    assert without_uploaded(kept, {A: [measured(1e300, run="new")]}) == kept
