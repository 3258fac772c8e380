from __future__ import annotations

from dataclasses import replace

from torchperf_ci.series.outcomes import disturbances
from torchperf_ci.series.points import Point, Series


def points(
    run: str, cases: int, disturbed: int, latencies: tuple[float, ...] = (1.0, 1.01), device: str = "cpu"
):
    found = {}
    for number in range(cases):
        series = Series(
            "o/r", "nightly", f"a/{number}", "inference", "fp32", "eager", device, "Xeon_2c", "status"
        )
        info = {"disturbed": f"load {number + 3}.0 on 2 CPUs"} if number < disturbed else {}
        found[series] = [Point(1.0, (1.0,), info=info, run=run)]
        found[replace(series, metric="latency(ms)")] = [Point(latencies[0], latencies, run=run)]
    return found


def test_a_quiet_run_has_no_note() -> None:
    assert list(disturbances(points("1.1", 3, 0))) == []
    assert list(disturbances({})) == []


def test_each_machine_that_was_disturbed_is_named_with_its_run() -> None:
    new = {
        **points("41.1", 3, 2),
        **points("41.1", 2, 0, device="cuda"),
        **points("42.1", 1, 1, device="rocm"),
    }
    assert list(disturbances(new)) == [
        "⚠ disturbed during the measurement on cpu (Xeon_2c), run 41.1: 2 of 3 cases, such as: load 3.0 on 2 CPUs",
        "⚠ disturbed during the measurement on rocm (Xeon_2c), run 42.1: 1 of 1 case, such as: load 3.0 on 2 CPUs",
    ]


def test_further_runs_of_a_machine_are_counted() -> None:
    first, second = points("41.1", 3, 2), points("42.1", 3, 1)
    (note,) = disturbances({series: [*row, *second[series]] for series, row in first.items()})
    assert note.endswith(", run 41.1: 2 of 3 cases, such as: load 3.0 on 2 CPUs; and 1 other run")


def test_processes_that_lie_far_apart_are_told() -> None:
    (note,) = disturbances(points("41.1", 3, 0, (1.0, 1.3)))
    assert note == (
        "⚠ disturbed during the measurement on cpu (Xeon_2c), run 41.1: processes of a case differ by 30%"
    )


def test_what_a_record_says_is_cut() -> None:
    new = points("41.1", 1, 1)
    new = {series: [Point(1.0, (1.0,), info={"disturbed": "x" * 10_000}, run="41.1")] for series in new}
    assert max(map(len, disturbances(new))) < 500
