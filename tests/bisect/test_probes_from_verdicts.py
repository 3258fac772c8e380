from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from torchperf_ci.bench.case import Case
from torchperf_ci.bench.worker.protocol import DescribedWorkload, KnownWorkloads
from torchperf_ci.bisect.command import _min_effect, _options_from_verdicts, _threads
from torchperf_ci.bisect.probes import (
    NO_NUMBER,
    WorkloadProbe,
    commit_ranges,
    expected_build_variance,
    probes_from_verdicts,
)
from torchperf_ci.config import Config, Rule, default_policy
from torchperf_ci.errors import UsageError
from torchperf_ci.options.comparison_commands import BisectOptions
from torchperf_ci.series.points import Series
from torchperf_ci.verdicts.verdict import BuildVariance, Judgement, Verdict, evidence_of

KNOWN = KnownWorkloads(
    {
        "vision/net": DescribedWorkload(
            "vision/net", "vision", ["inference"], {"inference": 4, "inference/accelerator": 64}, "torch"
        )
    },
    {},
)
OLD, NEW, TORCH_OLD, TORCH_NEW = ("a" * 40, "b" * 40, "c" * 40, "d" * 40)


def verdict(
    metric: str = "latency(ms)", word: str = "regressed", evidence=None, candidate=False, **other
) -> Verdict:
    names = {"model": "vision/net", "mode": "inference", "dtype": "fp32", "backend": "eager", **other}
    series = Series("o/r", "b", **names, device="big cpu", arch="x", metric=metric)
    return Verdict(series, word, "because", candidate=candidate, evidence=evidence_of(evidence or {}))


def judged(*verdicts: Verdict) -> Judgement:
    return Judgement("check", "", "", verdicts)


def the_case(batch: int = 4, backend: str = "eager") -> Case:
    return Case("vision/net", "inference", "fp32", backend, batch, "vision", "torch")


def test_all_that_got_worse_in_a_case_is_one_probe() -> None:
    found = probes_from_verdicts(
        judged(
            verdict(),
            verdict("peak_memory(MiB)", "noisy", candidate=True),
            verdict("latency_vs_anchor(ratio)"),
            verdict("throughput(samples/s)", "improved"),
            verdict(backend="inductor"),
        ),
        KNOWN,
        "cpu",
    )
    assert found.probes == (
        WorkloadProbe(the_case(), ("latency(ms)", "peak_memory(MiB)"), "big cpu"),
        WorkloadProbe(the_case(backend="inductor"), ("latency(ms)",), "big cpu"),
    )
    assert found.left_out == ()


def test_the_series_are_named_as_in_the_verdicts() -> None:
    [probe] = probes_from_verdicts(judged(verdict()), KNOWN, "cpu").probes
    assert probe._series("latency(ms)") == str(verdict().series)


@pytest.mark.parametrize(
    ("told", "device", "batch"),
    [
        (8, "cpu", 8),
        (None, "cpu", 4),
        (None, "cuda", 64),
        *((bad, "cpu", 4) for bad in (0, -1, True, "8", 10**9)),
    ],
)
def test_the_batch_size_is_that_of_the_pairs_or_the_workloads_own(
    told: object, device: str, batch: int
) -> None:
    [probe] = probes_from_verdicts(judged(verdict(evidence={"batch_size": told})), KNOWN, device).probes
    assert probe.case == the_case(batch)


@pytest.mark.parametrize(
    ("worse", "why"),
    [
        (verdict("status", "broken"), NO_NUMBER),
        (verdict("warm_compile_time(s)"), "'warm_compile_time(s)' of a workload cannot be measured in pairs"),
        (verdict(model="vision/other"), "there is no workload 'vision/other'"),
        (verdict(model="*"), "there is no workload '*'"),
        (verdict(mode="training"), "mode 'training'"),
        (verdict(dtype="int4"), "'int4'"),
        (verdict(backend="$(reboot)"), "'$(reboot)'"),
        (verdict("graph_breaks"), "has no graph_breaks"),
    ],
)
def test_what_cannot_be_bisected_is_listed_with_the_reason(worse: Verdict, why: str) -> None:
    found = probes_from_verdicts(judged(worse), KNOWN, "cpu")
    assert found.probes == ()
    [left_out] = found.left_out
    assert left_out.startswith(f"{worse.series} is not bisected: ")
    assert why in left_out


def ends(old: str, new: str, when: int = 1, **more: str) -> dict[str, object]:
    return {
        "last_old": {"commit": old, "timestamp": when, "torch": TORCH_OLD},
        "first_new": {"commit": new, "timestamp": when + 1, "torch": TORCH_NEW},
    }


def test_the_range_is_between_the_last_old_and_the_first_new_commit() -> None:
    assert commit_ranges(judged(verdict(evidence=ends(OLD, NEW)))) == ((OLD, NEW), (TORCH_OLD, TORCH_NEW))


def test_several_ranges_give_the_one_that_holds_them_all() -> None:
    verdicts = [
        verdict(evidence=ends("2" * 40, "3" * 40, 20)),
        verdict("peak_memory(MiB)", evidence=ends("1" * 40, "2" * 40, 10)),
        verdict("graph_breaks", evidence=ends("4" * 40, "5" * 40, 40), backend="inductor"),
        verdict("status", "broken", evidence=ends("0" * 40, "9" * 40, 1)),
        verdict(word="unchanged", evidence=ends("0" * 40, "9" * 40, 90)),
    ]
    assert commit_ranges(judged(*verdicts))[0] == ("1" * 40, "5" * 40)


def test_evidence_that_does_not_tell_gives_no_range() -> None:
    assert commit_ranges(judged(verdict())) == ()


def test_the_most_luck_of_what_got_worse_is_expected_within_reason() -> None:
    def luck(tau: float) -> dict:
        return {"luck": asdict(BuildVariance(tau, 0.001, 0.02, 0.5))}

    got_better = verdict(word="improved", evidence=luck(0.02))
    assert expected_build_variance(judged(got_better, verdict())) == 0.003
    several = (verdict(evidence=luck(0.006)), verdict(word="noisy", candidate=True, evidence=luck(0.01)))
    assert expected_build_variance(judged(got_better, *several)) == 0.01
    assert expected_build_variance(judged(verdict(evidence=luck(0.0)))) == 0.0001
    assert expected_build_variance(judged(verdict(evidence=luck(1.0)))) == 0.05


def test_a_bisection_is_repeated_by_a_metric_that_got_worse() -> None:
    compiled = [verdict(metric, backend="inductor") for metric in ("compile_time(s)", "compile_cpu_time(s)")]
    assert _options_from_verdicts(judged(*compiled))["metric"] == "compile_time(s)"
    assert _options_from_verdicts(judged(*compiled, verdict()))["metric"] is None, "it is the default"


@pytest.mark.parametrize(("sizes", "repeated"), [((8, 8), 8), ((8, 16), None), ((None,), None)])
def test_a_bisection_is_repeated_with_the_batch_size_of_all_that_got_worse(
    sizes: tuple[int | None, ...], repeated: int | None
) -> None:
    verdicts = [verdict(evidence={"batch_size": size}) for size in sizes]
    assert _options_from_verdicts(judged(*verdicts))["batch_size"] == repeated


@pytest.mark.parametrize(
    ("said", "asked", "threads"),
    [((4, 4), None, 4), ((4,), 4, 4), ((4, 8), 2, 2), ((None,), 2, 2), ((10**9,), None, None)],
)
def test_a_bisection_measures_with_the_threads_of_the_verdicts(said, asked, threads) -> None:
    verdicts = judged(*(verdict(evidence={"threads": count}) for count in said))
    options = BisectOptions(threads=asked)
    assert _threads(options, verdicts) == threads
    assert {**vars(options), **_options_from_verdicts(verdicts)}["threads"] == threads


def test_other_threads_than_those_of_the_verdicts_are_refused() -> None:
    with pytest.raises(UsageError, match="measured with --threads 4: remove --threads 2"):
        _threads(BisectOptions(threads=2), judged(verdict(evidence={"threads": 4})))


def test_what_matters_is_the_min_effect_that_matters_to_any_metric_that_is_bisected() -> None:
    """Where 5% of a latency matter, 4% more memory was called not reproduced."""
    config = Config(policy={**default_policy(), "latency(ms)": Rule("down", 0.05)})
    memory, asked = verdict("peak_memory(MiB)"), BisectOptions()
    assert _min_effect(asked, config, judged(memory)) == 0.03
    assert _min_effect(asked, config, judged(memory, verdict())) == 0.03
    assert _min_effect(asked, config, judged(verdict())) == 0.05
    assert _min_effect(asked, config, judged(verdict("status", "broken"))) == 0.05
    assert _min_effect(replace(asked, metric="peak_memory(MiB)"), config, None) == 0.03
