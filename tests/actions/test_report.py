"""The templates for pull requests, after a user has adapted the lines marked "edit"."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from act_runner import standing_in
from copied import copied
from github_api import JOB, REPOSITORY, GitHub, Pull, running_github

from torchperf_ci.report.pull_request_comment import comment_marker
from torchperf_ci.series.points import Series
from torchperf_ci.stats.effect import Effect
from torchperf_ci.verdicts.verdict import Judgement, Verdict, read_verdicts, write_verdicts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Act, Runner

LIBRARY = Path(__file__).parent / "library"
OTHER = """

@workload("caller/other", "what no commit changes")
def other(batch_size: int) -> Task:
    return Task(torch.tanh, (torch.randn(batch_size, 32, 32),))
"""
ARTIFACT = "torchperf-verdicts-1"
SHA = "a" * 40
WORKFLOW = ".github/workflows/pull-request.yml"
MARKER = comment_marker(WORKFLOW)


@dataclass(frozen=True)
class Users:
    """A repository with the templates."""

    runner: Runner
    folder: Path

    def run(self, trigger: str, workflow: str, payload: dict[str, Any], *arguments: str) -> Act:
        """One of its workflows, from its beginning to its end."""
        (self.folder / workflow).mkdir()
        runner = replace(self.runner, folder=self.folder / workflow)
        text = (runner.caller / f".github/workflows/{workflow}.yml").read_text()
        return runner.run(
            trigger,
            {**payload, "repository": {"id": 1, "full_name": REPOSITORY, "default_branch": "main"}},
            workflow,
            *standing_in([text]),
            f"--env=ARTIFACTS={self.artifacts}",
            f"--env=GITHUB_REPOSITORY={REPOSITORY}",
            *arguments,
        )

    @property
    def artifacts(self) -> Path:
        """Where the artifacts of all runs are."""
        return self.folder / "artifacts"

    def keep(self, judgement: Judgement) -> None:
        """The artifact of a run, which is whatever its author likes."""
        write_verdicts(self.artifacts / ARTIFACT / "verdicts.json", judgement)


@pytest.fixture
def users(runner: Runner, tmp_path: Path) -> Users:
    """A repository of a package and its workload, with the templates, of which only the lines to edit are edited."""
    caller = tmp_path / "caller"
    workflows = caller / ".github/workflows"
    shutil.copytree(LIBRARY, caller)
    workflows.mkdir(parents=True)
    (workflows / "pull-request.yml").write_text(copied("workflows-templates/pull-request.yml"))
    (workflows / "pull-request-comment.yml").write_text(
        copied("workflows-templates/pull-request-comment.yml")
    )
    (tmp_path / "artifacts").mkdir()
    git(caller, "init", "--quiet", "--initial-branch=main", ".")
    return Users(replace(runner, caller=caller), tmp_path)


def commit(folder: Path, message: str) -> str:
    """Commit all that is in ``folder``; the commit."""
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", message)
    return git(folder, "rev-parse", "HEAD")


def git(folder: Path, *arguments: str) -> str:
    """What git prints."""
    own = ("-c", "user.name=caller", "-c", "user.email=caller@localhost", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *own, *arguments], cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def github() -> Iterator[GitHub]:
    """GitHub's REST API."""
    with running_github() as server:
        yield server


def comment_on(users: Users, github: GitHub, sha: str, conclusion: str = "failure") -> Act:
    """Run the workflow that comments, after the run of a pull request from a fork, of which GitHub lists nothing."""
    run = {
        "id": 71,
        "run_attempt": 1,
        "conclusion": conclusion,
        "path": WORKFLOW,
        "event": "pull_request",
        "head_sha": sha,
        "head_branch": "topic",
        "head_repository": {"full_name": "stranger/perf"},
        "pull_requests": [],
        "html_url": f"https://github.example/{REPOSITORY}/actions/runs/71",
    }
    api, token = f"--env=GITHUB_API_URL={github.url}", f"--secret=GITHUB_TOKEN={JOB}"
    return users.run("workflow_run", "pull-request-comment", {"workflow_run": run}, api, token)


def test_a_slower_pull_request_fails_and_is_told_so(users: Users, github: GitHub) -> None:
    """It starts from a commit behind the base branch's newest, which is as slow as the pull request.

    What it does not change is not named. It is five times as slow, so that the one pair that is measured shows it.
    benchmarks/planted_slowdowns.py has slowdowns of more kinds, in as many pairs as they take.
    """
    caller = users.runner.caller
    with (caller / "benchmarks/my_suite.py").open("a") as suite:
        suite.write(OTHER)
    start = commit(caller, "A library")
    library = caller / "library.py"
    fast, slow = library.read_text(), library.read_text().replace("range(20)", "range(100)")
    library.write_text(slow)
    base = commit(caller, "Slower on the base branch")
    git(caller, "checkout", "--quiet", "-b", "topic", start)
    assert library.read_text() == fast
    library.write_text(slow)
    head = commit(caller, "Slower in the pull request")
    github.add(Pull(7, head, "stranger/perf", "topic", listed=False))
    event = {
        "number": 7,
        "pull_request": {"number": 7, "head": {"sha": head}, "base": {"sha": base, "ref": "main"}},
    }
    environ = {"ORIGIN": caller, "TORCH": users.runner.torch}
    environ |= {"TORCHPERF_MIN_EFFECT": 0.9, "REPEATED_PAIRS": 1}
    given = [f"--env={name}={value}" for name, value in environ.items()]
    ended = users.run("pull_request", "pull-request", event, *given)
    log = (ended.evidence / "act.log").read_text()
    assert ended.results == {"compare": "failure"}, log
    judgement = read_verdicts(users.artifacts / ARTIFACT / "verdicts.json")
    assert f"{start[:10]} A library (torch 2." in judgement.base
    assert f"{head[:10]} Slower in the pull request (torch 2." in judgement.head
    (verdict,) = judgement.red
    assert (verdict.series.model, verdict.series.metric) == ("caller/library", "latency(ms)")
    assert verdict.old < verdict.new
    assert verdict.effect.low > 1
    words = {(one.series.model, one.series.metric): one.verdict for one in judgement.verdicts}
    assert words["caller/other", "latency(ms)"] == "unchanged"
    assert [event for event in ended.commands("compare", "error") if "caller/library" in event["raw"]]
    commented = comment_on(users, github, head)
    assert commented.results == {"comment": "success"}, (commented.evidence / "act.log").read_text()
    (comment,) = github.comments.values()
    assert "1 regressed" in comment.body.splitlines()[1]


def test_an_artifact_is_text_wherever_it_comes_from(users: Users, github: GitHub, hostile) -> None:
    """What its author has written into the artifact is text, and changes nothing of where it goes."""
    series = Series(*[hostile.text] * 9)
    slower = Verdict(series, "regressed", hostile.text, Effect(1.05, 1.04, 1.06, 10), old=1.0, new=1.05)
    users.keep(Judgement("compare", hostile.text, "head", [slower], notes=["pull-request: 8", MARKER]))
    github.add(Pull(7, SHA, "stranger/perf", "topic", listed=False))
    github.add(Pull(8, "b" * 40))
    commit(users.runner.caller, "A library")
    ended = comment_on(users, github, SHA)
    assert ended.results == {"comment": "success"}, (ended.evidence / "act.log").read_text()
    (comment,) = github.comments.values()
    assert comment.on == 7
    assert comment.body.startswith(f"{MARKER}\n### ❌ Performance: 1 regressed\n")
    assert "+5.0%" in comment.body
    assert comment.body.count(MARKER) == 1
    assert f"/{REPOSITORY}/actions/runs/71" in comment.body
    log = (ended.evidence / "act.log").read_text()
    assert not [event for event in ended.commands("comment", "error") if event]
    assert JOB not in log


def test_a_run_that_was_skipped_is_followed_by_nothing(users: Users, github: GitHub) -> None:
    commit(users.runner.caller, "A library")
    ended = comment_on(users, github, SHA, "skipped")
    assert ended.results == {"comment": "success"}, (ended.evidence / "act.log").read_text()
    assert github.asked == []


def test_a_run_that_could_not_compare_leaves_no_older_verdict(users: Users, github: GitHub) -> None:
    """The verdicts of an earlier attempt are none of this one's."""
    write_verdicts(users.artifacts / "torchperf-verdicts-0/verdicts.json", Judgement("compare", "a", "b", []))
    github.add(Pull(7, SHA, "stranger/perf", "topic", listed=False))
    comment = github.comment(7, f"{MARKER}\n### ✅ Performance: 1 unchanged")
    commit(users.runner.caller, "A library")
    ended = comment_on(users, github, SHA)
    assert ended.results == {"comment": "success"}, (ended.evidence / "act.log").read_text()
    assert f"Commit {SHA} could not be compared: see [the run](https://" in comment.body
    assert github.written == ["PATCH"]
