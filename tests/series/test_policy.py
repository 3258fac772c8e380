from __future__ import annotations

import pytest

from torchperf_ci import config
from torchperf_ci.series.policy import Rule, is_positive, rule

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
        "passrate",
        "pass rate (%)",
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
    assert rule(metric, config.default_policy()) == Rule(direction, 0.03, "ratio")
    assert rule(metric, {}).direction == direction


@pytest.mark.parametrize(
    "metric", ["quality", "temperature(C)", "latencies_seen", "timeline", "memorable", ""]
)
def test_nothing_is_guessed(metric: str) -> None:
    assert rule(metric, config.default_policy()) == Rule("", 0.03, "ratio")


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("status", Rule("up", 0.03, "outcome")),
        ("accuracy", Rule("up", 0.03, "outcome")),
        ("load_status", Rule("up", 0.03, "outcome")),
        ("graph_breaks", Rule("down", 0.03, "count")),
        ("recompiles", Rule("down", 0.03, "count")),
        ("memory_leak(KiB/iter)", Rule("down", 0.03, "amount")),
        ("host_memory_leak(KiB/iter)", Rule("down", 0.03, "amount")),
    ],
)
def test_some_are_no_ratios(metric: str, expected: Rule) -> None:
    assert rule(metric, config.default_policy()) == expected


def test_the_projects_own_policy_comes_first() -> None:
    policy = {
        "latency(ms)": config.Rule(direction="up", min_effect=0.1),
        "quality": config.Rule(direction="up"),
    }
    assert rule("latency(ms)", policy) == Rule("up", 0.1, "ratio")
    assert rule("quality", policy) == Rule("up", 0.03, "ratio")


@pytest.mark.parametrize(
    ("target", "level", "direction"),
    [(10.0, 5.0, "up"), (10.0, 20.0, "down"), (10.0, 10.0, ""), (0.0, 5.0, ""), (10.0, None, "")],
)
def test_a_target_tells_the_way_where_nothing_else_does(
    target: float, level: float | None, direction: str
) -> None:
    assert rule("quality", {}, target, level).direction == direction
    assert rule("latency(ms)", {}, target, level).direction == "down"


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
    ],
)
def test_what_may_be_zero_is_not(metric: str) -> None:
    assert not is_positive(metric)
