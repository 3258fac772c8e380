"""A pass requires that enough series were judged."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from torchperf_ci.verdicts.headline import Coverage, coverage, is_enough, shortfall, what_it_takes
from torchperf_ci.verdicts.verdict import Judgement

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchperf_ci.verdicts.verdict import Verdict

    Make = Callable[..., Verdict]


@pytest.fixture
def judged(verdict: Make) -> Callable[..., Judgement]:
    """A file with so many verdicts of each word: ``judged(unchanged=1, missing=44)``."""

    def make(command: str = "check", metric: str = "latency(ms)", **counts: int) -> Judgement:
        words = {"not_comparable": "not-comparable", "not_affected": "not-affected"}
        found = [
            verdict(words.get(word, word), f"{word}{number}", metric=metric, why=f"{word} because")
            for word, count in counts.items()
            for number in range(count)
        ]
        return Judgement(command, "old", "new", found)

    return make


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"unchanged": 1, "noisy": 5, "missing": 44}, Coverage(1, 49, is_first=False, is_enough=False)),
        ({"unchanged": 25, "missing": 25}, Coverage(25, 25, is_first=False, is_enough=True)),
        ({"unchanged": 24, "missing": 26}, Coverage(24, 26, is_first=False, is_enough=False)),
        ({"improved": 1, "fixed": 1, "new": 2}, Coverage(2, 2, is_first=False, is_enough=True)),
        ({"regressed": 1, "broken": 1, "not_comparable": 3}, Coverage(2, 3, is_first=False, is_enough=False)),
        ({"new": 51}, Coverage(0, 0, is_first=True, is_enough=False)),
        ({"new": 51, "missing": 4}, Coverage(0, 4, is_first=True, is_enough=False)),
        ({"new": 51, "not_comparable": 1}, Coverage(0, 52, is_first=False, is_enough=False)),
        ({"missing": 4}, Coverage(0, 4, is_first=False, is_enough=False)),
        ({"unchanged": 1, "not_affected": 9}, Coverage(1, 0, is_first=False, is_enough=True)),
        ({"noisy": 1, "not_affected": 9}, Coverage(0, 1, is_first=False, is_enough=False)),
        ({"not_affected": 9}, Coverage(0, 0, is_first=False, is_enough=True)),
        ({}, Coverage(0, 0, is_first=False, is_enough=False)),
    ],
)
def test_enough_is_at_least_half(judged: Callable[..., Judgement], counts, expected: Coverage) -> None:
    assert coverage(judged(**counts)) == expected


@pytest.mark.parametrize("metric", ["latency(ms)", "speedup", "mean_ttft_ms"])
def test_memory_that_stays_the_same_makes_no_pass_of_times_that_nobody_could_tell(judged, metric) -> None:
    times, memory = judged(metric=metric, noisy=50), judged(metric="peak_memory(MiB)", unchanged=50)
    both = Judgement("compare", "", "", [*times.verdicts, *memory.verdicts])
    assert coverage(both) == Coverage(50, 50, is_first=False, is_enough=False)
    assert shortfall(both).startswith("Only 50 of 100 series were judged, and 0 of 50 timings: 50 noisy (")
    assert coverage(memory).is_enough  # where no time was asked for


def test_metrics_of_the_cases_that_run_do_not_outvote_the_cases_that_do_not(verdict: Make) -> None:
    """Four metrics of two compiled cases were half of all series, and green, where eight cases ran on neither side."""
    metrics = ("latency(ms)", "peak_memory(MiB)", "graph_breaks", "recompiles")
    runs = [verdict(model=model, metric=metric) for model in ("a", "b") for metric in metrics]
    failing = [
        verdict("missing", f"failing{number}", metric="status", old=0.0, new=0.0, why="runs on neither side")
        for number in range(8)
    ]
    few = Judgement("compare", "", "", [*runs, *failing])
    assert coverage(few) == Coverage(8, 8, is_first=False, is_enough=False)
    assert shortfall(few) == (
        "Only 8 of 16 series were judged, and 2 of 10 timings: 8 missing (runs on neither side)."
    )
    assert coverage(Judgement("compare", "", "", [*runs, *failing[:2]])).is_enough
    unsupported = [replace(one, old=None, new=None) for one in failing]  # nothing to measure, by check
    assert coverage(Judgement("check", "", "", [*runs, *unsupported])).is_enough


def test_only_the_status_of_a_case_without_a_timing_that_says_nothing_counts_among_the_timings(
    verdict: Make,
) -> None:
    judged = [verdict(model=model) for model in "ab"]
    unclear = [verdict("noisy", model) for model in "cde"]
    passing = [verdict(model=f"{number}", metric="status", old=1.0, new=1.0) for number in range(8)]
    assert not coverage(Judgement("compare", "", "", [*judged, *unclear, *passing])).is_enough
    wavering = [verdict("noisy", model, metric="status", old=1.0, new=1.0) for model in "abc"]
    assert coverage(Judgement("compare", "", "", [*judged, unclear[0], *wavering, *passing])).is_enough


@pytest.mark.parametrize("command", ["check", "compare"])
def test_what_fails_as_before_is_no_pass(verdict: Make, command: str) -> None:
    """Such as a suite of accuracies that have all failed for more than five nights."""
    fails, passes = (
        verdict("unchanged", metric="status", new=new, why="still failing") for new in (0.0, 1.0)
    )
    failing = Judgement(command, "", "", [fails, fails, passes])
    assert coverage(failing) == Coverage(1, 2, is_first=False, is_enough=False)
    assert shortfall(failing) == "Only 1 of 3 series were judged: 2 failing (still failing)."
    assert what_it_takes(failing) == "a run in which the failing cases pass"
    assert coverage(Judgement(command, "", "", [fails, passes])).is_enough


def test_one_machine_that_judged_everything_speaks_for_no_other(judged) -> None:
    full, empty, first = judged(unchanged=61), judged(missing=44), judged(new=51)
    assert is_enough([full, first])
    assert not is_enough([full, judged("compare", new=51)]), "base could run nothing there"
    assert not is_enough([full, empty])
    assert not is_enough([full, judged()])
    assert not is_enough([first])
    assert not is_enough([])


def test_how_little_was_judged_is_said_with_the_reasons(judged: Callable[..., Judgement], verdict) -> None:
    few = judged(unchanged=1, noisy=5, missing=44)
    assert shortfall(few) == (
        "Only 1 of 50 series were judged: 44 missing (missing because); 5 noisy (noisy because)."
    )
    mixed = [verdict("noisy", why="often"), verdict("noisy", why="often"), verdict("noisy", why="once")]
    assert shortfall(Judgement("compare", "", "", mixed)) == (
        "Only 0 of 3 series were judged: 3 noisy (for example: often)."
    )
    assert shortfall(judged(unchanged=5, noisy=5)) == ""
    assert shortfall(judged(new=51)) == ""
    assert shortfall(judged()) == ""


@pytest.mark.parametrize("command", ["check", "compare", "somebody else's"])
def test_what_it_takes_is_said_for_each_reason_the_most_common_first(judged, command: str) -> None:
    said = what_it_takes(judged(command, unchanged=1, noisy=9, missing=4, not_comparable=3, new=1)).split(
        "; "
    )
    assert len(said) == 4
    assert "quieter machine" in said[0]
    assert said[1] == "a run that measures what is missing"


def test_a_comparison_takes_more_pairs_and_a_longer_budget(judged: Callable[..., Judgement]) -> None:
    assert what_it_takes(judged("compare", noisy=9)) == (
        "a quieter machine (torchperf doctor shows what disturbs it), or more pairs: a longer --budget, or fewer cases"
    )


def test_what_looks_worse_is_not_told_as_noise(verdict: Callable[..., Verdict]) -> None:
    worse = [verdict("noisy", f"model{number}", candidate=True, why="once") for number in range(3)]
    nightly = Judgement("check", "", "", worse)
    assert shortfall(nightly) == "Only 0 of 3 series were judged: 3 candidate (once)."
    assert what_it_takes(nightly) == "another run, which shows whether what looks worse is"
    mixed = Judgement("compare", "", "", [*worse, verdict("noisy")])
    assert what_it_takes(mixed).count("more pairs") == 1
