"""The outcomes of a run, by its cases: their statuses, or the accuracy of other tools' records, which have none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from torchperf_ci.series.outcomes import results_of_runs
from torchperf_ci.series.points import Point, Series
from torchperf_ci.web.catalogue import GroupCatalogue, RunEntry
from torchperf_ci.web.result_documents import run_document


def series(metric: str) -> Series:
    return Series(
        "pytorch/pytorch", "TorchInductor", "BERT", "training", "amp", "inductor", "cuda", "A100", metric
    )


RUN = RunEntry("0" * 10, "1.1", *series("").group, "main", "", 0, 0, "")
PASSED, FAILED = Point(1.0, (1.0,), run="1.1"), Point(0.0, (0.0,), run="1.1", info={"reason": "hot"})


def word(text: str) -> Point:
    return Point(None, run="1.1", info={"benchmark_values": f'["{text}"]'})


@pytest.mark.parametrize(
    ("points", "outcome"),
    [
        ({"latency(ms)": PASSED}, "no status"),
        ({"status": PASSED}, "pass"),
        ({"status": FAILED}, "failed"),
        ({"accuracy": word("pass_due_to_skip")}, "pass"),
        ({"accuracy": word("fail_accuracy"), "latency(ms)": PASSED}, "fail_accuracy"),
        ({"status": PASSED, "accuracy": word("fail_accuracy")}, "fail_accuracy"),
        ({"status": FAILED, "accuracy": PASSED}, "failed"),
        ({"accuracy": Point(0.93, (0.93,), run="1.1")}, "no status"),
    ],
)
def test_the_outcome_of_a_case_is_a_failure_or_its_status_or_its_accuracy(points, outcome) -> None:
    results = {series(metric): point for metric, point in points.items()}
    document = run_document(RUN, None, {RUN.name: results}, set(), set(), dict.fromkeys(results, 0))
    assert document.counts == {outcome: 1}
    assert [failed["status"] for failed in document.failed] == [outcome][outcome in ("pass", "no status") :]


def test_cases_of_the_previous_run_and_of_recent_ones_did_not_run() -> None:
    """Runs without a time are all at 0, so that none lies between two of them."""
    previous = replace(RUN, name="0.1")
    points = {series("latency(ms)"): [Point(1.0, (1.0,), run="0.1")]}
    recent = {replace(series(""), model="recent")}
    document = run_document(RUN, previous, results_of_runs(points), recent, set(), dict.fromkeys(points, 0))
    assert [case["model"] for case in document.not_run] == sorted([series("").model, "recent"])


def test_the_batch_size_of_a_case_is_no_fact_of_the_machine() -> None:
    """The case with the other batch size is the only one of the second run."""
    large, small = ({"cpu": "EPYC", "batch_size": size} for size in ("64", "4"))
    runs = {
        "0.1": {series("latency(ms)"): Point(1.0, (1.0,), fingerprint=large)},
        "1.1": {series("status"): Point(1.0, (1.0,), fingerprint=small)},
    }
    places = dict.fromkeys(map(series, ("latency(ms)", "status")), 0)
    document = run_document(RUN, replace(RUN, name="0.1"), runs, set(), set(), places)
    assert (document.machine, document.differs) == ({"cpu": "EPYC"}, [])


class Unequal(RunEntry):
    """A run that must not be compared with others."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise AssertionError(other)


def test_the_runs_before_one_are_found_without_a_search() -> None:
    """Each run was compared with all newer ones: the site of 16,000 runs took three minutes longer."""
    runs = [Unequal(str(number), str(number), *RUN.group, "main", "", 0, 0, "") for number in (3, 2, 1)]
    earlier = GroupCatalogue([], runs, {}).recent(runs[1])
    assert [run.name for run in earlier] == ["1"]
