"""Each command in a comment, a summary and an issue is run by a shell in a fresh clone."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from torchperf_ci import cli
from torchperf_ci.bench.pairs import Pair
from torchperf_ci.bisect import command
from torchperf_ci.bisect.command import INCONCLUSIVE
from torchperf_ci.compare import comparison_loop
from torchperf_ci.culprits.culprit import Bisection, Culprit, SeriesEffect
from torchperf_ci.stats.effect import Effect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torchperf_ci.bench.case import Case, Settings

PACKAGE = '''"""A part of a model."""


def project(rows, weights):
    """A linear layer."""
    return rows @ weights
'''
SLOWER = "    rows @ weights\n    rows @ weights\n    return rows @ weights\n"
SUITE = """import parts
import torch
from torchperf_ci.suite import Task, workload

torch.manual_seed(0)
inputs = torch.randn(96, 96), torch.randn(96, 96)
project = workload("parts/project", "a part", modes=("inference",))(lambda batch: Task(parts.project, inputs))
"""
SHIM = """#!{python}
import sys
from torchperf_ci import cli
from torchperf_ci.bench import pairs
pairs.BLOCK_SECONDS, pairs.QUADS = 0.02, 3
sys.exit(cli.main())
"""
"""The command, which measures as briefly as a test can wait."""

NAME = "parts/project latency(ms) (inference fp32 eager cpu)"
BRIEFLY = "--budget 1"
"""That a command is understood, and measures, is seen after a pair."""
SLOWER_BY = Effect(3.0, 2.8, 3.2, 10)


def git(folder: Path, *arguments: str) -> str:
    line = ["git", "-c", "user.name=t", "-c", "user.email=t@t.invalid", *arguments]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


@dataclass(frozen=True)
class World:
    """``origin`` has a pull request that makes a part three times as slow; ``runner`` is a job's checkout of it."""

    folder: Path
    torch: Path
    base: str
    head: str

    @property
    def runner(self) -> Path:
        return self.folder / "runner/work/perf"

    def torchperf(self, *arguments: str) -> int:
        """In the job, where everything is named by paths of the runner."""
        return cli.main([*arguments])

    def run(self, lines: str) -> subprocess.CompletedProcess[str]:
        """In a fresh clone, with the Python that has torch active, and nothing of the runner."""
        clone = self.folder / f"clone-{len(list(self.folder.iterdir()))}"
        git(self.folder, "clone", "--quiet", "origin.git", str(clone))
        path = f"{self.folder / 'bin'}:{self.torch / 'bin'}:{os.environ['PATH']}"
        given = {"PATH": path, "HOME": str(self.folder), "PIP_NO_INDEX": "1"}
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("GITHUB_", "TORCHPERF_"))
        }
        shell = ["sh", "-e", "-c", lines]
        return subprocess.run(
            shell, cwd=clone, env={**kept, **given}, capture_output=True, text=True, timeout=500, check=False
        )


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, torch_environment: Path) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("world")
    first, runner = folder / "first", folder / "runner/work/perf"
    (first / "benchmarks").mkdir(parents=True)
    (first / "parts.py").write_text(PACKAGE)
    (first / "benchmarks/a suite.py").write_text(SUITE)
    git(first, "init", "--quiet", "--initial-branch=main")
    for subject in ("Add a part", "Look at the rows twice"):
        git(first, "add", "--all")
        git(first, "commit", "--quiet", "--message", subject)
        (first / "parts.py").write_text(PACKAGE.replace("    return rows @ weights\n", SLOWER))
    head, base = git(first, "rev-list", "HEAD").splitlines()
    git(folder, "init", "--quiet", "--bare", "--initial-branch=main", "origin.git")
    # As at GitHub: a clone has the base branch, and a pull request is only there for who asks for it.
    git(
        first,
        "push",
        "--quiet",
        str(folder / "origin.git"),
        f"{base}:refs/heads/main",
        "HEAD:refs/pull/7/head",
    )
    git(folder, "clone", "--quiet", "origin.git", str(runner))
    git(runner, "fetch", "--quiet", "origin", "refs/pull/7/head")
    git(runner, "checkout", "--quiet", "FETCH_HEAD")
    (folder / "bin").mkdir()
    shim = folder / "bin/torchperf"
    shim.write_text(SHIM.format(python=sys.executable))
    shim.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(runner)
        patch.delenv("GITHUB_TOKEN", raising=False)
        patch.delenv("GITHUB_ACTIONS", raising=False)
        yield World(folder, torch_environment, base, head)


@pytest.fixture(scope="module")
def asked(world: World) -> list[str]:
    """What every job of this workflow says: paths of the runner, and a branch where there is one."""
    suite, python = world.runner / "benchmarks/a suite.py", world.torch / "bin/python"
    return ["--python", str(python), "--suite", str(suite), "--min-effect", "0.2"]


def three_times_as_slow(case: Case, base: Settings, head: Settings, *_: object, head_first: bool) -> Pair:
    """A pair of the pull request and what it starts from, or of one and the same."""
    ratio = 1.0 if base.path == head.path else 3.0
    return Pair((math.log(ratio) + (0.001 if head_first else -0.001),), 1e-3, ratio * 1e-3)


@pytest.fixture(scope="module")
def comment(world: World, asked: list[str]) -> str:
    """What a pull request is told: what was measured is made up, what was asked is not."""
    out = world.folder / "job/verdicts.json"
    sides = ("--base", "origin/main", "--head", "HEAD")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparison_loop, "measure_pair", three_times_as_slow)
        assert world.torchperf("compare", *sides, *asked, "--out", str(out)) == 1
    report = (
        "report",
        "--verdicts",
        str(out),
        "--to",
        "comment",
        "--repo",
        "octo/perf",
        "--pull-request",
        "7",
    )
    assert world.torchperf(*report, "--dry-run", "--out", str(world.folder / "job")) == 0
    return (world.folder / "job/comment.md").read_text()


@pytest.fixture(scope="module")
def found(world: World, asked: list[str]) -> Path:
    """The file of a bisection that has found the commit: what it measured is made up, what it was asked is not."""
    change = SeriesEffect(NAME, SLOWER_BY)
    location = Bisection(
        "found",
        world.base,
        world.head,
        culprits=(Culprit(world.head, (world.head,), 0.999, SLOWER_BY, (change,)),),
        torch="2.13.0+cpu",
    )
    out = world.folder / "job/culprits.json"
    range_of = ("--good", "origin/main", "--bad", "HEAD", "--workload", "parts/project")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "bisect_commits", lambda *_: location)
        patch.setenv("TORCHPERF_STATE", str(world.folder / "job/state.jsonl"))
        assert world.torchperf("bisect", *range_of, *asked, "--out", str(out)) == 0
    return out


def blocks(text: str) -> list[str]:
    """Its blocks of code, as they are copied: commands, as nothing else is code here."""
    found = re.findall(r"(?:^    .*\n)+", text, re.MULTILINE)
    return [re.sub(r"^    ", "", block, flags=re.MULTILINE) for block in found]


def test_the_command_in_a_comment_runs(world: World, comment: str) -> None:
    (lines,) = blocks(comment)
    assert f"--base {world.base} --head {world.head} --python python --suite 'benchmarks/a suite.py'" in lines
    assert str(world.folder) not in comment
    done = world.run(f"{lines.rstrip()} {BRIEFLY}")
    assert done.returncode in (1, INCONCLUSIVE), done.stdout + done.stderr
    assert "parts/project" in done.stdout


def test_what_it_needs_is_what_the_job_had(world: World, comment: str) -> None:
    (install,) = re.findall(r"`(pip install torch==[^`]*)`", comment)
    assert world.run(f"python -m {install}").returncode == 0, "already satisfied"


def test_the_summary_has_the_same_command(
    world: World, comment: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        world.torchperf("report", "--verdicts", str(world.folder / "job/verdicts.json"), "--to", "summary")
        == 0
    )
    assert blocks(capsys.readouterr().out) == blocks(comment)


def test_the_commands_in_an_issue_run(world: World, found: Path, comment: str) -> None:
    """Its comparison is that of the comment, which has run, with fewer options."""
    drafts = world.folder / "issues"
    where = ("--to", "issues", "--repo", "octo/perf", "--dry-run", "--out", str(drafts))
    assert world.torchperf("report", "--culprits", str(found), *where) == 0
    (issue,) = drafts.iterdir()
    text = issue.read_text()
    compare, bisect = blocks(text)
    assert str(world.folder) not in text
    (known,) = blocks(comment)
    assert compare == re.sub(r" --(min-effect|batch-size|threads) [\d.]+", "", known)
    done = world.run(f"{bisect.rstrip()} --max-runs 1")
    assert done.returncode in (1, INCONCLUSIVE), done.stdout + done.stderr
    assert "parts/project" in done.stdout + done.stderr


def test_the_command_in_the_summary_of_a_bisection_is_that_of_the_issue(
    world: World, found: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert world.torchperf("report", "--culprits", str(found), "--to", "summary") == 0
    (lines,) = blocks(capsys.readouterr().out)
    assert lines.splitlines()[-1] == (
        f"torchperf bisect --good {world.base} --bad {world.head} --python python --workload parts/project "
        "--suite 'benchmarks/a suite.py' --min-effect 0.2"
    )
