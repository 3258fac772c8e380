"""From pairs to verdicts."""

from __future__ import annotations

import math
import random

import pytest

from torchperf_ci.bench.pairs import SideFailure
from torchperf_ci.bench.process import ProcessOutcome
from torchperf_ci.bench.worker_client import WorkerFailure
from torchperf_ci.compare.case_verdicts import ComparisonPolicy, decided, judge_cases, suites
from torchperf_ci.compare.compared_case import ComparedCase, Comparison, judge_controls
from torchperf_ci.config import Config, Rule

POLICY = ComparisonPolicy(Config())
PASS, FAIL = ProcessOutcome("pass"), ProcessOutcome("crashed", "killed by SIGSEGV")
NO_SPACE = "OSError: [Errno 28] No space left on device"
FULL = ProcessOutcome("failed", NO_SPACE)
DISK = f"the disk was full, which neither build is to blame for: failed: {NO_SPACE}"
LACKING = ProcessOutcome("unsupported", "needs timm")
CRASHES = [SideFailure("head", WorkerFailure("crashed", "killed by SIGSEGV"))] * 2


@pytest.fixture
def judged(naming):
    """The verdicts on cases by metric."""

    def verdicts(
        *cases: ComparedCase,
        control=(),
        policy: ComparisonPolicy = POLICY,
        stopped: bool = False,
        luck: float = 0.0,
    ):
        controlled = ComparedCase(cases[0].case, controls=[(0, ratio) for ratio in control])
        comparison = Comparison(cases, {controlled.case.backend: controlled}, luck, stopped=stopped)
        controls = judge_controls(comparison, policy.rule("latency(ms)").min_effect)
        found = judge_cases(comparison, policy, naming, controls)
        return {verdict.series.metric: verdict for verdict in found}

    return verdicts


@pytest.mark.parametrize(
    ("change", "word", "why"),
    [
        (
            0.1,
            "regressed",
            "slower: over 12 pairs, a change of 3.0% or more is more than 1,000,000 times as likely as no change",
        ),
        (-0.1, "improved", "faster: over 12 pairs"),
        (0.0, "unchanged", "over 12 pairs, no change is"),
    ],
)
def test_latency_is_judged_by_the_sequential_test(judged, a_compared_case, change, word, why) -> None:
    verdict = judged(a_compared_case(change))["latency(ms)"]
    assert verdict.verdict == word
    assert verdict.why.startswith(why)
    assert verdict.effect.low < math.exp(change) < verdict.effect.high
    assert (verdict.old, verdict.new) == (pytest.approx(2), pytest.approx(3))
    assert verdict.evidence.others["pairs"] == len(verdict.evidence.others["log_ratios"]) == 12
    assert verdict.evidence.others["head_first"] == [False, True] * 6


@pytest.mark.parametrize(
    ("change", "word", "candidate"),
    [
        (0.04, "noisy", True),
        (-0.04, "noisy", False),
        (0.1, "regressed", False),
        (-0.1, "improved", False),
        (0.0, "unchanged", False),
    ],
)
def test_what_luck_of_two_builds_explains_is_no_proof(
    judged, a_compared_case, change, word, candidate
) -> None:
    of_pairs, verdict = (judged(a_compared_case(change), luck=luck)["latency(ms)"] for luck in (0.0, 0.05))
    assert (verdict.verdict, verdict.candidate) == (word, candidate)
    assert math.log1p(verdict.detectable) == pytest.approx(math.log1p(of_pairs.detectable) + 0.05)
    assert ("compiled once, and up to 5.1% may be luck" in verdict.why) is (word == "noisy")


def test_what_is_not_clear_when_the_time_is_up_says_what_would_have_been_seen(
    judged, a_compared_case
) -> None:
    verdict = judged(a_compared_case(0.05, sd=0.05))["latency(ms)"]
    assert (verdict.verdict, verdict.candidate) == ("noisy", True)
    assert "too much to detect a change of 3.0% or more" in verdict.why
    assert 0.03 < verdict.detectable < 0.1


@pytest.mark.parametrize("change", [0.05, -0.05])
def test_pairs_that_agree_on_a_change_are_not_said_to_vary_too_much_to_show_it(
    judged, a_case, a_pair, change: float
) -> None:
    """It takes more pairs, or some of base against itself."""
    pairs = [a_pair(change + noise) for noise in (0.001, -0.001, 0.002, -0.002, 0.0, 0.001)]
    verdict = judged(ComparedCase(a_case(), pairs))["latency(ms)"]
    assert (verdict.verdict, verdict.candidate) == ("noisy", change > 0)
    assert verdict.why == "the budget ran out after 6 pairs; they differ, but are too few to prove a change"


def test_what_looks_faster_is_no_candidate(judged, a_compared_case) -> None:
    assert not judged(a_compared_case(-0.02, sd=0.05))["latency(ms)"].candidate


@pytest.mark.parametrize("ended", ["the budget ran out", "interrupted"])
@pytest.mark.parametrize(
    ("pairs", "why"),
    [
        (0, "before its first pair"),
        (1, "after 1 pair; at least 3 are needed"),
        (2, "after 2 pairs; at least 3 are needed"),
        (3, "after 3 pairs; they differ, but are too few to prove a change"),
    ],
)
def test_too_few_pairs_are_told_and_prove_nothing(judged, a_compared_case, pairs, why, ended) -> None:
    verdict = judged(a_compared_case(0.5, pairs=pairs), stopped=ended == "interrupted")["latency(ms)"]
    assert (verdict.verdict, verdict.candidate) == ("noisy", pairs == 3)
    assert verdict.why.startswith(f"{ended} {why}")
    assert verdict.noise is verdict.detectable is None


@pytest.mark.parametrize(
    ("changes", "vary"),
    [((0.1, 0.1, 0.02), True), ((0.055, -0.054, 0.081), True), ((-0.1,) * 3, False), ((0.1, 0.1), False)],
)
def test_few_pairs_that_do_not_all_show_it_are_no_candidate(judged, a_case, a_pair, changes, vary) -> None:
    verdict = judged(ComparedCase(a_case(), [a_pair(change) for change in changes]))["latency(ms)"]
    assert (verdict.candidate, "they are too few to detect a change of" in verdict.why) == (False, vary)


@pytest.mark.parametrize(
    ("head", "pairs", "candidate"), [(100, 3, False), (110, 2, False), (110, 3, True), (80, 4, False)]
)
def test_sizes_of_few_pairs_say_how_many_it_takes(judged, a_case, a_pair, head, pairs, candidate) -> None:
    """From three on, they look worse if each of them does, as latency does."""
    compared = ComparedCase(a_case(), [a_pair(0, peaks=(100, head + place)) for place in range(pairs)])
    verdict = judged(compared)["peak_memory(MiB)"]
    assert (verdict.verdict, verdict.candidate) == ("noisy", candidate)
    assert verdict.why.endswith("; it takes 5 pairs, or 3 that are equal, to judge that")


def test_the_chance_of_a_false_alarm_is_shared_by_all_cases(judged, a_compared_case) -> None:
    cases = [a_compared_case(name=str(number)) for number in range(20)]
    assert judged(*cases)["latency(ms)"].evidence.others["alpha"] == pytest.approx(0.01 / 20)


def test_what_is_proof_of_one_case_is_none_of_one_among_many(judged, a_compared_case) -> None:
    others = [a_compared_case(name=str(number), pairs=0) for number in range(200)]
    slower = a_compared_case(0.04, pairs=12, sd=0.012)
    assert judged(slower)["latency(ms)"].verdict == "regressed"
    assert judged(*others, slower)["latency(ms)"].verdict == "noisy"


def test_few_pairs_that_agree_beside_base_against_itself_are_proof(
    judged, a_compared_case, a_case, a_pair
) -> None:
    """As on a GPU, whose pairs agree to 0.1%; without the controls it may be a mode of two processes."""
    pairs = [a_pair(change) for change in (0.0295, 0.0287, 0.0291, 0.0293)]
    beside = [(2, 0.0004), (4, -0.0003)]
    verdict = judged(ComparedCase(a_case(), pairs, beside))["latency(ms)"]
    assert verdict.verdict == "regressed"
    assert verdict.why == "slower: all 4 pairs lie beyond the 2 A/A pairs"
    assert 1.027 < verdict.effect.low < verdict.effect.high < 1.032
    assert judged(ComparedCase(a_case(), pairs))["latency(ms)"].verdict == "noisy"
    many = [ComparedCase(a_case()) for _ in range(99)]
    assert judged(*many, ComparedCase(a_case(), pairs, beside))["latency(ms)"].verdict == "noisy"
    more = ComparedCase(a_case(), [*pairs, *pairs[:3]], beside)
    assert judged(*many, more)["latency(ms)"].verdict == "regressed"
    assert judged(ComparedCase(a_case(), pairs, [(2, 0.029), (4, 0.03)]))["latency(ms)"].verdict == "noisy"


def test_few_pairs_that_agree_show_no_change(judged, a_case, a_pair) -> None:
    equal = ComparedCase(a_case(), [a_pair(change) for change in (0.0004, -0.0010, 0.0002)])
    verdict = judged(equal)["latency(ms)"]
    assert (verdict.verdict, verdict.why) == (
        "unchanged",
        "3 pairs rule out a change of 3.0% or more",
    )


def test_an_interval_within_what_does_not_matter_is_no_change(judged, a_compared_case) -> None:
    """Between none and the least that matters, neither is likelier; many pairs tell that it is not that."""
    compared = a_compared_case(-0.0165, pairs=56, sd=0.035)
    assert decided(compared, [compared], 0.03).word == "open"  # as another look may follow
    assert judged(compared)["latency(ms)"].verdict == "unchanged"


def test_what_matters_is_the_policys_or_what_was_asked_for(judged, a_compared_case) -> None:
    lenient = Config(policy={"latency(ms)": Rule("down", 0.2)})
    assert (
        judged(a_compared_case(0.06), policy=ComparisonPolicy(lenient))["latency(ms)"].verdict == "unchanged"
    )
    assert (
        judged(a_compared_case(0.06), policy=ComparisonPolicy(lenient, 0.03))["latency(ms)"].verdict
        == "regressed"
    )


def test_a_control_that_shows_a_change_makes_timings_void_and_nothing_else(judged, a_case, a_pair) -> None:
    slow = ComparedCase(a_case(), [a_pair(0.1, peaks=(100, 120))] * 8)
    found = judged(slow, control=[0.02, 0.021, 0.019, 0.02, 0.022])
    assert found["latency(ms)"].verdict == "noisy"
    assert found["latency(ms)"].why.startswith("void")
    assert found["latency(ms)"].evidence.others["control"]["void"]
    assert found["peak_memory(MiB)"].verdict == "regressed"


@pytest.mark.parametrize(("change", "verdict"), [(0.1, "noisy"), (0.15, "regressed"), (-0.15, "improved")])
def test_what_the_machine_cannot_have_done_counts_all_the_same(
    judged, a_compared_case, change, verdict
) -> None:
    found = judged(a_compared_case(change, sd=0.001), control=[0.02, 0.021, 0.019, 0.02, 0.022])[
        "latency(ms)"
    ]
    assert found.verdict == verdict
    assert found.evidence.others["control"]["void"]


def test_a_control_is_told_with_its_case(a_case) -> None:
    alone = ComparedCase(a_case(), controls=[(0, 0.001)] * 5)
    (control,) = judge_controls(Comparison([alone], {alone.case.backend: alone}), 0.03).values()
    assert str(control).endswith(f"over 5 pairs of {alone.case}")


@pytest.mark.parametrize(
    "control",
    [
        [0.005, 0.006, 0.005, 0.004, 0.005],  # sure, and too little to harm
        [0.05, -0.04, 0.06, 0.01, -0.03],  # large, and nothing but noise
        [0.5],
        [],
    ],
)
def test_a_control_that_shows_none_leaves_them(judged, a_compared_case, control) -> None:
    assert judged(a_compared_case(0.1), control=control)["latency(ms)"].verdict == "regressed"


@pytest.mark.parametrize(
    ("peaks", "word"),
    [
        ([(100, 104)] * 6, "regressed"),
        ([(104, 100)] * 6, "improved"),
        ([(100, 102)] * 6, "unchanged"),
        ([(100, 104)] * 3, "regressed"),
        ([(100, 100)] * 3, "unchanged"),
        ([(100, 104)] * 2, "noisy"),
        ([(100, 104)] * 3 + [(100, 105)], "noisy"),
        ([(100, 104)] * 2 + [(100, 100)] * 4, "unchanged"),
        ([(100, 120)] * 5 + [(100, 100)], "noisy"),
    ],
)
def test_memory_regresses_where_every_pair_shows_it(judged, a_case, a_pair, peaks, word) -> None:
    case = a_case()
    verdict = judged(ComparedCase(case, [a_pair(peaks=each) for each in peaks]))["peak_memory(MiB)"]
    assert verdict.verdict == word
    assert verdict.evidence.batch_size == case.batch_size, "a bisection measures with it"
    assert verdict.effect.pairs == len(peaks)


def test_what_the_config_wants_larger_improves_where_it_grows(judged, a_case, a_pair) -> None:
    up = ComparisonPolicy(Config(policy={"peak_memory(MiB)": Rule("up")}))
    verdict = judged(ComparedCase(a_case(), [a_pair(peaks=(100, 104))] * 6), policy=up)["peak_memory(MiB)"]
    assert verdict.verdict == "improved"


def test_no_memory_is_judged_where_none_is_counted(judged, a_case, a_pair) -> None:
    assert "peak_memory(MiB)" not in judged(ComparedCase(a_case(), [a_pair(peaks=(0, 0))] * 6))


@pytest.mark.parametrize(
    ("peaks", "word"),
    [([(0, 50)] * 6, "regressed"), ([(50, 0)] * 6, "improved"), ([(0, 50)] * 5 + [(0, 0)], "noisy")],
)
def test_memory_that_only_one_side_uses_is_judged(judged, a_case, a_pair, peaks, word) -> None:
    verdict = judged(ComparedCase(a_case(), [a_pair(peaks=each) for each in peaks]))["peak_memory(MiB)"]
    assert (verdict.verdict, verdict.effect) == (word, None)
    assert verdict.why.startswith("50 on head, 0 on base") is (word == "regressed")


@pytest.mark.parametrize(
    ("breaks", "word"),
    [
        ([(0, 1)] * 6, "regressed"),
        ([(3, 2)] * 6, "improved"),
        ([(2, 2)] * 6, "unchanged"),
        ([(0, 1)] * 5 + [(0, 0)], "noisy"),
        ([(0, 1)] * 3, "regressed"),
        ([(0, 1)] * 2, "noisy"),
    ],
)
def test_one_graph_break_more_is_a_regression(judged, a_case, a_pair, breaks, word) -> None:
    """However much its memory varies."""
    pairs = [a_pair(peaks=(100, 100 + place), graph_breaks=each) for place, each in enumerate(breaks)]
    verdict = judged(ComparedCase(a_case(backend="inductor"), pairs))["graph_breaks"]
    assert verdict.verdict == word
    assert (verdict.old, verdict.new) == (breaks[0][0], breaks[0][1])


def test_an_eager_case_has_no_graph_breaks(judged, a_compared_case) -> None:
    assert "graph_breaks" not in judged(a_compared_case())


@pytest.mark.parametrize(
    ("base", "head", "word", "why"),
    [
        (PASS, FAIL, "broken", "passes on base, but not on head: crashed: killed by SIGSEGV"),
        (FAIL, PASS, "fixed", "passes on head, but not on base: crashed: killed by SIGSEGV"),
        (FAIL, FAIL, "missing", "runs on neither side: crashed: killed by SIGSEGV"),
        (PASS, FULL, "missing", DISK),
        (FULL, PASS, "missing", DISK),
        (PASS, LACKING, "missing", "passes on base, but not on head: unsupported: needs timm"),
        (LACKING, PASS, "missing", "passes on head, but not on base: unsupported: needs timm"),
    ],
)
def test_a_case_that_fails_has_one_verdict(judged, a_case, base, head, word, why) -> None:
    found = judged(ComparedCase(a_case(), alone={"base": base, "head": head}, lost=CRASHES[:1]))
    assert [*found] == ["status"]
    assert (found["status"].verdict, found["status"].why) == (word, why)
    assert found["status"].candidate is (head is LACKING)
    assert (found["status"].old, found["status"].new) == (base.passed, head.passed)


@pytest.mark.parametrize(
    ("base", "head", "word", "candidate"),
    [(PASS, FAIL, "noisy", True), (FAIL, PASS, "noisy", False), (FAIL, FAIL, "missing", False)],
)
@pytest.mark.parametrize(
    ("pairs", "lost", "backend", "ran"),
    [(12, 1, "eager", "in 12 pairs"), (0, 2, "eager", "alone"), (0, 1, "inductor", "alone")],
)
def test_a_case_that_ran_before_it_failed_proves_nothing(
    judged, a_compared_case, base, head, word, candidate, pairs, lost, backend, ran
) -> None:
    """A crash in one process of a hundred was red whenever head alone had it, too."""
    compared = a_compared_case(0.5, pairs, backend=backend)
    compared.lost += CRASHES[:lost]
    compared.alone.update(base=base, head=head)
    [found] = judged(compared).values()
    assert (found.series.metric, found.verdict, found.candidate) == ("status", word, candidate)
    assert found.why.startswith(f"ran {ran}; then it ")
    assert found.why.endswith(": crashed: killed by SIGSEGV")


def test_a_case_whose_sides_do_not_run_beside_each_other_is_missing(judged, a_case) -> None:
    lost = [SideFailure("head", WorkerFailure("oom", "CUDA out of memory"))] * 2
    verdict = judged(ComparedCase(a_case(), alone={"base": PASS, "head": PASS}, lost=lost))["status"]
    assert (verdict.verdict, verdict.candidate) == ("missing", False)
    assert "each side runs alone, but not alongside the other: head: oom: CUDA out of memory" in verdict.why


def test_pairs_that_failed_are_told_beside_those_that_did_not(judged, a_compared_case) -> None:
    compared = a_compared_case()
    compared.alone.update(base=PASS, head=PASS)
    compared.lost += CRASHES[:1]
    verdict = judged(compared)["latency(ms)"]
    assert verdict.verdict == "unchanged"
    assert verdict.why.endswith("; 1 of 13 tries failed: head: crashed: killed by SIGSEGV")
    compared.lost *= 2
    verdict = judged(compared)["status"]
    why = "each side runs alone, but 2 of 14 tries failed: head: crashed: killed by SIGSEGV"
    assert (verdict.verdict, verdict.why, verdict.candidate) == ("missing", why, True)


def test_the_suite_is_the_geometric_mean_of_what_was_measured(a_compared_case) -> None:
    broken = a_compared_case(5.0)
    broken.alone.update(base=PASS, head=FAIL)
    measured = [a_compared_case(0.1), a_compared_case(-0.1), a_compared_case(0.0, pairs=2)]
    [suite] = suites(Comparison([*measured, a_compared_case(pairs=1), broken]))
    assert (suite.metric, suite.series) == ("latency(ms)", 3)
    assert suite.effect.ratio == pytest.approx(1, abs=0.004)
    assert suite.effect.low < 1 < suite.effect.high


@pytest.mark.parametrize("change", [0.01, 0.02])
def test_the_suites_interval_holds_the_truth_whenever_the_cases_stop(a_case, a_pair, change) -> None:
    """Six cases that are slower by less than matters, or hardly: each stops when it is high or low enough."""
    noise = random.Random(0)
    covered = 0
    for _ in range(40):
        cases = [ComparedCase(a_case(str(number))) for number in range(6)]
        for compared in cases:
            while len(compared.pairs) < 12 and not (
                compared.pairs and decided(compared, [compared], 0.03).word != "open"
            ):
                compared.pairs.append(a_pair(math.log1p(change) + noise.gauss(0, 0.02)))
        [suite] = suites(Comparison(cases))
        covered += suite.effect.low <= 1 + change <= suite.effect.high
    assert covered >= 35


@pytest.mark.parametrize("pairs", [0, 12])
def test_one_case_is_no_suite(a_compared_case, pairs) -> None:
    """Its own estimate rests on all its pairs: a second one from the first three would contradict it."""
    assert list(suites(Comparison([a_compared_case(pairs=0), a_compared_case(pairs=pairs)]))) == []
