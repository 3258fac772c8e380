"""The merge base that the template for pull requests finds in real histories."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
import yaml

TEMPLATE = Path(__file__).parents[2] / "workflows-templates/pull-request.yml"
BRANCH = """it's-"$(id)`id`"&;|{}%0A--"""
"""As odd as git takes it."""


NUMBERS = count()


@dataclass(frozen=True)
class Checkout:
    """What ``actions/checkout`` leaves of a pull request against ``branch`` with ``fetch-depth: 0``."""

    folder: Path
    branch: str = BRANCH

    def git(self, *arguments: str) -> str:
        """What git prints."""
        own = ("-c", "user.name=a", "-c", "user.email=a@localhost", "-c", "commit.gpgsign=false")
        command = ["git", *own, *arguments]
        return subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, timeout=60, check=True
        ).stdout.strip()

    def commit(self, *parents: str) -> str:
        """A commit with these parents."""
        tree = self.git("mktree")
        given = [word for parent in parents for word in ("-p", parent)]
        return self.git("commit-tree", "-m", f"Commit {next(NUMBERS)}", *given, tree)

    def fetched(self, tip: str) -> None:
        """The base branch ends here."""
        self.git("update-ref", f"refs/remotes/origin/{self.branch}", tip)

    def merge_base(self, base: str, head: str) -> tuple[int, str]:
        """The step's exit code, and its output or what it printed."""
        steps = yaml.safe_load(TEMPLATE.read_text())["jobs"]["compare"]["steps"]
        (step,) = [step for step in steps if step.get("id") == "merge-base"]
        assert step["env"].keys() == {"BASE_REF", "BASE", "HEAD"}
        output = self.folder / "output"
        environ = {"BASE_REF": self.branch, "BASE": base, "HEAD": head, "GITHUB_OUTPUT": str(output)}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.folder,
            env={**os.environ, **environ},
            capture_output=True,
            text=True,
            timeout=60,
        )
        return done.returncode, output.read_text() if output.exists() else done.stdout


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """An empty repository."""
    made = Checkout(tmp_path)
    made.git("init", "--quiet")
    return made


def test_what_was_merged_from_the_base_branch_is_not_the_pull_requests(checkout: Checkout) -> None:
    """The event names the base branch's commit at the opening, also after it was merged into the pull request."""
    opened_at = checkout.commit()
    merged = checkout.commit(opened_at)
    head = checkout.commit(checkout.commit(opened_at), merged)
    checkout.fetched(checkout.commit(merged))
    assert checkout.merge_base(opened_at, head) == (0, f"sha={merged}\n")


def test_a_base_branch_that_is_gone_is_known_by_the_event(checkout: Checkout) -> None:
    start = checkout.commit()
    assert checkout.merge_base(checkout.commit(start), checkout.commit(start)) == (0, f"sha={start}\n")


def test_unrelated_histories_are_told(checkout: Checkout) -> None:
    base = checkout.commit()
    checkout.fetched(base)
    status, printed = checkout.merge_base(base, checkout.git("commit-tree", "-m", "else", f"{base}^{{tree}}"))
    assert status == 1
    assert printed.startswith("::error title=torchperf::No commit is in the history of both branches: rebase")


def test_a_checkout_that_git_refuses_is_not_told_to_rebase(checkout: Checkout, monkeypatch) -> None:
    """As in a container, whose root does not own it: git itself says what to do."""
    base = checkout.commit()
    checkout.fetched(base)
    head = checkout.commit(base)
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    assert checkout.merge_base(base, head) == (128, "")


def test_a_merge_queue_gets_an_answer_without_a_second_comparison() -> None:
    """A required check that never begins would hold the queue for ever; a job that is skipped counts as passed."""
    workflow = yaml.safe_load(TEMPLATE.read_text())
    assert "merge_group" in workflow[True]  # YAML reads the key "on" as true
    assert workflow["jobs"]["compare"]["if"] == "github.event_name == 'pull_request'"
    assert workflow["concurrency"]["group"].endswith("|| github.ref }}")
