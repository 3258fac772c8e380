from __future__ import annotations

from dataclasses import replace
from math import inf, nan
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchperf_ci.series.points import Series
from torchperf_ci.stats.effect import Effect
from torchperf_ci.verdicts.verdict import Verdict
from torchperf_ci.verdicts.verdict_document import (
    difference_text,
    effect_text,
    levels_text,
    shared_fields,
    verdict_cells,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchperf_ci.verdicts.verdict import Judgement


@pytest.mark.parametrize(
    ("effect", "expected"),
    [
        (Effect(1.031, 1.024, 1.039, 12), "+3.1% (+2.4…+3.9)"),
        (Effect(0.97, 0.95, 1.0, 12), "−3.0% (−5.0…+0.0)"),
        (Effect(0.9999999, 0.99999, 1.00001, 12), "+0.0% (+0.0…+0.0)"),
        (Effect(13.0, 12.0, 14.0, 12), "+1,200.0% (+1,100.0…+1,300.0)"),
        (Effect(1e30, 1e29, 1e31, 12), "+1.0e+32% (+1.0e+31…+1.0e+33)"),
        (Effect(0.0, 0.0, 0.5, 12), "−100.0% (−100.0…−50.0)"),
        (Effect(1.1, 1.05, inf, 12), "+10.0% (+5.0…∞)"),
        (Effect(1.1, 0.0, inf, 5), "+10.0% (no interval)"),
    ],
)
def test_a_change_is_a_percentage_with_its_interval(effect: Effect, expected: str) -> None:
    assert effect_text(effect) == expected


@pytest.mark.parametrize(
    ("metric", "old", "new", "expected"),
    [
        ("latency(ms)", 1.2134, 1.2511, "1.213 → 1.251 ms"),
        ("throughput(samples/s)", 12345.6, 12000, "12,346 → 12,000 samples/s"),
        ("graph_breaks", 0.0, 2.0, "0 → 2"),
        ("latency(ms)", None, 3.5, "– → 3.5 ms"),
        ("latency(ms)", 3.5, nan, "3.5 → – ms"),
        ("latency(ms)", None, None, ""),
        ("x", 1e-7, 1e20, "1.000e-07 → 1.000e+20"),
        ("f(x)(ms)", 1, 1, "1 → 1 ms"),
        ("memory_leak(KiB/iter)", -0.0, -2.5, "0 → −2.5 KiB/iter"),
        ("latency(ms)", 999.97, 999.9, "1,000 → 999.9 ms"),
    ],
)
def test_levels_have_their_unit(verdict: Callable[..., Verdict], metric, old, new, expected) -> None:
    assert levels_text(verdict(metric=metric, old=old, new=new)) == expected


@pytest.mark.parametrize(
    ("old", "new", "ratio", "expected"),
    [
        (5.733, 6.628, 1.102, "5.733 → 6.318 ms"),
        (5.733, 5.1, 1.102, "5.733 → 6.318 ms"),
        (5.733, 5.9, 0.5, "5.733 → 2.866 ms"),
        (5.733, None, 1.102, "5.733 → – ms"),
        (None, 6.628, 1.102, "– → 6.628 ms"),
        (0.0, 2.0, 1.102, "0 → 2 ms"),
        (1.0, 2.0, inf, "1 → – ms"),
        (1.0, 0.0, 0.0, "1 → 0 ms"),
    ],
)
def test_the_levels_agree_with_the_change_beside_them(verdict, old, new, ratio, expected) -> None:
    """Each side's own median is another number than the change of pairs: drift has been taken out of that."""
    assert levels_text(verdict(old=old, new=new, effect=Effect(ratio, ratio, ratio, 10))) == expected


def test_the_detectable_change_is_written_like_the_change(verdict: Callable[..., Verdict]) -> None:
    assert verdict_cells(verdict(detectable=12.5), ())[5] == "±1,250.0%"


@given(old=st.floats(1e-3, 150), drift=st.floats(0.5, 2), ratio=st.floats(0.2, 5))
def test_the_change_follows_from_the_levels_that_are_shown(old: float, drift: float, ratio: float) -> None:
    series = Series("r", "b", "m", "inference", "fp32", "eager", "cpu", "x86", "latency(ms)")
    judged = Verdict(series, "regressed", "", Effect(ratio, ratio, ratio, 10), old, old * drift)
    before, after = (float(word) for word in levels_text(judged).removesuffix(" ms").split(" → "))
    assert after / before == pytest.approx(ratio, rel=2e-3)


@pytest.mark.parametrize(
    ("metric", "old", "new", "expected"),
    [
        ("graph_breaks", 0.0, 2.0, "+2"),
        ("graph_breaks", 3.0, 1.5, "−1.5"),
        ("graph_breaks", 3.0, 3.0, ""),
        ("graph_breaks", None, 1.0, ""),
        ("accuracy", 0.87, 0.0, "−0.87"),
        ("status", 1.0, 0.0, ""),
    ],
)
def test_without_a_ratio_the_change_is_a_difference_except_of_pass_and_fail(
    verdict: Callable[..., Verdict], metric, old, new, expected
):
    assert difference_text(verdict("noisy", metric=metric, old=old, new=new)) == expected


def test_what_all_series_share_is_left_out_of_each_row(verdict: Callable[..., Verdict]) -> None:
    one, other = verdict(model="bert"), verdict(model="bart")
    other = replace(other, series=replace(other.series, mode="training"))
    said = shared_fields([one, other])
    assert said == {
        "dtype": "bf16",
        "backend": "eager",
        "device": "cuda",
        "arch": "H100",
        "benchmark": "nightly",
        "repo": "octo/perf",
    }
    assert [verdict_cells(each, said)[1] for each in (one, other)] == ["bert inference", "bart training"]
    assert verdict_cells(one, {})[1] == "bert inference bf16 eager cuda H100 nightly octo/perf"


def test_no_cell_is_endless(hostile: Judgement) -> None:
    long = [replace(v, why=v.why * 1000, series=replace(v.series, metric="m(" + "x" * 999 + ")")) for v in hostile.verdicts]  # fmt: skip # noqa: E501
    assert max(len(cell) for each in long for cell in verdict_cells(each, {})) <= 300
