"""Which series are judged, and which points their new ones are compared with."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from made_points import MACHINE, noisy, point, row, series
from made_verdicts import LATENCY, OTHER, STATUS, judged, one

from torchperf_ci.check.judging import judge_all
from torchperf_ci.check.pairing import crept_up, subtracted, unseen_between
from torchperf_ci.config import default_policy

if TYPE_CHECKING:
    from torchperf_ci.series.points import Points
    from torchperf_ci.verdicts.verdict import Verdict

THROUGHPUT = series("throughput(samples/s)")


def test_of_several_new_runs_all_are_new() -> None:
    verdict = one(noisy(10, 30), noisy(11, 60))
    assert verdict.verdict == "regressed"
    assert verdict.evidence.others["runs"] == 60
    assert verdict.old == pytest.approx(10, rel=0.01)


@pytest.mark.parametrize(
    ("metric", "past", "now", "word"),
    [
        ("latency(ms)", 10.0, 11.0, "noisy"),  # may be 10.45 and 10.55
        ("latency(ms)", 10.0, 12.0, "regressed"),
        ("latency(ms)", 10.0, 10.6, "regressed"),
        ("latency(ms)", 10.4, 11.0, "regressed"),
        ("latency(ms)", 11.0, 10.0, "noisy"),
        ("latency(ms)", 12.0, 10.0, "improved"),
        ("latency(ms)", 100.0, 105.0, "regressed"),
        ("wait_time(ms)", 0.0, 1.0, "noisy"),
        ("wait_time(ms)", 0.0, 2.0, "regressed"),
        ("peak_memory(MiB)", 10.0, 11.0, "regressed"),  # are whole numbers because they count bytes
        ("memory_leak(KiB/iter)", 0.0, 1.0, "regressed"),
    ],
)
def test_what_rounding_may_explain_is_no_proof(metric: str, past: float, now: float, word: str) -> None:
    verdict = one([past] * 30, [now] * 3, metric)
    assert (verdict.verdict, verdict.candidate) == (word, word == "noisy" and now > past)
    assert verdict.why.endswith("the rounding of the values may explain it: record more digits") == (
        word == "noisy"
    )
    if word == "noisy" and verdict.effect:
        assert verdict.effect.low < 1 < verdict.effect.high


def test_how_coarse_values_are_is_told_by_the_repetitions() -> None:
    """The median of 10 and 11 whole milliseconds has a digit more than these."""
    past = row([10.5] * 30, repetitions=(10.0, 10.0, 11.0, 11.0))
    verdict = judged({LATENCY: past}, {LATENCY: row([11.0] * 3, 30)})["latency(ms)"]
    assert (verdict.verdict, verdict.candidate) == ("noisy", True)


def test_only_points_of_the_same_machine_count() -> None:
    past = [*row(noisy(10, 20)), *row(noisy(20, 20), 20, fingerprint=OTHER)]
    assert judged({LATENCY: past}, {LATENCY: row([20.0, 20.1], 40, fingerprint=OTHER)})[
        "latency(ms)"
    ].verdict == ("unchanged")
    back = judged({LATENCY: past}, {LATENCY: row([10.0, 10.1], 40)})["latency(ms)"]
    assert back.verdict == "unchanged"
    assert back.evidence.others["history"] < 25


def test_a_machine_that_was_never_seen_is_not_comparable_and_says_in_what() -> None:
    verdict = judged({LATENCY: row(noisy(10, 20))}, {LATENCY: row([20.0] * 3, 20, fingerprint=OTHER)})[
        "latency(ms)"
    ]
    assert verdict.verdict == "not-comparable"
    assert verdict.why == "earlier runs differ in driver: 550 → 560"
    assert verdict.evidence.others["differs"] == ["driver: 550 → 560"]


def test_a_workload_that_has_changed_is_called_so_and_not_regressed() -> None:
    old, new = ({"workload_config": config} for config in ("1a", "1a timm 1.1.0"))
    past = row(noisy(10, 20), fingerprint=old)
    verdict = judged({LATENCY: past}, {LATENCY: row([20.0] * 3, 20, fingerprint=new)})["latency(ms)"]
    assert verdict.verdict == "not-comparable"
    assert verdict.why == "the workload changed but kept its name: workload_config: 1a → 1a timm 1.1.0"
    assert unseen_between([verdict]) == ""


def test_many_differences_are_counted() -> None:
    facts = {f"fact{number}": "1" for number in range(9)}
    verdict = judged({LATENCY: row([1.0] * 9)}, {LATENCY: row([2.0], 9, fingerprint=facts)})["latency(ms)"]
    assert verdict.why.endswith("; and 8 more differences")


def test_what_has_no_past_is_new() -> None:
    verdict = judged({series("peak_memory(MiB)"): row([1.0])}, {LATENCY: row([10.0])})["latency(ms)"]
    assert (verdict.verdict, verdict.old, verdict.new) == ("new", None, 10.0)


def test_what_was_not_measured_this_time_is_missing_only_for_its_own_jobs() -> None:
    lost, elsewhere, long_gone = series("peak_memory(MiB)"), series(arch="MI300"), series(model="gone")
    old = {
        LATENCY: row(noisy(10, 30)),
        lost: row(noisy(5, 30)),
        elsewhere: row(noisy(10, 30)),
        long_gone: row(noisy(10, 20)),
    }
    verdicts = judge_all(old, {LATENCY: row([10.0], 30)}, default_policy())
    assert {verdict.series: verdict.verdict for verdict in verdicts} == {
        LATENCY: "unchanged",
        lost: "missing",
    }
    (missing,) = (verdict for verdict in verdicts if verdict.series == lost)
    assert missing.why == "not measured in this run; if it is gone for good, it is listed for 5 runs"
    assert missing.evidence.commits.last_old.commit == f"{29:040d}"


@pytest.mark.parametrize(
    ("facts", "lost"), [(MACHINE, "here"), (OTHER, "there"), ({"driver": "570"}, "there")]
)
def test_what_is_missing_was_measured_on_this_machine_unless_it_is_new(facts, lost: str) -> None:
    """In a baseline, all runs of one machine may be older than those of another of its kind."""
    old = {
        LATENCY: [*row([10.0] * 8), *row([10.0] * 8, 8, fingerprint=OTHER)],
        series(model="here"): row([10.0] * 8),
        series(model="there"): row([10.0] * 8, 8, fingerprint=OTHER),
    }
    verdicts = judge_all(old, {LATENCY: row([10.0], 16, fingerprint=facts)}, default_policy())
    assert [verdict.series.model for verdict in verdicts if verdict.verdict == "missing"] == [lost]


def test_what_a_machine_of_the_same_label_has_measured_instead_is_not_missing() -> None:
    """Each of two shards gets one of two machines by chance; machines that always measure the same take no turns."""
    turns = {
        series(model=model, arch=arch): [point(10.0, day) for day in range(20) if (day + shard) % 2 == place]
        for place, arch in enumerate(("EPYC", "Xeon"))
        for shard, model in enumerate(("first", "second"))
    }
    always = {series(model="both", arch=arch): row([10.0] * 20) for arch in ("EPYC", "Xeon")}
    tonight = {
        series(model=model, arch=arch): row([10.0], 20)
        for model, arch in (("first", "EPYC"), ("second", "Xeon"), ("both", "Xeon"))
    }
    verdicts = judge_all(turns | always, tonight, default_policy())
    assert [str(verdict.series) for verdict in verdicts if verdict.verdict == "missing"] == [
        str(series(model="both"))
    ]


@pytest.mark.parametrize("commit", ["", "c" * 40])
def test_machines_outside_of_workflows_take_no_turns(commit: str) -> None:
    """Their runs have names of their own, such as the folder of each."""
    models = {arch: (series(model="both", arch=arch), series(arch=arch)) for arch in ("A100", "H100")}
    old = {
        name: [point(10.0, day, workflow_id=0, run=f"{arch}/{day}", commit=commit) for day in range(9)]
        for arch, names in models.items()
        for name in names
    }
    (lost, _), measured = (
        models["H100"],
        {name: row([10.0], 9) for names in models.values() for name in names},
    )
    del measured[lost]
    missing = [
        item.series for item in judge_all(old, measured, default_policy()) if item.verdict == "missing"
    ]
    assert missing == [lost]


def test_a_status_tells_why_something_was_not_measured() -> None:
    lost = series("memory_leak(KiB/iter)")
    told = {"status": "pass", "not_measured": '{"memory_leak(KiB/iter)": "too few steps"}'}
    found = judged({lost: row([0.0] * 9), STATUS: row([1.0] * 9)}, {STATUS: row([1.0], 9, info=told)})
    assert found[lost.metric].why == "not measured: too few steps"


def test_one_slowdown_is_one_verdict() -> None:
    """A throughput says again what the latency of its case says."""
    old = {LATENCY: row(noisy(10, 30)), THROUGHPUT: row(noisy(100, 30))}
    verdicts = judge_all(
        old, {LATENCY: row([12.0] * 3, 30), THROUGHPUT: row([80.0] * 3, 30)}, default_policy()
    )
    assert [(verdict.series, verdict.verdict) for verdict in verdicts] == [(LATENCY, "regressed")]


def test_a_throughput_takes_no_share_of_the_false_discoveries() -> None:
    others = {series(model=f"m{number}"): row(noisy(10, 31, seed=number)) for number in range(40)}
    again = {replace(name, metric=THROUGHPUT.metric): points for name, points in others.items()}
    assert _false_discovery_rate(others) != _false_discovery_rate({})
    assert _false_discovery_rate(others | again) == _false_discovery_rate(others)


def _false_discovery_rate(others: Points) -> float:
    """That of a latency that rose, beside other series."""
    old = {LATENCY: row(noisy(10, 30)), **{name: points[:-1] for name, points in others.items()}}
    new = {LATENCY: row([10.5] * 3, 30), **{name: points[-1:] for name, points in others.items()}}
    (verdict,) = (one for one in judge_all(old, new, default_policy()) if one.series == LATENCY)
    return verdict.evidence.others["false_discovery_rate"]


def test_a_throughput_without_a_latency_is_judged() -> None:
    both = {LATENCY: row(noisy(10, 30)), THROUGHPUT: row(noisy(100, 30))}
    found = judged(both, {THROUGHPUT: row([80.0] * 3, 30)})
    assert {metric: verdict.verdict for metric, verdict in found.items()} == {
        "latency(ms)": "missing",
        "throughput(samples/s)": "regressed",
    }


def test_a_throughput_that_gets_a_latency_beside_it_is_judged_until_that_has_a_past() -> None:
    """Or nothing would see what got slower in these nights."""
    nights = [*noisy(100, 31), *[80.0] * 5]
    words = []
    for night in range(30, 36):
        old = {THROUGHPUT: row(nights[:night]), LATENCY: row([1000 / rate for rate in nights[30:night]], 30)}
        new = {THROUGHPUT: row([nights[night]], night), LATENCY: row([1000 / nights[night]], night)}
        words.append({metric: verdict.verdict for metric, verdict in judged(old, new).items()})
    assert words[0] == {"latency(ms)": "new", "throughput(samples/s)": "unchanged"}
    assert words[3] == {"latency(ms)": "noisy", "throughput(samples/s)": "regressed"}
    assert [*words[5]] == ["latency(ms)"]


def test_series_of_two_shards_are_both_judged_though_each_ran_by_itself() -> None:
    other = series(model="bert")
    old = {LATENCY: row(noisy(10, 30)), other: row(noisy(20, 30, seed=1))}
    new = {
        LATENCY: [point(value, 30, run=f"first/{n}") for n, value in enumerate([11.0, 11.1, 11.05])],
        other: [point(value, 30, run=f"second/{n}") for n, value in enumerate([22.0, 22.1, 22.05])],
    }
    assert {verdict.verdict for verdict in judge_all(old, new, default_policy())} == {"regressed"}


def test_what_creeps_by_steps_too_small_to_judge_is_told() -> None:
    rate = series("throughput(tokens/s)", "bert")
    slower = [value * 1.001**night for night, value in enumerate(noisy(10, 100, cv=0.005))]
    less = [value / 1.0012**night for night, value in enumerate(noisy(10, 100, cv=0.005, seed=1))]
    faster = {series("latency(ms)", "faster"): row(less)}
    points = {LATENCY: row(slower), rate: row(less), **faster}
    verdicts = judge_all(
        {name: past[:-1] for name, past in points.items()},
        {name: past[-1:] for name, past in points.items()},
        default_policy(),
    )
    assert not [verdict for verdict in verdicts if verdict.is_red or verdict.candidate]
    shares = {verdict.series: verdict.evidence.others.get("crept") for verdict in verdicts}
    assert {name for name, share in shares.items() if share} == {LATENCY, rate}
    assert (shares[LATENCY], shares[rate]) == pytest.approx((0.06, -0.07), abs=0.01)
    assert crept_up(verdicts).startswith(
        "2 series have become worse than 60 runs before by steps too small to be judged, the most bert throughput("
    )
    assert crept_up([verdict for verdict in verdicts if verdict.series in faster]) == ""


def suite(nights: list[float], new: int) -> list[Verdict]:
    """The verdicts on the ``new`` nights of 40 series, which all have these factors in common."""
    names = [series(model=f"model{place}") for place in range(40)]
    values = [
        [value * night for value, night in zip(noisy(10, len(nights), 0.005, place), nights, strict=True)]
        for place in range(40)
    ]
    first = len(nights) - new
    past = {name: row(own[:first]) for name, own in zip(names, values, strict=True)}
    now = {name: row(own[first:], first) for name, own in zip(names, values, strict=True)}
    return judge_all(past, now, default_policy())


@pytest.mark.parametrize(("last", "says"), [(1.03, True), (1.0, False)])
def test_what_is_subtracted_from_all_series_of_a_job_is_told(last: float, says: bool) -> None:
    verdicts = suite([*noisy(1, 30, 0.02), last], 1)
    note = subtracted(verdicts)
    assert ("is subtracted from 40 series because their whole job shows it" in note) == says
    assert says == all("which the whole job shows, is subtracted" in verdict.why for verdict in verdicts)


@pytest.mark.parametrize("new", [3, 5])
def test_a_step_of_all_series_does_not_make_itself_ordinary(new: int) -> None:
    """Of a past of eight runs and three new ones, it was in three of eleven."""
    verdicts = suite([*noisy(1, 8, 0.005, 3), *(1.04 * night for night in noisy(1, new, 0.005, 4))], new)
    assert sum(verdict.is_red or verdict.candidate for verdict in verdicts) >= 30
