from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from torchperf_ci.bench.case import Case
from torchperf_ci.bench.pairs import Pair
from torchperf_ci.bisect.probes import CommandProbe, WorkloadProbe, printed_unit
from torchperf_ci.errors import UsageError
from torchperf_ci.metrics import GRAPH_BREAKS, METRICS, PAIRED, PEAK_MEMORY, KnownMetric

if TYPE_CHECKING:
    from pathlib import Path

COMPILED = Case("made/one", "inference", "fp32", "inductor", 4)
EAGER = Case("made/one", "inference", "fp32", "eager", 4)


def a_pair(slower: float = 1.0, peaks=(100.0, 100.0), breaks=(0.0, 0.0)) -> Pair:
    base, head = ({PEAK_MEMORY: peak, GRAPH_BREAKS: count} for peak, count in zip(peaks, breaks, strict=True))
    return Pair((math.log(slower),) * 3, 1.0, slower, base, head)


def test_what_gets_worse_is_positive_whichever_way_the_metric_goes() -> None:
    probe = WorkloadProbe(COMPILED, PAIRED, "cpu")
    assert probe.log_ratios(a_pair(2.0, (100, 300), (0, 1))) == {
        "made/one latency(ms) (inference fp32 inductor cpu)": pytest.approx(math.log(2)),
        "made/one throughput(samples/s) (inference fp32 inductor cpu)": pytest.approx(math.log(2)),
        "made/one peak_memory(MiB) (inference fp32 inductor cpu)": pytest.approx(math.log(3)),
        "made/one graph_breaks (inference fp32 inductor cpu)": pytest.approx(math.log(2)),
    }
    assert all(ratio < 0 for ratio in probe.log_ratios(a_pair(0.5, (300, 100), (1, 0))).values())


def test_a_metric_whose_better_direction_is_up_gets_worse_as_it_falls(monkeypatch) -> None:
    monkeypatch.setitem(METRICS, "cache_hits", KnownMetric("cache_hits", "up"))
    pair = Pair((0.0,), 1.0, 1.0, {"cache_hits": 3.0}, {"cache_hits": 1.0})
    assert pair.worsening("cache_hits") == pytest.approx(math.log(3))


def test_what_base_measured_is_in_the_unit_of_each_metric() -> None:
    probe = WorkloadProbe(COMPILED, PAIRED, "cpu")
    assert probe.values(replace(a_pair(9.0, (3.0, 9.0), (2.0, 9.0)), base_seconds=0.5)) == {
        "made/one latency(ms) (inference fp32 inductor cpu)": 500.0,
        "made/one throughput(samples/s) (inference fp32 inductor cpu)": 8.0,
        "made/one peak_memory(MiB) (inference fp32 inductor cpu)": 3.0,
        "made/one graph_breaks (inference fp32 inductor cpu)": 2.0,
    }
    assert WorkloadProbe(EAGER, ("peak_memory(MiB)",)).values(a_pair(peaks=(0, 100))) == {}


def test_latency_is_what_is_looked_at_if_nothing_else_is_said() -> None:
    assert WorkloadProbe(EAGER).log_ratios(a_pair(2.0)) == {
        "made/one latency(ms) (inference fp32 eager)": pytest.approx(math.log(2))
    }


def test_memory_that_is_not_counted_has_no_ratio() -> None:
    assert WorkloadProbe(EAGER, ("peak_memory(MiB)",)).log_ratios(a_pair(peaks=(0, 100))) == {}


@pytest.mark.parametrize(
    ("case", "metric", "said"),
    [
        (
            EAGER,
            "warm_compile_time(s)",
            r"'warm_compile_time\(s\)' of a workload cannot be measured in pairs.*--command",
        ),
        (EAGER, "graph_breaks", "no graph_breaks in eager mode"),
        (EAGER, "compile_cpu_time(s)", r"no compile_cpu_time\(s\) in eager mode"),
    ],
)
def test_a_metric_that_no_pair_tells_is_refused(case: Case, metric: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        WorkloadProbe(case, (metric,))


def test_names_tell_probes_apart() -> None:
    probes = (WorkloadProbe(EAGER), WorkloadProbe(COMPILED), CommandProbe("echo 1"))
    assert len({probe.name for probe in probes}) == 3


def test_a_command_tells_costs(tmp_path: Path) -> None:
    (tmp_path / "stdout").write_text("20\n")
    probe = CommandProbe("./speed", "throughput(samples/s)")
    assert probe.costs(tmp_path / "stdout") == {"throughput(samples/s)": 0.05}


@pytest.mark.parametrize(
    ("text", "unit"),
    [("104", 1 / 104), ("12.0", 0.1 / 12), ("1.5e-3", 1e-4 / 1.5e-3), ("[]", 0.0), ("0", 0.0)],
)
def test_the_digits_that_are_printed_are_the_resolution(tmp_path: Path, text: str, unit: float) -> None:
    output = tmp_path / "stdout"
    output.write_text(f"warming up\n{text}\n")
    assert printed_unit(output) == pytest.approx(unit)
