from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from made_points import row

from torchperf_ci import config
from torchperf_ci.series.policy import MetricRule, rule_of_metric, suited

if TYPE_CHECKING:
    from torchperf_ci.metrics import MetricKind

UP = [
    *(
        "throughput(samples/s)",
        "token_per_sec",
        "tokens_per_second",
        "requests_per_second",
        "mfu",
        "flops_utilization",
    ),
    *(
        "memory_bandwidth(GB/s)",
        "geomean_speedup",
        "Speedup (%)",
        "compression_ratio",
    ),
    *("memory_compression_ratio", "tflops", "autoquant_vs_compile_speedup", "free_memory(MiB)"),
]
DOWN = [
    *(
        "latency(ms)",
        "latency",
        "compilation_latency",
        "avg_inference_latency(ms)",
        "median_itl_ms",
        "p99_ttft_ms",
    ),
    *(
        "latency_vs_anchor(ratio)",
        "model_load_time(ms)",
        "Cold compile time (s)",
        "peak_inference_mem_usage(mb)",
    ),
    *("peak_load_mem_usuage(mb)", "dynamo_peak_mem", "peak memory", "compile_time_instruction_count"),
    *("flops(GFLOP)", "execution_time"),
]


@pytest.mark.parametrize(
    ("metric", "direction"), [*((name, "up") for name in UP), *((name, "down") for name in DOWN)]
)
def test_the_known_metrics_have_a_direction(metric: str, direction: str) -> None:
    assert rule_of_metric(metric, config.default_policy()) == MetricRule(direction, 0.03, "ratio")
    assert rule_of_metric(metric, {}).direction == direction


@pytest.mark.parametrize(
    "metric", ["quality", "temperature(C)", "latencies_seen", "timeline", "memorable", ""]
)
def test_nothing_is_guessed(metric: str) -> None:
    assert rule_of_metric(metric, config.default_policy()) == MetricRule("", 0.03, "ratio")


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("status", MetricRule("up", 0.03, "outcome")),
        ("accuracy", MetricRule("up", 0.03, "outcome")),
        ("load_status", MetricRule("up", 0.03, "outcome")),
        ("passrate", MetricRule("up", 0.03, "outcome")),
        ("pass rate (%)", MetricRule("up", 0.03, "outcome")),
        ("graph_breaks", MetricRule("down", 0.03, "count")),
        ("recompiles", MetricRule("down", 0.03, "count")),
        ("memory_leak(KiB/iter)", MetricRule("down", 0.03, "amount")),
        ("host_memory_leak(KiB/iter)", MetricRule("down", 0.03, "amount")),
    ],
)
def test_some_are_no_ratios(metric: str, expected: MetricRule) -> None:
    assert rule_of_metric(metric, config.default_policy()) == expected


def test_the_projects_own_policy_comes_first() -> None:
    policy = {
        "latency(ms)": config.Rule(direction="up", min_effect=0.1),
        "quality": config.Rule(direction="up"),
    }
    assert rule_of_metric("latency(ms)", policy) == MetricRule("up", 0.1, "ratio")
    assert rule_of_metric("quality", policy) == MetricRule("up", 0.03, "ratio")


@pytest.mark.parametrize(
    ("metric", "values", "kind"),
    [
        ("accuracy", [1.0, 0.0, 1.0], "outcome"),
        ("accuracy", [0.78, 0.77, 1.0], "ratio"),
        ("accuracy", [None, None], "outcome"),
        ("score", [3.0, 4.0], "ratio"),
        ("score", [3.0, 0.0, 4.0], "ratio"),
        ("score", [-5.0, -4.0], "amount"),
        ("score", [0.0, 0.0], "amount"),
        ("score", [3.0, -1.0, 4.0], "amount"),
        ("score", [-1.0, *[4.0] * 20], "ratio"),
        ("graph_breaks", [0.0, 0.0], "count"),
        ("score", [], "ratio"),
    ],
)
def test_the_values_tell_what_the_name_does_not(
    metric: str, values: list[float | None], kind: MetricKind
) -> None:
    assert suited(rule_of_metric(metric, {}), row(values)).kind == kind


def test_the_new_values_tell_of_an_outcome_and_of_a_sign() -> None:
    assert suited(rule_of_metric("accuracy", {}), row([1.0]), row([0.7])).kind == "ratio"
    assert suited(rule_of_metric("score", {}), row([3.0]), row([4.0, 0.0])).kind == "ratio"
    assert suited(rule_of_metric("score", {}), row([3.0]), row([-1.0, 0.0])).kind == "amount"
