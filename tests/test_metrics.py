from __future__ import annotations

import pytest

from torchperf_ci import metrics
from torchperf_ci.metrics import (
    METRICS,
    PAIRED,
    bisected_as,
    is_positive,
    is_timing,
    last_digit,
    name_and_unit,
)


@pytest.mark.parametrize("metric", METRICS)
def test_the_words_of_a_name_agree_with_the_table(metric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another harness calls the same is judged in the same way, whatever its unit."""
    monkeypatch.setattr(metrics, "METRICS", {})
    assert metrics.kind_of(metric) == METRICS[metric].kind
    if metric != metrics.FLOPS:  # a number of operations for us, operations a second for others
        assert metrics.direction_of(metric) == METRICS[metric].direction


@pytest.mark.parametrize("metric", ["accuracy_drop(%)", "peak memory savings", "latency_reduction(ms)"])
def test_a_word_that_reverses_the_others_leaves_the_direction_open(metric: str) -> None:
    assert (metrics.direction_of(metric), metrics.kind_of(metric)) == ("", "ratio")


@pytest.mark.parametrize(
    ("metric", "better"),
    [
        ("free_gpu_memory(MiB)", "up"),
        ("gpu_mem_available(GB)", "up"),
        ("avail_mem", "up"),
        ("std_ttft_ms", "down"),
        ("throughput_stddev(tokens/s)", "down"),
    ],
)
def test_a_word_beside_the_quantity_may_turn_it(metric: str, better: str) -> None:
    """More free memory is not more memory in use, and a throughput that varies more is not higher."""
    assert metrics.direction_of(metric) == better


def test_pairs_tell_what_they_measure_and_the_anchored_ratio_by_the_latency() -> None:
    assert {metric: bisected_as(metric) for metric in METRICS if bisected_as(metric)} == {
        **{metric: metric for metric in PAIRED},
        metrics.ANCHORED: metrics.LATENCY,
    }
    assert bisected_as("quality") == ""


@pytest.mark.parametrize(
    ("metric", "name", "unit"),
    [
        ("latency(ms)", "latency", "ms"),
        ("pass rate (%) ", "pass rate", "%"),
        ("graph_breaks", "graph_breaks", ""),
        ("a (b) (c)", "a (b)", "c"),
        ("a (b) c", "a (b) c", ""),
        ("(" * 9, "(" * 9, ""),
    ],
)
def test_the_unit_stands_in_parentheses_at_the_end(metric: str, name: str, unit: str) -> None:
    assert name_and_unit(metric) == (name, unit)


@pytest.mark.parametrize(
    "metric", ["latency(ms)", "flops(GFLOP)", "TTFT_p99", "geomean_speedup", "peak_memory(MiB)"]
)
def test_what_is_positive_by_nature_is_known(metric: str) -> None:
    assert is_positive(metric)


@pytest.mark.parametrize(
    "metric",
    [
        "score",
        "status",
        "graph_breaks",
        "memory_leak(KiB/iter)",
        "latency_delta(ms)",
        "Speedup (%)",
        "pass_rate",
        "latency_std(ms)",
    ],
)
def test_what_may_be_zero_is_not(metric: str) -> None:
    assert not is_positive(metric)


def test_what_says_how_fast_something_runs_is_known() -> None:
    known = (
        "latency(ms)",
        "latency_vs_anchor(ratio)",
        "time(ms)",
        "median_itl_ms",
        "token_per_sec",
        "speedup",
    )
    others = (
        "compile_time(s)",
        "compilation_latency",
        "std_ttft_ms",
        "flops(GFLOP)",
        "memory(GB)",
        "time_diff",
    )
    assert [metric for metric in (*known, *others) if is_timing(metric)] == [*known]


@pytest.mark.parametrize(
    ("values", "unit"),
    [
        ([10, 11], 1),
        ([0.0, 1500], 1),
        ([10, 10.4], 0.1),
        ([1.5e-05], 1e-6),
        ([10, 10.0431], 0),
        ([10.399999618530273], 0.1),  # 10.4 as a store returns it
    ],
)
def test_the_last_digit_of_values(values: list[float], unit: float) -> None:
    assert last_digit("latency(ms)", values) == pytest.approx(unit)
    assert not last_digit("peak_memory(MiB)", values)
    assert not last_digit("pass_rate", values)
