from __future__ import annotations

import pytest

from torchperf_ci.bisect.measurement_setup import levels_from_verdicts, moved_under_good, other_machines
from torchperf_ci.bisect.reasoning.evidence import BisectReading
from torchperf_ci.config import Rule
from torchperf_ci.machine.devices.interface import DeviceIdentity
from torchperf_ci.series.points import Series
from torchperf_ci.verdicts.verdict import Judgement, Verdict

HERE = DeviceIdentity("cuda", "NVIDIA H100")


def verdict(old: float | None, new: float | None, metric: str = "latency(ms)", **where: str) -> Verdict:
    machine = {"device": "cuda", "arch": "NVIDIA H100", **where}
    series = Series("", "", "net", "inference", "fp32", "eager", metric=metric, **machine)
    return Verdict(series, "regressed", "because", old=old, new=new)


def moved(measured: dict[str, list[float]], *verdicts: Verdict) -> list[float]:
    """What good is found to measure now, if that is what bad was."""
    readings = [
        BisectReading("net", 0, 5, {}, "confirm", values={str(verdict.series): value})
        for verdict in verdicts
        for value in measured[verdict.series.metric]
    ]
    later = [
        BisectReading("net", 3, 5, {}, "verify", values={str(verdict.series): 1e9}) for verdict in verdicts
    ]
    levels = levels_from_verdicts(
        Judgement("check", "", "", verdicts), HERE, {"score": Rule("up", 0.03)}, 0.03
    )
    return [*moved_under_good([*readings, *later], levels).values()]


@pytest.mark.parametrize(
    ("values", "is_moved"),
    [([10.9, 99.0, 11.1], True), ([10.51], True), ([10.45], False), ([9.0], False), ([30.0], True)],
)
def test_good_is_as_slow_as_bad_where_its_median_is_nearer_to_new_as_ratios_go(
    values: list[float], is_moved: bool
) -> None:
    assert bool(moved({"latency(ms)": values}, verdict(10.0, 11.0))) == is_moved


@pytest.mark.parametrize(
    "unknown",
    [
        verdict(10.0, 10.2),
        verdict(11.0, 10.0),
        verdict(None, 11.0),
        verdict(0.0, 11.0),
        verdict(10.0, 11.0, "made-up"),
        verdict(10.0, 11.0, arch="NVIDIA A100"),
        verdict(10.0, 11.0, device="rocm"),
    ],
)
def test_no_level_is_believed_that_is_no_worse_or_not_known_here(unknown: Verdict) -> None:
    assert moved({unknown.series.metric: [11.0]}, unknown) == []


def test_a_machine_that_nobody_named_may_be_this_one() -> None:
    assert moved({"latency(ms)": [11.0]}, verdict(10.0, 11.0, arch=""))


@pytest.mark.parametrize("metric", ["throughput(samples/s)", "score"])
def test_what_is_better_higher_is_worse_where_it_fell(metric: str) -> None:
    assert moved({metric: [100.0]}, verdict(120.0, 100.0, metric)) == [100.0]
    assert moved({metric: [120.0]}, verdict(100.0, 120.0, metric)) == []


def test_all_series_must_have_moved() -> None:
    both = verdict(10.0, 11.0), verdict(100.0, 200.0, "peak_memory(MiB)")
    assert moved({"latency(ms)": [11.0], "peak_memory(MiB)": [200.0]}, *both) == [11.0, 200.0]
    assert moved({"latency(ms)": [11.0], "peak_memory(MiB)": [100.0]}, *both) == []


def test_what_got_worse_on_another_machine_is_said_to_be_bisected_on_this_one() -> None:
    here, elsewhere = verdict(10.0, 11.0, arch=""), verdict(10.0, 11.0, device="cpu", arch="Xeon_8c")
    assert other_machines(Judgement(verdicts=[here, verdict(10.0, 11.0)]), HERE) == ()
    [note] = other_machines(Judgement(verdicts=[here, elsewhere, elsewhere]), HERE)
    assert note.startswith(
        "⚠ what got worse was measured on Xeon_8c (cpu), and is bisected on NVIDIA H100 (cuda)"
    )
