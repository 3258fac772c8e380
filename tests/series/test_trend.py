"""The trend of latencies by day, and the levels of a series."""

from __future__ import annotations

import pytest
from made_points import DAY, START, point, row, series

from torchperf_ci.config import default_policy
from torchperf_ci.records.schema import LATEST_SECOND
from torchperf_ci.series.level_changes import SeriesLevel, levels_of
from torchperf_ci.series.policy import rule_of_metric
from torchperf_ci.series.run_comparison import TREND_DAYS, latency_trend
from torchperf_ci.series.segmenting import segment_all


def test_a_day_is_the_geometric_mean_of_the_series_relative_to_their_own_level() -> None:
    points = {
        series(model="a"): [*row([10.0] * 4), point(11.0, 4), point(11.0, 4)],
        series(model="b"): [*row([200.0] * 4), point(180.0, 4)],
        series(model="c"): row([5.0] * 4),
        series("throughput(samples/s)"): row([1.0, 9.0, 1.0, 9.0, 1.0]),
    }
    trend = latency_trend(points, {})
    assert trend.day == [(START // DAY + day) * DAY for day in range(5)]
    assert trend.ratio == pytest.approx([1, 1, 1, 1, (1.1 * 0.9) ** 0.5])
    assert trend.n == [3, 3, 3, 3, 2]


def test_days_without_a_number_and_old_days_are_left_out() -> None:
    values = [7.0, None, *[10.0] * TREND_DAYS]
    values[50] = None
    trend = latency_trend({series(): row(values)}, {})
    assert len(trend.day) == TREND_DAYS - 1
    assert set(trend.ratio) == {1.0}
    assert latency_trend({}, {}).day == []


def test_one_time_in_milliseconds_hides_no_day() -> None:
    points = {series(): row([7.0, 8.0])}
    points_with_odd = {series(): [*row([7.0, 8.0]), point(9.0, 2)._replace(timestamp=LATEST_SECOND)]}
    assert latency_trend(points_with_odd, {}) == latency_trend(points, {})


def test_levels_lie_between_changes_of_level_and_of_machine() -> None:
    values = [10.0, 10.1] * 10 + [12.0, 12.1] * 10 + [None] * 3
    points = [*row(values[:30]), *row(values[30:], 30, fingerprint={"driver": "560"})]
    (history,) = segment_all(
        {series(): points}, lambda name, _: rule_of_metric(name.metric, default_policy())
    )
    assert levels_of(points, history) == [
        SeriesLevel(START, START + 19 * DAY, pytest.approx(10.05)),
        SeriesLevel(START + 20 * DAY, START + 29 * DAY, pytest.approx(12.05)),
        SeriesLevel(START + 30 * DAY, START + 42 * DAY, pytest.approx(12.05)),
    ]
    turns = [point(10.0 + day % 2, day, fingerprint={"cpu_capability": str(day % 2)}) for day in range(8)]
    (history,) = segment_all({series(): turns}, lambda name, _: rule_of_metric(name.metric, default_policy()))
    assert [(level.start - START, level.value) for level in levels_of(turns, history)] == [
        (0, 10.0),
        (DAY, 11.0),
    ]
    assert levels_of([], segment_all({series(): []}, lambda *_: rule_of_metric("latency(ms)", {}))[0]) == []
