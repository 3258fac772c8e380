from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_points import DAY, series

from torchperf_ci.series.points import TRUNK_DAYS, differing_facts, restating, trunk_of

FACTS = st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=5)


@given(FACTS, FACTS)
def test_a_difference_is_empty_where_facts_are_equal(a, b):
    assert (differing_facts(a, b) == []) == (a == b)


def test_a_difference_reads_well():
    a, b = {"governor": "powersave", "smt": "on"}, {"governor": "performance", "smt": "on", "turbo": "off"}
    assert differing_facts(a, b) == ["governor: powersave → performance", "turbo: not known → off"]


def test_a_throughput_restates_the_latency_of_its_own_case():
    latency, throughput = series("latency(ms)"), series("throughput(samples/s)")
    alone, other = series("throughput(samples/s)", model="vit"), series("throughput(tokens/s)")
    assert restating([latency, throughput, alone, other, series("peak_memory(MiB)")]) == {throughput}


def nights(branch: str, start: float, days: int, a_day: int = 1) -> list[tuple[str, int]]:
    return [(branch, int((start + night / a_day) * DAY)) for night in range(days * a_day)]


@pytest.mark.parametrize(
    ("trunk", "runs"),
    [
        ("main", [*nights("main", 100, 10), *nights("topic", 105, 2, a_day=6)]),
        ("main", [*nights("main", 100, 1), *nights("topic", 101, 1)]),
        ("main", [*nights("main", 100, 70), *nights("release/2.9", 100, 80)]),
        ("main", [*nights("master", 100, 400), *nights("main", 500, TRUNK_DAYS // 3)]),
        ("master", [*nights("master", 100, 400), *nights("main", 500, TRUNK_DAYS // 3 - 1)]),
        ("viable/strict", [*nights("viable/strict", 100, 80), *nights("main", 100, 9)]),
        ("trunk", [*nights("trunk", 100, 20), *nights("topic", 118, 2, a_day=20), *[("", 0)] * 100]),
        ("late", [("late", 0), ("late", 0), ("try", 0)]),
        ("", [("", 100)]),
    ],
)
def test_the_trunk_is_measured_day_after_day(trunk: str, runs: list[tuple[str, int]]) -> None:
    assert trunk_of(runs) == trunk
