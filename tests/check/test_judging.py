"""The verdict on each kind of series, whatever has happened to it."""

from __future__ import annotations

import datetime
import math
import re
import statistics

import numpy as np
import pytest
from made_points import DAY, START, noisy, point, row, series
from made_verdicts import LATENCY, OTHER, judged, one

from torchperf_ci import config
from torchperf_ci.check.judging import judge_all
from torchperf_ci.config import default_policy

THROUGHPUT = series("throughput(samples/s)")


@pytest.mark.parametrize(
    ("metric", "factor", "word"),
    [
        ("latency(ms)", 1.10, "regressed"),
        ("latency(ms)", 0.90, "improved"),
        ("throughput(samples/s)", 0.90, "regressed"),
        ("throughput(samples/s)", 1.10, "improved"),
        ("latency(ms)", 1.0, "unchanged"),
    ],
)
def test_a_change_that_stays_is_proven_in_its_direction(metric: str, factor: float, word: str) -> None:
    verdict = one(noisy(10, 30), [value * factor for value in noisy(10, 3, seed=1)], metric)
    assert verdict.verdict == word
    assert verdict.old == pytest.approx(10, rel=0.01)
    assert verdict.new == pytest.approx(10 * factor, rel=0.02)
    assert verdict.effect
    assert verdict.effect.low < verdict.effect.ratio < verdict.effect.high
    assert verdict.noise == pytest.approx(0.01, rel=0.5)
    assert 0.01 < verdict.detectable < 0.1


def test_one_bad_run_is_a_candidate_and_no_proof() -> None:
    verdict = one(noisy(10, 30), [11.0])
    assert (verdict.verdict, verdict.candidate, verdict.is_red) == ("noisy", True, False)
    assert "one run is no proof" in verdict.why


@pytest.mark.parametrize(("info", "word"), [({}, "regressed"), ({"independent": "false"}, "noisy")])
def test_processes_that_agree_are_proof_of_a_large_change_and_rounds_of_one_are_not(
    info: dict[str, str], word: str
) -> None:
    new = point(20.0, 30, repetitions=(19.9, 20.0, 20.1), info=info)
    (verdict,) = judged({LATENCY: row(noisy(10, 30))}, {LATENCY: [new]}).values()
    assert (verdict.verdict, verdict.candidate) == (word, word == "noisy")


def test_processes_of_one_job_are_no_proof_where_those_of_another_job_of_the_run_disagree() -> None:
    tonight = [
        point(value, 30, job_id=int(value), repetitions=(value - 0.1, value, value + 0.1))
        for value in (10.0, 20.0)
    ]
    (verdict,) = judged({LATENCY: row(noisy(10, 30))}, {LATENCY: tonight}).values()
    assert (verdict.verdict, verdict.candidate) == ("noisy", True)


def test_the_second_bad_night_is_nearly_proof() -> None:
    verdict = one([*noisy(10, 30), 11.0], [11.05])
    assert (verdict.verdict, verdict.candidate) == ("noisy", True)
    assert verdict.why == "looks worse in the last 2 runs; proven if the next run confirms it"


def test_no_rate_is_told_that_proves_nothing() -> None:
    """It would be 1 of a clear second run, as without the newest run there is only one."""
    verdict = one([*noisy(10, 30), 10.4], [10.4])
    assert verdict.why == "looks worse in the last 2 runs; no proof yet, so measure again"


def test_the_third_bad_night_is_proof() -> None:
    verdict = one([*noisy(10, 30), 11.0, 11.02], [11.05])
    assert verdict.verdict == "regressed"
    assert verdict.evidence.commits.first_new.commit == f"{30:040d}"


@pytest.mark.parametrize("new", [1, 12])
def test_what_the_past_has_seen_and_left_is_a_candidate_that_says_when(new: int) -> None:
    values = [*noisy(10, 101), 11.0, 11.05]
    values[20:24] = [11.0, 11.1, 10.9, 11.0]
    verdict = one(values[:-new], values[-new:])
    assert (verdict.verdict, verdict.candidate) == ("noisy", True)
    day = datetime.datetime.fromtimestamp(START + 23 * DAY, datetime.timezone.utc)
    assert f"so did 4 runs until {day:%Y-%m-%d}, and it recovered" in verdict.why


def test_what_is_back_where_it_was_some_runs_ago_is_a_candidate_that_says_so() -> None:
    verdict = one([*noisy(11, 60), *noisy(10, 12, seed=2), 11.0], [11.05])
    assert (verdict.verdict, verdict.candidate) == ("noisy", True)
    assert "is back where it was 12 runs before" in verdict.why


def test_one_spike_in_the_past_harms_nothing() -> None:
    past = noisy(10, 30)
    past[-1] = past[12] = 15.0
    assert not one(past, [10.0]).is_red
    assert one([*past, 10.0], [10.0]).verdict == "unchanged"


def test_what_nobody_knows_the_direction_of_is_never_red() -> None:
    for factor in (0.8, 1.2):
        verdict = one(noisy(10, 30), [10 * factor] * 3, "quality")
        assert (verdict.verdict, verdict.candidate) == ("noisy", False)
        assert "give it a direction in the policy" in verdict.why
    assert one(noisy(10, 30), [10.0], "quality").verdict == "unchanged"


def test_the_policy_gives_a_direction_and_what_matters() -> None:
    up = {"quality": config.Rule(direction="up", min_effect=0.03)}
    assert one(noisy(10, 30), [8.0] * 3, "quality", up).verdict == "regressed"
    lenient = {"latency(ms)": config.Rule(direction="down", min_effect=0.5)}
    assert one(noisy(10, 30), [11.0] * 3, policy=lenient).verdict == "unchanged"


def test_a_very_noisy_series_is_not_called_unchanged() -> None:
    verdict = one(noisy(10, 30, cv=0.2), [10.0])
    assert verdict.verdict == "noisy"
    assert verdict.detectable > 0.1
    assert "probably go unseen" in verdict.why


@pytest.mark.parametrize("runs", [5, 6])
def test_a_large_change_in_the_first_nights_is_not_put_down_to_noise(runs: int) -> None:
    """A change of 30% was "too noisy to tell: a change below 9.0% would go unseen", or one of "usual variation"."""
    verdict = one(noisy(10, runs, cv=0.03, seed=2), [13.0])
    assert (verdict.verdict, verdict.candidate) == ("noisy", False)
    assert re.fullmatch(r"\+3\d\.\d% in the newest run, not proven yet: measure again", verdict.why)


def test_a_hopelessly_noisy_series_says_so_without_a_number_that_means_nothing() -> None:
    verdict = one(noisy(10, 30, cv=1.0), [10.0])
    assert (verdict.verdict, verdict.detectable) == ("noisy", None)
    assert "too noisy to judge" in verdict.why


def test_one_impossible_value_of_a_short_past_is_not_told_as_a_percentage() -> None:
    assert one([*noisy(10, 7), 1e30], [10.0]).why == "too noisy to judge: runs vary by more than 1000%"


def test_numbers_of_any_size_have_a_verdict() -> None:
    verdict = one(list(np.exp(np.random.default_rng(0).uniform(-690, 690, 30))), [1e-300, 1e300])
    assert verdict.verdict == "noisy"
    assert math.isfinite(verdict.effect.high)


@pytest.mark.parametrize("runs", [1, 2, 4])
def test_a_short_past_tells_nothing_about_noise(runs: int) -> None:
    verdict = one([10.0] * runs, [20.0, 20.0])
    assert verdict.verdict == "noisy"
    assert verdict.effect is not None
    assert verdict.effect.ratio == pytest.approx(2)
    assert (verdict.effect.low, verdict.effect.high) == (0, math.inf)
    assert verdict.new == pytest.approx(20.0)
    assert f"{runs} comparable run{'' if runs == 1 else 's'} so far" in verdict.why
    assert verdict.evidence.too_few_runs


def test_five_runs_are_past_enough_for_a_newest_one() -> None:
    verdict = one(noisy(10, 5), [10.0])
    assert verdict.verdict == "unchanged"
    assert not verdict.evidence.too_few_runs
    assert 0 < verdict.effect.low < verdict.effect.high < math.inf


def test_three_runs_of_one_session_prove_less_than_three_nights() -> None:
    past = row(noisy(10, 30))
    nights = [point(10.55, 30), point(10.57, 31), point(10.56, 32)]
    hour = START + 30 * DAY
    at_once = [
        point(now.value, 30, timestamp=hour + 1800 * number, run=f"session.{number}")
        for number, now in enumerate(nights)
    ]
    assert judged({LATENCY: past}, {LATENCY: nights})["latency(ms)"].verdict == "regressed"
    found = judged({LATENCY: past}, {LATENCY: at_once})["latency(ms)"]
    assert (found.verdict, found.candidate) == ("noisy", True)


def test_a_series_alone_needs_more_than_one_night_in_two_hundred() -> None:
    verdict = one([*noisy(10, 30), 10.38], [10.4])
    assert (verdict.verdict, verdict.candidate) == ("noisy", True)
    assert one([*noisy(10, 30), 10.55, 10.56], [10.57]).verdict == "regressed"


def test_what_became_better_excuses_nothing_that_is_worse() -> None:
    """Throughputs that rose are no reason to believe more of the latencies that did."""
    old, new = {}, {}
    for number in range(300):
        # One of these latencies would be red, were all that rose judged together.
        latencies = noisy(10, 46, cv=0.02, seed=20_000 + number)
        throughputs = noisy(10, 46, cv=0.02, seed=21_000 + number)
        throughputs[-3:] = [value * 1.3 for value in throughputs[-3:]]
        for metric, values in (("latency(ms)", latencies), ("throughput(tokens/s)", throughputs)):
            name = series(metric, model=f"m{number}")
            old[name], new[name] = row(values[:-1]), row(values[-1:], 45)
    verdicts = judge_all(old, new, default_policy())
    assert sum(verdict.verdict == "improved" for verdict in verdicts) > 250
    assert not [verdict for verdict in verdicts if verdict.is_red]


@pytest.mark.parametrize(
    ("cv", "seed", "newest", "word", "why"),
    [
        (0.01, 0, 10.0, "unchanged", "within the noise"),
        (0.003, 0, 10.1, "unchanged", "the change is smaller than the 3.0% that matters"),
        (0.003, 0, 9.7, "unchanged", "the change may be smaller than the 3.0% that matters"),
        (0.02, 2, 11.0, "noisy", "+10.0% in the newest run, not proven yet: measure again"),
        (0.003, 0, 9.5, "noisy", "−5.0% in the newest run, not proven yet: measure again"),
        (0.05, 0, 6.0, "noisy", "−39.6% in the newest run, not proven yet: measure again"),
    ],
    ids=["noise", "small", "small, perhaps", "within what runs do", "better, perhaps", "better, but noisy"],
)
def test_what_is_neither_proven_nor_looks_worse_is_told_as_it_is(
    cv: float, seed: int, newest: float, word: str, why: str
) -> None:
    verdict = one(noisy(10, 30, cv=cv, seed=seed), [newest])
    assert (verdict.verdict, verdict.candidate, verdict.why) == (word, False, why)


@pytest.mark.parametrize("cv", [0.003, 0.01, 0.02, 0.03])
def test_that_a_change_is_less_than_matters_is_said_only_where_its_whole_interval_is(cv: float) -> None:
    verdicts = [one(noisy(10, 30, cv=cv, seed=3), [10 + step / 20]) for step in range(-30, 31)]
    small = [verdict.effect for verdict in verdicts if "is smaller than the" in verdict.why]
    large = [verdict for verdict in verdicts if verdict.effect.low > 1.03 or verdict.effect.high < 1 / 1.03]
    assert all(1 / 1.03 < effect.low < effect.high < 1.03 for effect in small)
    assert large
    assert not [verdict for verdict in large if verdict.verdict == "unchanged"]


def test_an_amount_that_moved_once_is_not_called_unchanged() -> None:
    """There is no share of a leak: the sentence has none."""
    leak = [value - 10 for value in noisy(10, 30, cv=0.1, seed=1)]
    verdicts = [one(leak, [-newest / 8], "memory_leak(KiB/iter)") for newest in range(60)]
    said = [
        verdict
        for verdict in verdicts
        if verdict.why == "a change in the newest run, not proven yet: measure again"
    ]
    assert said
    assert {(verdict.verdict, verdict.candidate) for verdict in said} == {("noisy", False)}


def test_an_amount_that_moved_a_little_is_not_compared_with_a_share() -> None:
    """10.5 KiB are 5% more than 10, and half a KiB."""
    verdict = one([10.0, 10.01, 9.99] * 10, [10.5], "memory_leak(KiB/iter)")
    assert (verdict.verdict, verdict.why) == ("unchanged", "the change is smaller than what matters")


def test_a_constant_series_shows_the_smallest_change_that_matters_and_not_less() -> None:
    assert one([10.0] * 30, [10.4] * 3).verdict == "regressed"
    assert one([10.0] * 30, [10.0]).verdict == "unchanged"
    assert one([10.0] * 30, [10.0001] * 3).verdict == "unchanged"


def test_ties_on_a_coarse_grid_are_no_change() -> None:
    past = [10.0, 10.1, 10.0, 10.0, 10.1] * 6
    assert one(past, [10.1, 10.1]).verdict == "unchanged"


def test_missing_nights_leave_no_gap() -> None:
    past = [value if day % 3 else None for day, value in enumerate(noisy(10, 40))]
    assert one(past, [11.0] * 3).verdict == "regressed"
    assert one(past, [10.0]).verdict == "unchanged"


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_a_metric_of_unknown_sign_that_falls_to_zero_is_judged_by_its_difference(value: float) -> None:
    """A hit rate of 0 is no failed harness, and would be missing for ever."""
    verdicts = [one([*noisy(0.4, 30), *[value] * nights], [value], "score", UP) for nights in range(6)]
    assert [verdict.verdict for verdict in verdicts] == ["noisy"] * 2 + ["regressed"] * 4
    assert [verdict.candidate for verdict in verdicts] == [True] * 2 + [False] * 4
    assert {verdict.new for verdict in verdicts} == {value}


def test_what_is_seen_and_too_small_to_matter_is_not_said_to_be_noise() -> None:
    past = [10 + (value - 10) / 10 for value in noisy(10, 30)]  # runs differ by 0.1%
    same, slower = one(past, past[:5]), one(past, [value * 1.01 for value in past[:5]])
    assert (same.verdict, same.why) == ("unchanged", "within the noise")
    assert (slower.verdict, slower.why) == ("unchanged", "the change is smaller than the 3.0% that matters")


def test_zeros_in_the_past_are_left_out() -> None:
    past = noisy(10, 30)
    past[5] = past[29] = 0.0
    assert one(past, [10.0]).verdict == "unchanged"


UP = {"score": config.Rule(direction="up", min_effect=0.03)}


@pytest.mark.parametrize(
    ("past", "runs"), [([5.0, 0.0, 0.0, 5.0, 5.0, 5.0, 0.0], 4), ([0.0, 0.0, 5.0, 5.0], 2)]
)
def test_zeros_in_a_short_past_are_neither_runs_nor_its_level(past: list[float], runs: int) -> None:
    verdict = one(past, [5.0], "score", UP)
    assert verdict.why == f"{runs} comparable runs so far; it takes 5 to estimate the noise"
    assert (verdict.old, verdict.effect.ratio) == (5.0, 1.0)


def test_zeros_among_the_newest_runs_do_not_move_the_commits_of_a_change() -> None:
    verdict = one([*noisy(10, 30), 8.0, 0.0, 0.0, 8.1], [8.05], "score", UP)
    assert verdict.verdict == "regressed"
    assert [
        int(end.commit) for end in (verdict.evidence.commits.last_old, verdict.evidence.commits.first_new)
    ] == [
        29,
        30,
    ]


def test_a_run_without_a_number_is_missing() -> None:
    assert one(noisy(10, 30), [None]).verdict == "missing"


@pytest.mark.parametrize(
    ("past", "now", "word"),
    [
        ([0.0] * 20, [1044.0] * 3, "regressed"),
        ([0.0] * 20, [0.0], "unchanged"),
        ([0.0] * 20, [0.3] * 3, "unchanged"),
        ([-1.0, 0.5, 0.0, 1.0, -0.5] * 4, [0.5, -0.5], "unchanged"),
        ([-20.0, 10.0, 0.0, 20.0, -10.0] * 4, [10.0, -10.0], "noisy"),
        ([-2.0, 1.0, 0.0, 2.0, -1.0] * 4, [60.0] * 3, "regressed"),
        ([1000.0, 1001.0, 1002.0, 999.0] * 5, [1.0] * 3, "improved"),
    ],
)
def test_an_amount_is_judged_by_its_difference(past: list[float], now: list[float], word: str) -> None:
    verdict = one(past, now, "memory_leak(KiB/iter)")
    assert verdict.verdict == word
    assert verdict.effect is None
    is_changed = word in ("regressed", "improved")
    assert verdict.new == pytest.approx(sum(now) / len(now) if is_changed else now[-1], abs=0.01)


def test_what_may_be_negative_is_judged_by_its_difference() -> None:
    past = [value - 9 for value in noisy(10, 60, cv=0.1, seed=2)]
    assert min(past) < 0 < statistics.median(past)
    verdicts = [one(past, now, "latency_overhead(%)") for now in ([-0.5], [1.0], [9.0] * 3)]
    assert [verdict.verdict for verdict in verdicts] == ["unchanged", "unchanged", "regressed"]


def test_what_nobody_knows_and_was_always_zero_is_judged_by_its_difference() -> None:
    policy = {"quality": config.Rule(direction="down", min_effect=0.03)}
    assert one([0.0] * 20, [0.0], "quality", policy).verdict == "unchanged"
    assert one([0.0] * 20, [90.0] * 3, "quality", policy).verdict == "regressed"
    assert one([0.0] * 20, [0.3], "quality", policy).candidate
    assert one([0.0] * 20, [0.3] * 3, "quality", policy).verdict == "regressed"
    assert one([-1e-3, 2e-3, 0.0, 0.0] * 5, [1e-3], "quality", policy).verdict == "unchanged"
    assert one([0.0] * 20, [0.5] * 3, "accuracy").verdict == "improved"


@pytest.mark.parametrize(
    ("runs", "now", "word"), [(2, [9.0], "noisy"), (20, [0.0], "unchanged"), (20, [90.0] * 3, "regressed")]
)
def test_what_was_always_zero_on_this_machine_is_judged_so_whatever_others_have(
    runs: int, now: list[float], word: str
) -> None:
    name = series("time_difference(ms)")
    past = [*row([1.0] * 60), *row([0.0] * runs, 60, fingerprint=OTHER)]
    new = row(now, 60 + runs, fingerprint=OTHER)
    assert judged({name: past}, {name: new})[name.metric].verdict == word


def test_all_are_judged_together_under_false_discovery_control() -> None:
    """Of a thousand series without any change a fixed threshold of 3% would call dozens, the gate none."""
    old, new = {}, {}
    for number in range(1000):
        values = noisy(10, 31, cv=0.02, seed=number)
        name = series(model=f"m{number}")
        old[name], new[name] = row(values[:-1]), row(values[-1:], 30)
    verdicts = judge_all(old, new, default_policy())
    assert sum(math.log(verdict.effect.ratio) > math.log(1.03) for verdict in verdicts) > 30
    assert not [verdict for verdict in verdicts if verdict.is_red]
    assert sum(verdict.candidate for verdict in verdicts) <= 40  # as LEVELS promises


def test_many_points_of_one_new_run_crowd_out_no_other() -> None:
    now = [point(12.0, 30), point(12.0, 31), *(point(12.0, 32, job_id=job) for job in range(50))]
    verdict = judged({LATENCY: row(noisy(10, 30))}, {LATENCY: now})["latency(ms)"]
    assert (verdict.verdict, verdict.evidence.others["window"]) == ("regressed", 3)
