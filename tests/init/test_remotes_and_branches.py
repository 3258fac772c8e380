"""What ``torchperf init`` makes of a repository's remotes and branches."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from torchperf_ci import config

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Newcomer


def test_other_servers_and_branches_are_told(newcomer: Newcomer) -> None:
    newcomer.git(newcomer.folder, "remote", "set-url", "origin", "https://gitlab.com/octo/smallnet.git")
    newcomer.git(newcomer.folder, "commit", "--quiet", "--allow-empty", "--message", "Begin")
    newcomer.git(newcomer.folder, "update-ref", "refs/remotes/origin/trunk", "HEAD")
    newcomer.git(newcomer.folder, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/trunk")
    newcomer.git(newcomer.folder, "checkout", "--quiet", "-b", "topic")
    code, said = newcomer.init()
    assert code == 0
    assert "origin is on gitlab.com: the workflows run on GitHub alone, and not on its Enterprise" in said
    assert "GitHub runs schedules on trunk only, and this is topic" in said
    assert "git push -u origin topic" in said


@pytest.mark.parametrize("ref", ["refs/heads/main", "refs/remotes/origin/master"])
def test_a_branch_of_a_repository_that_was_not_cloned_is_not_its_default_one(
    newcomer: Newcomer, ref: str
) -> None:
    newcomer.git(newcomer.folder, "checkout", "--quiet", "-b", "topic")
    newcomer.git(newcomer.folder, "commit", "--quiet", "--allow-empty", "--message", "Begin")
    newcomer.git(newcomer.folder, "update-ref", ref, "HEAD")
    _, said = newcomer.init()
    assert f"GitHub runs schedules on {ref.rpartition('/')[2]} only, and this is topic" in said


def test_where_no_branch_is_checked_out_the_commands_make_one(newcomer: Newcomer, remote: Path) -> None:
    """They are executed, except for the measurement, and push the suite, too."""
    newcomer.git(newcomer.folder, "config", "user.name", "t")
    newcomer.git(newcomer.folder, "config", "user.email", "t@t.invalid")
    newcomer.git(newcomer.folder, "remote", "set-url", "origin", str(remote))
    newcomer.git(newcomer.folder, "commit", "--quiet", "--allow-empty", "--message", "Begin")
    newcomer.git(newcomer.folder, "push", "--quiet", "--set-upstream", "origin", "main")
    newcomer.git(newcomer.folder, "remote", "set-head", "origin", "main")
    newcomer.git(newcomer.folder, "checkout", "--quiet", "--detach")
    newcomer.write("perf/suite of mine.py", "from torchperf_ci.suite import workload\n")
    _, said = newcomer.init()
    assert "GitHub runs schedules on main only, and this is no branch" in said
    _, *commands = [line for line in said.splitlines() if line.startswith("    ")]
    subprocess.run(["bash", "-euc", "\n".join(commands)], cwd=newcomer.folder, check=True, timeout=60)
    pushed = newcomer.git(remote, "ls-tree", "-r", "--name-only", "torchperf").splitlines()
    assert {"perf/suite of mine.py", "torchperf.yml"} <= {*pushed}


@pytest.mark.parametrize(
    "remote", ["ssh://git@ssh.github.com:443/octo/smallnet.git", "https://GitHub.com/octo/smallnet"]
)
def test_github_is_known_by_its_other_addresses(newcomer: Newcomer, remote: str) -> None:
    newcomer.git(newcomer.folder, "remote", "set-url", "origin", remote)
    _, said = newcomer.init("--dry-run")
    assert "repository      https://github.com/octo/smallnet " in said
    assert newcomer.init()[1].count("the workflows run on GitHub alone") == 0


@pytest.mark.parametrize(("host", "is_told"), [("github.octo.com", True), ("octo.ghe.com", False)])
def test_a_server_of_ones_own_cannot_run_the_workflows(newcomer: Newcomer, host: str, is_told: bool) -> None:
    """It has neither the artifacts that they hand on nor ``$/``; the cloud under an address of one's own has both."""
    newcomer.git(newcomer.folder, "remote", "set-url", "origin", f"git@{host}:octo/smallnet.git")
    assert (f"origin is on {host}: the workflows run on GitHub alone" in newcomer.init()[1]) is is_told


def test_of_several_remotes_origin_is_meant(newcomer: Newcomer) -> None:
    newcomer.git(newcomer.folder, "remote", "add", "fork", "git@github.com:me/smallnet.git")
    assert "https://github.com/octo/smallnet" in newcomer.init("--dry-run")[1]


@pytest.mark.parametrize(
    "ref",
    [
        f"{where}/{name}"
        for where in ("refs/heads", "refs/remotes/origin")
        for name in ("benchmarks", "benchmarks/faster")
    ],
)
def test_a_branch_of_code_called_benchmarks_gets_no_records(newcomer: Newcomer, ref: str) -> None:
    newcomer.git(newcomer.folder, "commit", "--quiet", "--allow-empty", "--message", "Begin")
    newcomer.git(newcomer.folder, "update-ref", ref, "HEAD")
    newcomer.init()
    assert config.load_config(newcomer.folder / "torchperf.yml").upload.branch == "torchperf-records"


def test_the_records_of_a_branch_called_benchmarks_are_continued(newcomer: Newcomer) -> None:
    newcomer.git(newcomer.folder, "checkout", "--quiet", "--orphan", "benchmarks")
    newcomer.write("v3/octo/smallnet/1/2/records.json", "[]")
    newcomer.write("judged/octo/smallnet/1/verdicts.json", "{}")
    newcomer.write("packed/index")
    newcomer.git(newcomer.folder, "add", "v3", "judged", "packed")
    newcomer.git(newcomer.folder, "commit", "--quiet", "--message", "Add 1 record file")
    newcomer.git(newcomer.folder, "update-ref", "refs/remotes/origin/benchmarks", "HEAD")
    newcomer.git(newcomer.folder, "checkout", "--quiet", "--orphan", "main")
    newcomer.git(newcomer.folder, "rm", "-r", "--quiet", "--force", ".")
    newcomer.init()
    assert config.load_config(newcomer.folder / "torchperf.yml").upload.branch == "benchmarks"
