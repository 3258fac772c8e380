"""One mark and one sentence, the same in every report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from torchperf_ci.stats.past import MIN_HISTORY
from torchperf_ci.verdicts.headline import headline, is_only_new, shortfall, sign, young_series
from torchperf_ci.verdicts.verdict import Evidence, Judgement

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchperf_ci.verdicts.verdict import Verdict

FIRST_RUN = "51 series are new; they are judged from the sixth run on"


@pytest.fixture
def first_run(verdict: Callable[..., Verdict]) -> Judgement:
    """That of the quick suite."""
    return Judgement("check", "store", "records", [verdict("new", f"model{number}") for number in range(51)])


def test_the_headline_counts_everything_once(judgement: Judgement) -> None:
    assert headline([judgement]) == (
        "2 regressed, 1 broken, 1 looks worse but is unproven, 1 improved, 1 fixed, 61 unchanged, "
        "2 could not be judged, 1 missing, 1 new"
    )
    assert headline([]) == "nothing was judged"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["regressed", "unchanged"], "❌"),
        (["broken", "missing", "missing"], "❌"),
        (["unchanged", "unchanged", "noisy", "missing"], "✅"),
        (["unchanged", "noisy", "missing"], "⚪"),
        (["improved"], "✅"),
        (["noisy", "not-comparable"], "⚪"),
        (["new"], "⚪"),
        ([], "⚪"),
    ],
)
def test_the_mark_is_green_only_where_enough_was_judged(
    verdict: Callable[..., Verdict], words, expected
) -> None:
    assert sign([Judgement("check", "", "", [verdict(word) for word in words])]) == expected


def test_a_candidate_is_a_doubt(verdict: Callable[..., Verdict]) -> None:
    assert sign([Judgement("check", "", "", [verdict(), verdict(candidate=True)])]) == "⚠️"


def test_that_little_was_judged_comes_first(verdict: Callable[..., Verdict]) -> None:
    few = [verdict(), *[verdict("noisy")] * 5, *[verdict("missing")] * 44]
    assert headline([Judgement("compare", "", "", few)]) == (
        "too little could be judged: 1 unchanged, 5 could not be judged, 44 missing"
    )
    red = Judgement("compare", "", "", [*few, verdict("regressed")])
    assert headline([red]).startswith("1 regressed, 1 unchanged")


def test_a_first_run_is_one_sentence(first_run: Judgement, verdict: Callable[..., Verdict]) -> None:
    assert headline([first_run]) == FIRST_RUN
    assert young_series(first_run) == []
    one = Judgement("check", "", "", [verdict("new"), verdict("missing")])
    assert headline([one]) == "1 series is new; it is judged from the sixth run on; 1 missing"
    pair = Judgement("compare", "", "", [verdict("new")])
    assert headline([pair]) == "1 series is new"


def test_a_run_that_lost_all_that_has_history_is_no_first_run(verdict: Callable[..., Verdict]) -> None:
    """A machine that measured only what is new was left out of the mark of the others."""
    lost = Judgement("check", "", "", [verdict("new"), *[verdict("missing", old=1.2)] * 44])
    assert headline([lost]) == "too little could be judged: 44 missing, 1 new"
    assert shortfall(lost).startswith("Only 0 of 45 series were judged: 44 missing (")
    assert sign([lost, Judgement("check", "", "", [verdict()])]) == "⚪"


def test_the_sixth_is_the_first_run_that_has_enough_before_it() -> None:
    assert MIN_HISTORY + 1 == 6


def test_what_is_new_beside_others_has_a_sentence_of_its_own(first_run: Judgement, verdict) -> None:
    later = Judgement("check", "", "", [verdict(), *first_run.verdicts[:2]])
    assert young_series(later) == ["2 series are new; they are judged from the sixth run on"]
    measured = [verdict(), *(verdict("new", model, new=1.0) for model in ("a", "b"))]
    assert young_series(Judgement("compare", "", "", measured)) == [
        "2 series are new: base has nothing to compare with"
    ]
    assert young_series(Judgement("", "", "", measured)) == []


def test_what_has_too_few_runs_is_one_sentence(first_run: Judgement, verdict) -> None:
    young = [verdict("noisy", model, evidence=Evidence(too_few_runs=True)) for model in ("a", "b")]
    assert young_series(Judgement("check", "", "", [verdict(), young[0], first_run.verdicts[0]])) == [
        "1 series is new; it is judged from the sixth run on",
        "1 series has too few comparable runs so far; it is judged from the sixth on",
    ]
    assert young_series(Judgement("check", "", "", [verdict("noisy"), *young])) == [
        "2 series have too few comparable runs so far; they are judged from the sixth on"
    ]


def test_a_new_series_that_fails_is_more_than_new(first_run: Judgement, verdict) -> None:
    assert is_only_new(verdict("new"), first_run)
    assert not is_only_new(verdict("new", why="fails: oom", evidence=Evidence(failing=1)), first_run)
    assert is_only_new(verdict("new", new=1.0), Judgement("compare", "", "", []))
    assert not is_only_new(verdict("new", why="base has no such workload"), Judgement("compare", "", "", []))
