"""A file of verdicts, GitHub, and the event of the job that reports."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from github_api import JOB, MEASURING, REPOSITORY, GitHub, running_github

from torchperf_ci import github as asking
from torchperf_ci.cli import main
from torchperf_ci.series.points import Series
from torchperf_ci.stats.effect import Effect
from torchperf_ci.verdicts.verdict import Judgement, Verdict, write_verdicts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SHA = "a" * 40
HERE = 1296269
"""The repository's id."""
RUN_URL = "https://github.example/octo/perf/actions/runs/71"


def a_regression(ratio: float = 1.05) -> Judgement:
    """One series that became slower."""
    series = Series(
        "octo/perf", "ci", "vision/resnet18", "inference", "fp32", "eager", "cpu", "x86", "latency(ms)"
    )
    effect = Effect(ratio, ratio - 0.01, ratio + 0.01, 10)
    return Judgement("compare", "base", "head", [Verdict(series, "regressed", "slower in all pairs", effect)])


@dataclass(frozen=True)
class Job:
    """The job that reports: ``report`` runs the command in it, ``event`` says what it runs for."""

    folder: Path
    github: GitHub
    monkeypatch: pytest.MonkeyPatch

    def report(self, *arguments: str, ratio: float = 1.05) -> int:
        """The exit code of ``torchperf report`` on a file with one regression."""
        path = self.folder / f"verdicts-{ratio}.json"
        write_verdicts(path, a_regression(ratio))
        return main(["report", "--verdicts", str(path), *arguments])

    def comment(self, *arguments: str, ratio: float = 1.05) -> int:
        """:meth:`report` to a comment."""
        return self.report("--to", "comment", *arguments, ratio=ratio)

    def event(self, **members: Any) -> None:
        """What the runner writes for the job."""
        path = self.folder / "event.json"
        path.write_text(json.dumps(members))
        self.monkeypatch.setenv("GITHUB_EVENT_PATH", str(path))

    def after_run(self, sha: str = SHA, **members: Any) -> None:
        """The event at the end of a run that measured a pull request from a fork."""
        run = {
            "head_sha": sha,
            "head_branch": "topic",
            "head_repository": {"full_name": "stranger/perf"},
            "pull_requests": [],
            "html_url": RUN_URL,
            "path": f"{MEASURING}@topic",
        }
        self.event(workflow_run={**run, **members}, repository={"id": HERE})

    def unjudged(self, *arguments: str) -> int:
        """The exit code of ``torchperf report`` where nothing was judged."""
        return main(["report", "--to", "comment", "--unjudged", *arguments])

    @property
    def output(self) -> str:
        """What the step hands on."""
        path = self.folder / "output"
        return path.read_text() if path.exists() else ""


@pytest.fixture
def judgement() -> Judgement:
    """What :class:`Job` reports."""
    return a_regression()


@pytest.fixture
def github() -> Iterator[GitHub]:
    """GitHub, which knows nobody yet."""
    with running_github() as server:
        yield server


@pytest.fixture
def job(tmp_path: Path, github: GitHub, monkeypatch: pytest.MonkeyPatch) -> Job:
    """A job of ``octo/perf`` whose token may write."""
    given = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_API_URL": github.url,
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "GITHUB_REPOSITORY": REPOSITORY,
        "GITHUB_RUN_ID": "72",
        "GITHUB_SERVER_URL": "https://github.example",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
        "GITHUB_TOKEN": JOB,
        "GITHUB_WORKFLOW_REF": f"{REPOSITORY}/{MEASURING}@refs/pull/7/merge",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("GITHUB_EVENT_PATH", raising=False)
    monkeypatch.setattr(asking, "_SECONDS_BETWEEN_WRITES", None)
    return Job(tmp_path, github, monkeypatch)
