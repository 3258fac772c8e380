"""The template for a bisection on demand, after a user has adapted the lines marked "edit"."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from act_runner import standing_in
from copied import copied
from planted_changes import quadratic
from slowed_repository import Repository, make_repository

from torchperf_ci.culprits.culprit import read_culprits

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Act, Runner

    Git = Callable[..., str]

WORKLOAD = Path(__file__).parents[1] / "e2e/caller/benchmarks/narrow.py"


@dataclass(frozen=True)
class User:
    """Somebody whose repository has the template."""

    runner: Runner
    folder: Path
    repository: Repository

    def search(self, run: int, *, only_one_pair: bool = False, **inputs: str) -> Act:
        """Press the button."""
        for folder in (self.caches, self.artifacts(run)):
            folder.mkdir(exist_ok=True)
        runner = replace(self.runner, caller=self.repository.path, folder=self.folder / f"run-{run}")
        environ = {
            "CACHES": self.caches,
            "ARTIFACTS": self.artifacts(run),
            "ORIGIN": self.repository.path,
            "TORCH": runner.torch,
            "GITHUB_RUN_ID": run,
            "REPEATED_PAIRS": 1,
            **({"ONE_RUN": 1} if only_one_pair else {}),
        }
        return runner.run(
            "workflow_dispatch",
            {"inputs": inputs},
            "bisect",
            *standing_in([self.workflow.read_text()]),
            *(f"--env={name}={value}" for name, value in environ.items()),
        )

    @property
    def workflow(self) -> Path:
        """Where the template is."""
        return self.repository.path / ".github/workflows/bisect.yml"

    @property
    def caches(self) -> Path:
        """Where the caches of all runs are, by their keys."""
        return self.folder / "caches"

    def artifacts(self, run: int) -> Path:
        """Where the artifacts of a run are, by their names."""
        return self.folder / f"artifacts-{run}"


def test_a_commit_that_is_really_slower_is_found_in_two_runs(
    runner: Runner, tmp_path: Path, git: Git
) -> None:
    user = User(runner, tmp_path, make_repository(tmp_path / "smallnet", {1: quadratic()}, commits=2))
    folder, (good, slow, bad) = user.repository.path, user.repository.shas
    user.workflow.parent.mkdir(parents=True)
    user.workflow.write_text(copied("workflows-templates/bisect.yml"))
    shutil.copy(WORKLOAD, folder / "benchmarks")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "Look for what is slow")

    first = user.search(1, only_one_pair=True, good=good, bad=bad, workload="smallnet/narrow")
    assert first.results == {"bisect": "success"}, (first.evidence / "act.log").read_text()
    assert any(
        "The bisection is inconclusive" in event["raw"] for event in first.commands("bisect", "warning")
    )

    git(folder, "tag", "slower", bad)
    second = user.search(2, good=good, bad="slower", workload="smallnet/narrow")
    assert second.results == {"bisect": "success"}, (second.evidence / "act.log").read_text()
    summary = second.commands("bisect", "summary")[0]["content"]
    assert re.search(f"^### .* 1 culprit found: {slow[:10]} ", summary)
    (culprit,) = read_culprits(user.artifacts(2) / "torchperf-culprits/culprits.json").culprits
    assert culprit.commit == slow
    before, after = ((kept / "state.jsonl").read_text() for kept in sorted(user.caches.iterdir()))
    assert after.startswith(before)
    assert '"build"' in before
