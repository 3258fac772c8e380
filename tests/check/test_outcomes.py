"""What passes or fails, and the numbers of a case that failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from made_points import MACHINE, noisy, point, row, series
from made_verdicts import LATENCY, OTHER, STATUS, judged, one

from torchperf_ci.check.pairing import several_machines

if TYPE_CHECKING:
    from torchperf_ci.verdicts.verdict import Verdict


def words(past, now, **info: str) -> Verdict:
    return judged({STATUS: row(past)}, {STATUS: row(now, len(past), info=info)})["status"]


def test_what_fails_now_is_broken_and_says_why() -> None:
    verdict = words([1.0] * 5, [0.0], status="oom", reason="CUDA out of memory")
    assert (verdict.verdict, verdict.is_red) == ("broken", True)
    assert verdict.why == "oom: CUDA out of memory"
    assert verdict.evidence.commits.last_old.commit == f"{4:040d}"


def test_what_fails_says_how_it_was_run() -> None:
    facts = {**MACHINE, "batch_size": "64", "torch_threads": "2"}
    past, now = row([1.0] * 5, fingerprint=facts), row([0.0], 5, fingerprint=facts)
    evidence = judged({STATUS: past}, {STATUS: now})["status"].evidence
    assert (evidence.failing, evidence.batch_size, evidence.threads) == (1, 64, 2)


def test_one_good_run_before_is_enough() -> None:
    assert words([1.0], [0.0]).verdict == "broken"


@pytest.mark.parametrize("nights", range(1, 7))
def test_a_failure_is_red_for_five_nights(nights: int) -> None:
    """So a missed check loses nothing; after that, it is told with its commits, and its issue stays open."""
    verdict = words([1.0, 1.0, *[0.0] * (nights - 1)], [0.0], status="crashed")
    expected = ("broken", 1.0) if nights <= 5 else ("unchanged", 0.0)
    assert (verdict.verdict, verdict.old, verdict.new) == (*expected, 0.0)
    assert verdict.why == ("crashed" if nights == 1 else f"still failing since 2026-09-23 {0:010d}: crashed")
    commits = verdict.evidence.commits
    assert [end.commit for end in (commits.last_old, commits.first_new)] == [f"{1:040d}", f"{2:040d}"]


def test_what_has_never_passed_is_not_broken() -> None:
    assert words([0.0], [0.0]).verdict == "unchanged"


@pytest.mark.parametrize(
    ("past", "now", "failing"),
    [
        ([1.0], [0.0], 1),
        ([0.0, 1.0, 0.0, 0.0], [0.0], 3),
        ([1.0, 0.0, None, 0.0], [0.0, 0.0], 4),
        ([0.0, 0.0], [0.0], 3),
        ([], [0.0, 0.0], 2),
        ([0.0], [1.0], 0),
        ([1.0], [1.0], 0),
        ([0.0], [1.0, None], 0),
    ],
)
def test_the_evidence_counts_the_failures_in_a_row(past, now, failing) -> None:
    assert words(past, now).evidence.failing == failing


def test_the_points_of_one_run_are_one_failure() -> None:
    twice = [point(0.0, 9, run="records"), point(0.0, 9, run="records")]
    assert judged({STATUS: row([1.0])}, {STATUS: twice})["status"].evidence.failing == 1


@pytest.mark.parametrize("outcomes", [(0.0, 1.0), (1.0, 0.0)])
def test_a_case_of_two_jobs_fails_if_it_fails_in_either(outcomes: tuple[float, float]) -> None:
    tonight = [point(value, 9, run="tonight") for value in outcomes]
    assert judged({STATUS: row([1.0] * 9)}, {STATUS: tonight})["status"].verdict == "broken"


def test_jobs_that_differ_every_night_are_not_intermittent() -> None:
    past = [point(value, day, job_id=int(value)) for day in range(4, 8) for value in (1.0, 0.0)]
    tonight = [point(0.0, 8), point(1.0, 8)]
    verdict = judged({STATUS: [*row([1.0] * 4), *past]}, {STATUS: tonight})["status"]
    assert (verdict.verdict, verdict.evidence.failing) == ("broken", 5)


def test_what_passes_again_is_fixed() -> None:
    assert words([1.0, 0.0, 0.0], [1.0]).verdict == "fixed"


def test_what_passes_as_before_is_unchanged() -> None:
    assert words([1.0, 1.0], [1.0]).verdict == "unchanged"


@pytest.mark.parametrize("nights", [1, 5])
def test_what_fails_now_and_then_is_no_news(nights: int) -> None:
    verdict = words([1.0, 0.0, 1.0, 1.0, 0.0, 1.0, *[0.0] * (nights - 1)], [0.0])
    assert (verdict.verdict, verdict.is_red, verdict.candidate) == ("noisy", False, True)


def test_nor_is_it_fixed_when_it_passes_in_between() -> None:
    verdict = words([1.0, 0.0, 1.0, 1.0, 0.0], [1.0])
    assert verdict.verdict == "fixed"
    verdict = words([1.0, 0.0, 1.0, 0.0, 1.0, 0.0], [1.0])
    assert (verdict.verdict, verdict.candidate) == ("noisy", False)
    assert verdict.why == "passes, but fails intermittently, 5 changes in its last 6 runs"


def test_what_is_not_supported_is_missing() -> None:
    verdict = words([0.0], [0.0], status="unsupported", reason="no torchvision")
    assert (verdict.verdict, verdict.candidate) == ("missing", False)
    assert verdict.why == "nothing to measure: unsupported: no torchvision"


@pytest.mark.parametrize("nights", range(1, 7))
@pytest.mark.parametrize("word", ["unsupported", "skipped"])
def test_what_is_no_longer_supported_is_a_candidate_for_five_nights(nights: int, word: str) -> None:
    """A build may have lost a kernel, and all numbers of the case with it; or its own tool skips it."""
    past = [*row([1.0, 1.0]), *row([0.0] * (nights - 1), 2, info={"status": word})]
    now = row([0.0], len(past), info={"status": word})
    verdict = judged({STATUS: past}, {STATUS: now})["status"]
    assert (verdict.verdict, verdict.candidate) == ("missing", nights <= 5)
    if nights <= 5:
        assert verdict.why == f"nothing to measure: {word}; last passed: 2026-09-22 {0:010d}"
        assert (verdict.old, verdict.new) == (1.0, None)
        commits = verdict.evidence.commits
        assert [end.commit for end in (commits.last_old, commits.first_new)] == [f"{1:040d}", f"{2:040d}"]


def test_what_only_another_machine_supports_is_no_candidate() -> None:
    old = [point(float(night % 2), night, fingerprint=OTHER if night % 2 else MACHINE) for night in range(6)]
    old = [it if it.value else it._replace(info={"status": "unsupported"}) for it in old]
    verdict = judged({STATUS: old}, {STATUS: row([0.0], 6, info={"status": "unsupported"})})["status"]
    assert (verdict.verdict, verdict.candidate) == ("missing", False)


def test_a_run_in_which_it_was_not_supported_counts_neither_way() -> None:
    unsupported = point(0.0, 1, info={"status": "unsupported"})
    assert judged({STATUS: [unsupported]}, {STATUS: row([1.0], 2)})["status"].verdict == "new"
    broken = judged({STATUS: [*row([1.0]), unsupported]}, {STATUS: row([0.0], 2)})["status"]
    assert broken.evidence.commits.last_old.commit == f"{0:040d}"


def test_a_failure_on_another_machine_counts_and_says_so() -> None:
    verdict = judged({STATUS: row([1.0])}, {STATUS: row([0.0], 1, fingerprint=OTHER)})["status"]
    assert verdict.verdict == "broken"
    assert verdict.why == "failed (also changed: driver: 550 → 560)"


@pytest.mark.parametrize(
    ("now", "facts", "verdict"),
    [(1.0, MACHINE, "unchanged"), (0.0, MACHINE, "broken"), (0.0, OTHER, "unchanged"), (1.0, OTHER, "fixed")],
)
@pytest.mark.parametrize("nights", [3, 4, 12])
def test_machines_that_take_turns_are_judged_by_their_own_outcomes(
    now: float, facts: dict[str, str], verdict: str, nights: int
) -> None:
    """One host of a label may lack what another has."""
    old = [
        point(1.0 - night % 2, night, fingerprint=OTHER if night % 2 else MACHINE) for night in range(nights)
    ]
    assert judged({STATUS: old}, {STATUS: row([now], nights, fingerprint=facts)})["status"].verdict == verdict


@pytest.mark.parametrize(
    ("nights", "verdict", "why"),
    [
        ("++++-", "broken", "failed"),
        ("++-+-", "broken", "failed"),
        ("++--+", "fixed", f"passes again after failing since 2026-09-23 {0:010d} (failed)"),
    ],
)
def test_a_failure_that_comes_before_its_facts_are_known_is_of_the_same_machine(
    nights: str, verdict: str, why: str
) -> None:
    """One that is not even built has no config, and no batch size if that was to be determined."""
    known, early = {**MACHINE, "batch_size": "8", "workload_config": "1a"}, {**MACHINE, "batch_size": "0"}
    *old, now = (
        point(float(sign == "+"), night, fingerprint=known if sign == "+" else early)
        for night, sign in enumerate(nights)
    )
    found = judged({STATUS: old}, {STATUS: [now]})["status"]
    assert (found.verdict, found.why) == (verdict, why)


def test_failures_that_come_before_their_facts_are_known_are_not_said_to_be_of_several_machines() -> None:
    points = [point(1.0, 0, fingerprint={**MACHINE, "batch_size": "8"}), point(0.0, 1)]
    assert several_machines({LATENCY: points})
    assert not several_machines({STATUS: points})


def test_a_case_that_fails_from_its_first_run_on_is_new() -> None:
    assert judged({}, {STATUS: row([0.0])})["status"].verdict == "new"


def test_an_accuracy_in_words_is_an_outcome() -> None:
    accuracy = series("accuracy")
    good, bad = ({"benchmark_values": f'["{word}"]'} for word in ("pass", "fail_accuracy"))
    found = judged({accuracy: row([None] * 3, info=good)}, {accuracy: row([None], 3, info=bad)})
    assert found["accuracy"].verdict == "broken"
    assert found["accuracy"].why == "fail_accuracy"
    assert (found["accuracy"].old, found["accuracy"].new) == (1.0, 0.0)  # by which its issue sees a recovery


def test_an_accuracy_in_numbers_is_a_ratio() -> None:
    verdict = one(noisy(0.8, 30, cv=0.002), [0.7, 0.7, 0.7], "accuracy")
    assert verdict.verdict == "regressed"
    assert verdict.effect


@pytest.mark.parametrize(
    ("past", "now", "word"),
    [(1.0, 0.0, "broken"), (1.0, 0.9, "regressed"), (95.0, 0.0, "regressed"), (95.0, 95.0, "unchanged")],
)
def test_a_pass_rate_is_judged_like_an_accuracy(past: float, now: float, word: str) -> None:
    """That nothing passes is a result, and no sign of a harness that has failed."""
    assert one([past] * 20, [now] * 3, "pass_rate").verdict == word


@pytest.mark.parametrize("before", [1, 5, 30])
@pytest.mark.parametrize("zeros", [1, 3])
def test_an_accuracy_that_falls_to_zero_has_regressed(zeros: int, before: int) -> None:
    verdict = one([*noisy(0.8, before, cv=0.002), *[0.0] * (zeros - 1)], [0.0], "accuracy")
    assert (verdict.verdict, verdict.new) == ("regressed", 0.0)
    assert verdict.why.startswith("0")


def test_a_case_that_breaks_is_one_red_line() -> None:
    metrics = ["accuracy", "latency(ms)", "flops(GFLOP)", "peak_memory(MiB)", "graph_breaks"]
    old = {series(metric): row([1.0] * 30) for metric in metrics} | {STATUS: row([1.0] * 30)}
    new = {
        STATUS: row([0.0], 30, info={"status": "oom"}),
        LATENCY: row([None], 30),
        series("accuracy"): row([0.0], 30),
    }
    found = judged(old, new)
    assert found.pop("status").verdict == "broken"
    assert {verdict.verdict for verdict in found.values()} == {"missing"}
    assert {verdict.why for verdict in found.values()} == {"status of its case: oom"}
    assert set(found) == set(metrics)


def test_wrong_results_make_their_speed_worthless() -> None:
    old = {series("accuracy"): row([1.0] * 30), LATENCY: row(noisy(10, 30)), STATUS: row([1.0] * 30)}
    new = {series("accuracy"): row([0.0], 30), LATENCY: row([5.0], 30), STATUS: row([1.0], 30)}
    found = judged(old, new)
    assert {metric: verdict.verdict for metric, verdict in found.items()} == {
        "accuracy": "broken",
        "latency(ms)": "missing",
        "status": "unchanged",
    }


def test_what_fails_as_before_explains_a_missing_number_and_hides_none() -> None:
    failing = {"status": "oom"}
    old = {series("accuracy"): row([0.0] * 30), LATENCY: row(noisy(10, 30))}
    wrong = judged(old, {series("accuracy"): row([0.0], 30), LATENCY: row([10.0], 30)})
    assert wrong["latency(ms)"].verdict == "unchanged"
    known = {STATUS: row([0.0] * 30, info=failing), LATENCY: row(noisy(10, 30))}
    found = judged(known, {STATUS: row([0.0], 30, info=failing), LATENCY: row([None], 30)})
    assert found["status"].verdict == "unchanged"
    assert found["latency(ms)"].why.startswith("status of its case: ")
