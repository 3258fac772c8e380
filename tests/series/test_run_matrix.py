from __future__ import annotations

import numpy as np
from made_points import point, row, series

from torchperf_ci.series.points import natural, runs_of
from torchperf_ci.series.run_matrix import run_matrix

A, B, ELSEWHERE = series(model="a"), series(model="b"), series(model="c", arch="MI300")
NAN = np.nan


def test_the_columns_are_the_runs_of_the_machine_and_the_newest_values_come_last() -> None:
    old = {A: row([1.0, None, 3.0]), B: row([5.0], 1), ELSEWHERE: row([7.0, 8.0])}
    new = {A: row([4.0], 3), B: row([6.0, 6.5], 3)}
    found = run_matrix(old, new)
    assert found.series == [A, B, ELSEWHERE]
    np.testing.assert_array_equal(
        found.values,
        [[1.0, NAN, 3.0, NAN, 4.0], [NAN, 5.0, NAN, 6.0, 6.5], [NAN, 7.0, 8.0, NAN, NAN]],
    )


def test_what_one_run_has_measured_has_one_number_and_the_kinds_are_numbered() -> None:
    old = {
        A: row([1.0, 2.0]),
        B: row([5.0, 6.0]),
        series("peak_memory(MiB)"): row([1.0]),
        ELSEWHERE: row([7.0]),
    }
    found = run_matrix(old)
    assert found.jobs[0, -1] == found.jobs[1, -1] != found.jobs[0, -2]
    np.testing.assert_array_equal(found.jobs < 0, np.isnan(found.values))
    assert list(found.groups) == [0, 0, 1, 2]


def test_several_points_of_one_run_become_their_median() -> None:
    found = run_matrix({A: [point(value, 0) for value in (1.0, 9.0, 2.0)]})
    np.testing.assert_array_equal(found.values, [[2.0]])


def test_nothing_is_an_empty_matrix() -> None:
    assert run_matrix({}).values.shape == (0, 0)


def test_runs_are_in_the_order_of_their_times_then_of_their_names() -> None:
    points = [
        point(1.0, 0, timestamp=time, run=run)
        for run, time in [("b", 5), ("a", 9), ("a", 3), ("c10", 9), ("c9", 9)]
    ]
    assert runs_of(points) == ["a", "b", "c9", "c10"]


def test_names_are_ordered_by_the_numbers_in_them() -> None:
    names = ["run-10/a.json", "run-2/a.json", "run/a.json", "run-2/a-10.json", "run-2/a-9.json", "10", "9"]
    assert sorted(names, key=natural) == [
        "9",
        "10",
        "run/a.json",
        "run-2/a-9.json",
        "run-2/a-10.json",
        "run-2/a.json",
        "run-10/a.json",
    ]
