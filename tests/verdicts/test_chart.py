from __future__ import annotations

import re
from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest
from hostile import texts
from hypothesis import given
from hypothesis import strategies as st
from made_night import BERT, REGRESSED, RESNET, VIT, a_regression

from torchperf_ci.document import Chart, Document
from torchperf_ci.markdown import to_markdown
from torchperf_ci.metrics import ANCHORED
from torchperf_ci.verdicts.verdict import evidence_of
from torchperf_ci.verdicts.verdict_document import clearest_chart

PLAIN_LINE = re.compile(
    r'title "[\w./()+ …-]*"|x-axis "[\w, -]*" -\d+ --> 0|y-axis "[\w./()+ …-]*" -?[\d.]+ --> -?[\d.]+|'
    r"line \[-?[\d.]+(, -?[\d.]+)*\]"
)


def shown(chart: Chart) -> str:
    return to_markdown(Document("", [chart])).strip()


def given_points(points: Any, **ends: Any) -> Chart | None:
    return clearest_chart([replace(REGRESSED[0], evidence=evidence_of({"points": points, **ends}))])


def test_it_shows_the_old_level_the_step_and_the_new_level() -> None:
    drawn = clearest_chart([a_regression(RESNET, 1.0, 1.1)])
    assert drawn is not None
    assert len(drawn.values) == len(drawn.levels) == 27
    assert drawn.levels == [1.0] * 24 + [1.1] * 3
    assert all(0.98 < value < 1.02 for value in drawn.values[:24])
    assert all(1.08 < value < 1.12 for value in drawn.values[24:])
    assert (drawn.title, drawn.unit) == ("vision/resnet18 latency on NVIDIA H100 80GB HBM3", "ms")
    assert drawn.days == "from 2026-10-26 to 2026-11-21"


def test_of_several_series_the_clearest_is_drawn() -> None:
    small, large = a_regression(VIT, 1.0, 1.02), a_regression(BERT, 1.0, 1.2)
    noisy = replace(a_regression(RESNET, 1.0, 1.5), noise=0.2)
    assert clearest_chart([small, noisy, large]) == clearest_chart([large])
    assert clearest_chart([replace(large, noise=None)]), "another tool may not know it"


def test_the_ratio_to_an_anchor_is_drawn_instead_of_the_latency_that_follows_it() -> None:
    latency = a_regression(RESNET, 10.0, 1.1)
    ratio = a_regression(replace(RESNET, metric=ANCHORED), 1.0, 1.1)
    for verdicts in ([latency, ratio], [ratio, latency]):
        assert clearest_chart(verdicts) == clearest_chart([ratio])


def test_what_has_no_history_has_no_chart() -> None:
    for points in (
        None,
        "x",
        [],
        [{}],
        [{"value": 1}] * 3,
        [{"value": nan}] * 9,
        [{"value": True}] * 9,
        [1] * 9,
    ):
        assert given_points(points) is None
    assert clearest_chart([]) is None


def test_at_most_the_newest_forty_points_are_drawn() -> None:
    drawn = given_points([{"value": number} for number in range(100)])
    assert drawn is not None
    assert drawn.values == list(range(60, 100))
    assert drawn.levels == ()
    assert drawn.days == ""


@pytest.mark.parametrize(
    ("first", "turn"),
    [
        ({"commit": "c" * 6 + "6"}, 6),
        ({"torch": "c" * 6 + "7"}, 7),
        ({"commit": "c" * 40, "timestamp": 8}, 8),
    ],
)
def test_the_step_is_where_the_evidence_says(first: dict[str, Any], turn: int) -> None:
    timed = "timestamp" in first
    points = [{"value": 1, "commit": f"cccccc{n}", **({"timestamp": n} if timed else {})} for n in range(10)]
    drawn = given_points(points, first_new=first)
    assert drawn is not None
    assert drawn.levels.count(REGRESSED[0].old) == turn


def test_levels_that_cannot_be_drawn_are_left_out() -> None:
    """Such as the largest float, with which some harness says that it has no number."""
    drawn = clearest_chart([replace(a_regression(RESNET, 1.0, 1.1), old=1.7e308)])
    assert drawn is not None
    assert drawn.levels == ()
    assert "line [" in shown(drawn)


@given(
    st.lists(st.floats(-1e15, 1e15, exclude_min=True, exclude_max=True), min_size=4, max_size=40),
    texts,
    st.lists(st.floats(1e-12, 1e12), max_size=2),
)
def test_nothing_but_a_chart_can_be_written(values: list[float], text: str, levels: list[float]) -> None:
    block = shown(Chart(text, text, values, levels))
    begin, *body, end = block.partition("\n\n<sub>")[0].split("\n")
    assert (begin, end) == ("```mermaid", "```")
    lines = body[body.index("xychart-beta") + 1 :]
    assert len(lines) == 4 + bool(levels)
    for line in lines:
        assert PLAIN_LINE.fullmatch(line.strip())


strange = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), texts, st.just(inf), st.just(10**400)
)


@given(
    st.lists(st.dictionaries(st.sampled_from(["value", "commit", "timestamp"]), strange), max_size=50),
    strange,
)
def test_no_evidence_makes_it_fail(points: list[Any], first: Any) -> None:
    drawn = given_points(points, first_new={"timestamp": first, "commit": first})
    if drawn:
        shown(drawn)
