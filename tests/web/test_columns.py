"""Columns of short numbers, which the pages show like the full ones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchperf_ci.series.points import Point, Series
from torchperf_ci.web.columns import ranges, short_number, value_columns

if TYPE_CHECKING:
    from playwright.sync_api import Browser

LATENCY = Series("r", "b", "m", "", "", "", "cuda", "", "latency(ms)")
EXTREMES = (
    *((12.345, 12.3147, 12.4), (10.02, 9.987, 10.96), (0.0041, 0.00409, 0.0052), (1.0, 1.0, 1.0)),
    *((123456.0, 123412.0, 130001.0), (9999.6, 9998.7, 10000.4), (87.0004, 87.0003, 87.3), (2.5e9, 1e9, 3e9)),
    *((100.0, 0.01234, 98765.0), (-12.5, -13.01, -12.49), (0.0, -1.5, 1e-9), (1e-300, 9e-301, 2e-300)),
)


@pytest.mark.parametrize(
    ("value", "digits", "short"),
    [
        *((0.0041, 4, 0.0041), (12.3456, 4, 12.35), (12.3456, 5, 12.346), (50.0, 4, 50)),
        (123456.4, 4, 123456),  # a page shows whole numbers of this size
        (87.0004, 4, 87.0004),  # as 87 it would be shown without its decimals
        (86.7649, 5, 86.7649),  # 86.765 would be shown as 86.77
    ],
)
def test_a_value_has_no_more_digits_than_are_shown(value: float, digits: int, short: float) -> None:
    told = short_number(value, digits)
    assert (told, type(told)) == (short, type(short))


@given(st.lists(st.integers(0, 12), max_size=12))
def test_ranges_have_all_numbers_in_their_order(numbers: list[int]) -> None:
    assert [first + more for first, count in ranges(numbers) for more in range(count)] == numbers


def test_an_outcome_told_as_a_word_is_a_pass_or_a_failure(browser: Browser, address: str) -> None:
    """TorchInductor's accuracy: its passes must not look like runs without a value, which a chart marks as failed."""
    accuracy = replace(LATENCY, metric="accuracy")
    words = ('["pass"]', '["pass_due_to_skip"]', '["fail_accuracy"]', '["skipped"]')
    points = [(accuracy, Point(None, info={"benchmark_values": word})) for word in words]
    columns = value_columns([*points, (LATENCY, Point(None, info={"status": "oom"}))], 4)
    assert columns["value"] == [1, 1, 0, None, None]
    assert columns["why"] == {2: "fail_accuracy", 3: "no number", 4: "oom"}
    context = browser.new_context()
    page = context.new_page()
    page.goto(address)
    told = [
        page.evaluate(f"import('./js/dom.js').then((dom) => dom.reading({value}, {{ metric: '{metric}' }}))")
        for value, metric in ((1, "accuracy"), (0, "top1_accuracy"), (0, "status"), (1, "graph_breaks"))
    ]
    context.close()
    assert told == ["passes", "fails", "fails", "1"]


def test_a_page_reads_the_extremes_that_were_written(browser: Browser, address: str) -> None:
    """To four digits at least, whatever the value is."""
    points = [Point(value, (low, value, high)) for value, low, high in EXTREMES]
    points.append(Point(None, info={"status": "oom", "reason": "too large"}))
    columns = value_columns([(LATENCY, point) for point in points], 4)
    context = browser.new_context()
    page = context.new_page()
    page.goto(address)
    *rows, missing = page.evaluate(
        "async (columns) => (await import('./js/data.js')).values(columns)", columns
    )
    context.close()
    assert missing == {"value": None, "low": None, "high": None, "n": 0, "why": "oom: too large"}
    for row, (value, low, high) in zip(rows, EXTREMES, strict=True):
        assert row["value"] == pytest.approx(value, rel=1e-3)
        assert (row["low"], row["high"], row["n"]) == (
            pytest.approx(short_number(low, 4), rel=1e-8, abs=0),
            pytest.approx(short_number(high, 4), rel=1e-8, abs=0),
            3,
        )


def test_an_extreme_that_is_the_value_is_no_distance_away() -> None:
    """Although 1.138 is not exactly 1138 times 0.001."""
    columns = value_columns([(LATENCY, Point(1.138, (1.138, 1.138)))], 4)
    assert (columns["below"], columns["above"]) == ([0], [0])
