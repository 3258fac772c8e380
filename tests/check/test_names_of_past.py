from __future__ import annotations

import pytest
from made_points import MACHINE, row, series

from torchperf_ci.check.recorded_past import as_in_past, branch_of, groups_of_past, why_unknown
from torchperf_ci.errors import UsageError
from torchperf_ci.series.points import SeriesGroup

FRESH = SeriesGroup("", "nightly", "cuda", "H100")
UNDESCRIBED = SeriesGroup("octo/perf", "nightly", "cpu", "")
H100, MI300 = (
    SeriesGroup("octo/perf", "nightly", "cuda", "H100"),
    SeriesGroup("octo/perf", "nightly", "rocm", "MI300X"),
)
FORK = SeriesGroup("fork/perf", "nightly", "cuda", "H100")


def test_what_is_said_stays() -> None:
    assert groups_of_past([H100], [MI300, FORK], "other/repo") == {H100: H100}


def test_a_repository_is_taken_from_the_past_or_from_the_user() -> None:
    assert groups_of_past([FRESH], [H100, MI300]) == {FRESH: H100}
    assert groups_of_past([FRESH], []) == {FRESH: FRESH}
    assert groups_of_past([FRESH], [FORK, H100], "fork/perf") == {FRESH: FORK}


def test_a_past_that_says_no_repository_is_of_the_new_one() -> None:
    assert groups_of_past([H100], [FRESH]) == {H100: FRESH}
    assert groups_of_past([H100], [FRESH, FORK]) == {H100: H100}


def test_of_several_repositories_the_user_has_to_choose() -> None:
    with pytest.raises(UsageError, match="the past has fork/perf and octo/perf: say which with --repo-name"):
        groups_of_past([FRESH], [H100, FORK])


def test_a_machine_that_is_not_described_is_the_only_one_of_the_past_if_there_is_one() -> None:
    assert groups_of_past([UNDESCRIBED], [H100]) == {UNDESCRIBED: H100}
    assert groups_of_past([UNDESCRIBED], [H100, MI300]) == {UNDESCRIBED: UNDESCRIBED}
    assert groups_of_past([UNDESCRIBED._replace(repo="")], [H100]) == {UNDESCRIBED._replace(repo=""): H100}


def test_points_get_the_names_of_the_past() -> None:
    fresh = series(repo="")
    assert as_in_past({fresh: row([1.0])}, {fresh.group: H100}, {}) == {series(): row([1.0])}


def test_points_that_describe_no_machine_are_of_that_of_the_past_if_it_has_only_one() -> None:
    bare, case = series(arch=""), {"batch_size": "8"}
    called, new = {bare.group: H100}, {bare: row([1.0], fingerprint=case)}
    past = row([1.0, 1.0])
    assert as_in_past(new, called, {series(): past}) == {
        series(): row([1.0], fingerprint={**MACHINE, **case})
    }
    past += row([1.0], fingerprint={"driver": "560"})
    assert as_in_past(new, called, {series(): past}) == {series(): row([1.0], fingerprint=case)}


def test_points_that_get_one_name_are_in_the_order_of_time() -> None:
    """Else an old one, which lacks the repository, would be judged as the newest."""
    fresh, points = series(repo=""), row([1.0, 2.0, 3.0])
    renamed = as_in_past({series(): points[1:], fresh: points[:1]}, {fresh.group: H100, H100: H100}, {})
    assert renamed == {series(): points}


@pytest.mark.parametrize(
    ("new", "past", "note"),
    [
        ({H100}, {}, "the history is empty"),
        (
            {H100._replace(benchmark="torchperf")},
            {H100, MI300},
            (
                "the history has no benchmark torchperf, only nightly; "
                "if it is the same, run or upload with that --benchmark-name"
            ),
        ),
        ({FORK}, {H100, MI300}, "the history has no repository fork/perf, only octo/perf"),
        ({MI300}, {H100}, "the history has no device rocm, only cuda"),
        (
            {H100},
            {H100._replace(arch=f"A{number}") for number in range(4)},
            "the history has no machine H100, only A0, A1, A2 and more",
        ),
        ({H100}, {H100}, "the history has none of the measured series on this machine"),
        ({UNDESCRIBED}, {H100, UNDESCRIBED}, "the history has none of the measured series on this machine"),
    ],
)
def test_it_is_said_why_the_past_has_none_of_the_series(
    new: set[SeriesGroup], past: set[SeriesGroup], note: str
) -> None:
    assert why_unknown(new, past) == note


PULL_REQUEST = {"GITHUB_ACTIONS": "true", "GITHUB_BASE_REF": "main", "GITHUB_REF": "refs/pull/7/merge"}
QUEUE = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_BASE_REF": "",
    "GITHUB_REF": "refs/heads/gh-readonly-queue/release/2.13/pr-104-79de3dfd90bf4b9c7f8d6a3c8b2b1d5a1c0e9f31",
}
PUSH = {"GITHUB_ACTIONS": "true", "GITHUB_BASE_REF": "", "GITHUB_REF": "refs/heads/nightly"}


@pytest.mark.parametrize(
    ("branches", "environ", "expected"),
    [
        (["feature"], PULL_REQUEST, "main"),
        ([""], PULL_REQUEST, "main"),
        (["gh-readonly-queue/release/2.13/pr-104-79de3"], QUEUE, "release/2.13"),
        (["release/2.13"], PUSH, "release/2.13"),
        ([""], PUSH, "nightly"),
        (["main", "release/2.13"], PUSH, ""),
        (["main", ""], {}, "main"),
        ([""], {}, ""),
        ([""], {"GITHUB_REF": "refs/heads/main"}, ""),
        ([""], {**PUSH, "GITHUB_REF": "refs/tags/v1"}, ""),
        (["refs/tags/v1"], {**PUSH, "GITHUB_REF": "refs/tags/v1"}, ""),
    ],
)
def test_the_branch_of_the_past(branches: list[str], environ: dict[str, str], expected: str) -> None:
    points = {series(model=branch): row([1.0], branch=branch) for branch in branches}
    assert branch_of(points, environ) == expected
