"""A nightly that reports issues to a GitHub."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from desk import Desk

from torchperf_ci import deadline
from torchperf_ci.cli import main
from torchperf_ci.culprits.culprit import write_culprits
from torchperf_ci.verdicts.verdict import write_verdicts

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from github_api import GitHub, Issue

    from torchperf_ci.culprits.culprit import Bisection
    from torchperf_ci.verdicts.verdict import Judgement


@dataclass(frozen=True)
class Nightly:
    """The job that reports; each night is a day of November."""

    folder: Path
    github: GitHub

    def report(self, day: int, judgement: Judgement, *locations: Bisection, to: Sequence[str] = ()) -> int:
        """The exit code of ``torchperf report --to issues``."""
        return main(self.command(day, judgement, *locations, to=to))

    def command(
        self, day: int, judgement: Judgement, *locations: Bisection, to: Sequence[str] = ()
    ) -> list[str]:
        """Its arguments, after the files are written."""
        path = self.folder / "verdicts.json"
        write_verdicts(path, judgement)
        arguments = ["--verdicts", str(path), "--night", f"2026-11-{day:02d}", "--to", *(to or ["issues"])]
        for number, location in enumerate(locations):
            found = self.folder / f"culprits-{number}.json"
            write_culprits(found, location)
            arguments += ["--culprits", str(found)]
        return ["report", *arguments]

    def settings(self, text: str) -> None:
        """What ``torchperf.yml`` says of issues."""
        (self.folder / "torchperf.yml").write_text(f"version: 1\nissues: {{{text}}}\n")

    @property
    def issues(self) -> list[Issue]:
        """All there are."""
        return [*self.github.issues.values()]

    @property
    def states(self) -> list[str]:
        """Whether they are open, and why not."""
        return [issue.state_reason or issue.state for issue in self.issues]

    @property
    def said(self) -> list[str]:
        """The first line of each comment."""
        return [comment.body.splitlines()[0] for comment in self.github.comments.values()]

    @property
    def summary(self) -> str:
        """The job's."""
        path = self.folder / "summary"
        return path.read_text() if path.exists() else ""

    @property
    def output(self) -> str:
        """What the step hands on."""
        return (self.folder / "output").read_text()


@pytest.fixture
def nightly(job: object, github: GitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nightly:
    """One whose token may write issues."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(deadline, "MAX_PAUSE", 0.01)
    return Nightly(tmp_path, github)


@pytest.fixture
def desk() -> Desk:
    """No issues yet."""
    return Desk()
