"""The labels of issues, and what happens where one cannot be made or given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from github_api import Fault
from nights import judged, located, regressed, series

if TYPE_CHECKING:
    from conftest import Nightly
    from github_api import GitHub


NET = series("resnet18")
SLOW = regressed(NET)


def test_configured_labels_are_made_and_given(nightly: Nightly, github: GitHub) -> None:
    nightly.settings('labels: ["module: performance", torchperf]')
    github.labels["module: performance"] = "theirs"
    nightly.report(1, judged(SLOW), located(SLOW))
    assert nightly.issues[0].labels == ["torchperf", "module: performance"]
    assert github.labels["module: performance"] == "theirs"
    assert set(github.labels) == {"torchperf", "module: performance", "torchperf: expected"}


def test_people_may_write_labels_in_capitals(nightly: Nightly, github: GitHub) -> None:
    github.labels.update({"TorchPerf": "", "Torchperf: Expected": ""})
    assert nightly.report(1, judged(SLOW), located(SLOW)) == 0
    (issue,) = nightly.issues
    assert issue.labels == ["TorchPerf"]
    issue.labels.append("Torchperf: Expected")
    assert nightly.report(2, judged(SLOW), located(SLOW)) == 0
    assert nightly.states == ["not_planned"]
    assert nightly.said[0].startswith("Accepted")


def test_our_label_may_be_renamed(nightly: Nightly, github: GitHub) -> None:
    both = judged(SLOW, on_cpu := regressed(series("resnet18", "cpu")))
    nightly.report(1, both)
    github.labels["Bot: perf"] = github.labels.pop("torchperf")
    for issue in nightly.issues:
        issue.labels = ["Bot: perf"]
    other = regressed(series("bert"), ends=("3" * 40, "4" * 40))
    assert nightly.report(2, judged(*both.verdicts, other), located(SLOW), located(on_cpu)) == 0
    assert [issue.labels for issue in nightly.issues] == [["Bot: perf"], [], ["Bot: perf"]]
    assert "torchperf" not in github.labels


def test_somebody_else_may_make_a_label_at_the_same_moment(nightly: Nightly, github: GitHub) -> None:
    def faster(method: str) -> None:
        if method == "POST":
            github.labels.setdefault("torchperf", "theirs")

    github.before = faster
    assert nightly.report(1, judged(SLOW), located(SLOW)) == 0
    assert github.labels["torchperf"] == "theirs"


@pytest.mark.parametrize("status", [403, 422])
def test_a_configured_label_that_cannot_be_made_is_left_out(
    nightly: Nightly, github: GitHub, status: int
) -> None:
    nightly.settings("labels: [perf]")
    github.labels["torchperf"] = github.labels["torchperf: expected"] = ""
    github.faults = [Fault("POST", status, "no", where="/labels")]
    assert nightly.report(1, judged(SLOW), located(SLOW)) == 0
    assert nightly.issues[0].labels == ["torchperf"]
    assert f"cannot be created: perf (GitHub answered {status}: no)" in nightly.summary


def test_a_label_that_github_refuses_is_told_with_the_reason(nightly: Nightly) -> None:
    nightly.settings(f"labels: [{'l' * 51}]")
    assert nightly.report(1, judged(SLOW), located(SLOW)) == 0
    assert "Validation Failed: name is too long (maximum is 50 characters)" in nightly.summary


def test_without_our_own_label_nothing_is_opened(nightly: Nightly, github: GitHub, capsys: Any) -> None:
    github.faults = [Fault("POST", 403, "no", where="/labels")]
    assert nightly.report(1, judged(SLOW), located(SLOW)) == 4
    assert nightly.issues == []
    assert "permissions: issues: write" in capsys.readouterr().err


def test_an_issue_that_gets_no_label_is_closed_again(nightly: Nightly, github: GitHub, capsys: Any) -> None:
    """GitHub drops labels without a word where the token may not set them; one more would be opened every night."""
    github.may_label = False
    assert nightly.report(1, judged(SLOW), located(SLOW)) == 4
    assert nightly.states == ["not_planned"]
    assert "did not get the label 'torchperf'" in capsys.readouterr().err
