"""Issues are about the default branch, whatever branch a job measures or runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from nights import BAD, judged, located, measured, regressed, series

if TYPE_CHECKING:
    from conftest import Nightly
    from reporting_job import Job

NET, BERT = series("resnet18"), series("bert")
SLOW = regressed(NET)


@pytest.mark.parametrize(
    ("ref", "told", "states"),
    [
        ("refs/heads/main", "", ["completed"]),
        ("refs/heads/mended", "mended", ["open"]),
        ("refs/tags/v1", "refs/tags/v1", ["open"]),
    ],
)
def test_a_night_on_another_branch_says_nothing_about_the_issues(
    nightly: Nightly,
    job: Job,
    monkeypatch: pytest.MonkeyPatch,
    ref: str,
    told: str,
    states: list[str],
    capsys: Any,
) -> None:
    """Such as that on which somebody tries a fix, or a tag, which *Run workflow* offers, too."""
    nightly.settings("recovered_nights: 1")
    nightly.report(1, judged(SLOW), located(SLOW))
    job.event(repository={"full_name": "octo/perf", "default_branch": "main"})
    monkeypatch.setenv("GITHUB_REF", ref)
    assert nightly.report(2, judged(measured(NET), regressed(BERT))) == 0
    assert nightly.states[:1] == states
    why = f"no issue was changed, 1 draft written: this job is about {told}, and issues are about main"
    assert (why in capsys.readouterr().err) == bool(told)


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ({"event": "schedule", "head_branch": "main"}, ""),
        ({"event": "workflow_dispatch", "head_branch": "mended"}, "this job is about mended"),
        ({"event": "pull_request", "head_branch": "main"}, "this job is about a pull request"),
    ],
)
def test_a_job_after_a_night_goes_by_what_that_measured(
    nightly: Nightly,
    job: Job,
    monkeypatch: pytest.MonkeyPatch,
    members: dict[str, str],
    told: str,
    capsys: Any,
) -> None:
    """It always runs on the default branch itself."""
    run = {"head_sha": BAD, "html_url": "", "pull_requests": [], **members}
    job.event(repository={"default_branch": "main"}, workflow_run=run)
    monkeypatch.setenv("GITHUB_REF", "refs/heads/main")
    assert nightly.report(1, judged(SLOW)) == 0
    assert nightly.states == ([] if told else ["open"])
    assert told in capsys.readouterr().err
