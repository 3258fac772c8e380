from __future__ import annotations

import json
from itertools import permutations

import pytest

from torchperf_ci.series.outcomes import (
    not_measured,
    outcome_word,
    passed,
    results_of_runs,
    why_without_number,
)
from torchperf_ci.series.points import Point, Series


def point(*values: float, **info: str) -> Point:
    return Point(min(values, default=None), values, info=info)


@pytest.mark.parametrize(
    ("given", "expected", "called"),
    [
        (point(1.0), True, "pass"),
        (point(1.0, 0.0), False, "failed"),
        (point(0.0, status="oom"), False, "oom"),
        (point(1.0, status="pass"), True, "pass"),
        (point(0.0, status="unsupported"), None, "unsupported"),
        (point(benchmark_values=json.dumps(["pass"])), True, "pass"),
        (point(benchmark_values=json.dumps(["pass_due_to_skip"])), True, "pass_due_to_skip"),
        (point(benchmark_values=json.dumps(["fail_accuracy"])), False, "fail_accuracy"),
        (point(benchmark_values=json.dumps(["pass", "OOM"])), False, "oom"),
        (point(benchmark_values="eager_1st_run_fail"), False, "eager_1st_run_fail"),
        (point(0.87), None, "no outcome"),
        (point(), None, "no outcome"),
    ],
)
def test_numbers_and_words_tell_pass_from_fail(given: Point, expected: bool | None, called: str) -> None:
    assert passed(given) is expected
    assert outcome_word(given) == called


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ('{"latency(ms)": "too few steps"}', {"latency(ms)": "too few steps"}),
        ("[]", {}),
        ("{", {}),
    ],
)
def test_a_status_tells_what_was_not_measured(told: str, expected: dict[str, str]) -> None:
    assert not_measured(point(1.0, not_measured=told)) == expected


@pytest.mark.parametrize(
    ("metric", "given", "why"),
    [
        ("latency(ms)", point(), "no number above zero"),  # as `check` says it: a zero counts as none
        ("my_metric", point(), "no number"),
        ("latency(ms)", point(status="oom", reason="too large"), "oom: too large"),
        ("latency(ms)", point(1.5), ""),
        ("status", point(0.0, status="unsupported", reason="no GPU"), "unsupported: no GPU"),
    ],
)
def test_a_point_without_a_number_says_why(metric: str, given: Point, why: str) -> None:
    assert why_without_number(Series("r", "b", "m", "", "", "", "cpu", "", metric), given) == why


@pytest.mark.parametrize("words", [*permutations(("pass", "oom", "unsupported"))])
def test_a_run_has_the_worst_outcome_of_its_jobs_and_the_first_number(words: tuple[str, ...]) -> None:
    """As it is judged."""
    status, breaks = (Series("r", "b", "m", "", "", "", "cpu", "", metric) for metric in ("status", "breaks"))
    outcomes = [point(float(word == "pass"), status=word) for word in words]
    ((_, results),) = results_of_runs({status: outcomes, breaks: [point(1.0), point(0.0)]}).items()
    assert outcome_word(results[status]) == "oom"
    assert results[breaks].value == 1.0
    ((_, results),) = results_of_runs({status: [one for one in outcomes if passed(one) is not False]}).items()
    assert outcome_word(results[status]) == "pass"
