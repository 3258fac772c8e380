from __future__ import annotations

import numpy as np
from made_points import point, row, series

from torchperf_ci.check.recorded_past import without_new_runs

A, B, BREAKS = series(model="a"), series(model="b"), series("graph_breaks")


def stored(value: float) -> float:
    """As a store has it."""
    return float(np.float32(value))


def measured(*values: float, **changes: object) -> object:
    """One point; one that has no ``run`` of the store's names no workflow."""
    workflow = 77 if str(changes.get("run")).startswith("77.") else 0
    value = sorted(values)[len(values) // 2]
    return point(value, 9, **{"repetitions": values, "workflow_id": workflow, **changes})


def test_a_run_that_the_store_has_already_is_no_past() -> None:
    fresh = {A: [measured(1.10001, 1.20002, run="records")], BREAKS: [measured(0.0, 0.0, run="records")]}
    kept = {
        A: [*row([1.0, 1.0]), measured(*map(stored, (1.10001, 1.20002)), run="77.1")],
        BREAKS: [*row([0.0, 0.0]), measured(0.0, 0.0, run="77.1")],
    }
    assert without_new_runs(kept, fresh) == {A: row([1.0, 1.0]), BREAKS: row([0.0, 0.0])}


def test_the_engine_may_round_the_other_way() -> None:
    """ClickHouse 26 makes 22.2705 of 22.27049921979466; the nearest Float32 is one less."""
    fresh = {A: [measured(28.191726291801732, 26.841045783840162, 22.27049921979466, run="records")]}
    kept = {A: [measured(28.191727, 26.841045, 22.2705, run="77.1")]}
    assert without_new_runs(kept, fresh) == {A: []}


def test_a_run_of_the_same_name_is_the_same() -> None:
    assert without_new_runs({A: row([1.0, 2.0])}, {A: row([2.5], 1)}) == {A: row([1.0])}


def test_runs_that_agree_by_chance_are_others() -> None:
    kept = {A: row([1.5] * 5), BREAKS: row([2.0] * 5)}
    fresh = {A: [measured(1.5, run="records")], BREAKS: [measured(2.0, run="records")]}
    assert without_new_runs(kept, fresh) == kept


def test_what_says_which_run_it_is_needs_no_numbers() -> None:
    kept = {A: [measured(1.10001, 1.20002, run="77.1")]}
    fresh = {A: [measured(1.10001, 1.20002, run="78.1", workflow_id=78, timestamp=9)]}
    assert without_new_runs(kept, fresh) == kept


def test_a_run_that_was_kept_under_another_name_is_told_by_its_time_and_numbers() -> None:
    """As ``upload --workflow-id`` does."""
    kept = {A: [*row([1.0, 1.0]), measured(1.10001, 1.20002, run="77.1")]}
    fresh = {A: [measured(1.10001, 1.20002, run="78.1", workflow_id=78)]}
    assert without_new_runs(kept, fresh) == {A: row([1.0, 1.0])}


JOB = {"GITHUB_ACTIONS": "true", "GITHUB_RUN_ID": "77", "GITHUB_RUN_ATTEMPT": "2"}


def test_what_names_no_run_is_of_this_jobs_run() -> None:
    """Numbers need not tell: these are as coarse as counts."""
    kept = {BREAKS: [*row([2.0] * 5), measured(2.0, run="77.2"), measured(2.0, run="77.1")]}
    fresh = {BREAKS: [measured(2.0, run="records")]}
    (row_kept,) = without_new_runs(kept, fresh, JOB).values()
    assert [one.run for one in row_kept] == [*(one.run for one in row([2.0] * 5)), "77.1"]
    assert without_new_runs(kept, fresh, {}) == kept


def test_where_the_job_has_kept_its_run_another_one_is_not_guessed_at() -> None:
    same = (1.10001, 1.20002)
    kept = {A: [measured(*same, run="77.1"), measured(*same, run="77.2")]}
    (row_kept,) = without_new_runs(kept, {A: [measured(*same, run="records")]}, JOB).values()
    assert [one.run for one in row_kept] == ["77.1"]


def test_a_run_that_differs_anywhere_is_another() -> None:
    fresh = {A: [measured(1.10001, 1.20002, run="new")], B: [measured(5.0, run="new")]}
    kept = {A: [measured(1.10001, 1.20002, run="77.1")], B: [measured(6.0, run="77.1")]}
    assert without_new_runs(kept, fresh) == kept


def test_numbers_beyond_float32_are_compared_as_they_are() -> None:
    kept = {A: [measured(1e300, run="77.1")]}
    assert without_new_runs(kept, {A: [measured(1e300, run="new")]}) == kept


def test_runs_whose_records_lie_in_no_folder_are_others() -> None:
    """A bucket may hold them at its root; their run has no name."""
    kept = {A: [measured(1.10001, 1.20002, run="")]}
    assert without_new_runs(kept, {A: [measured(1.3, 1.4, run="records")]}, {}) == kept
