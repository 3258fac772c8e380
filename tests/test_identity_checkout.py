from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from torchperf_ci.errors import UsageError
from torchperf_ci.identity import (
    MeasuredCommit,
    UnknownIdentityError,
    read_checkout,
    repository_name,
    uncommitted_note,
)
from torchperf_ci.options.storage_commands import UploadOptions
from torchperf_ci.upload.metadata import gather_metadata

if TYPE_CHECKING:
    from pathlib import Path

DATE = 1_600_000_000


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=someone", "-c", "user.email=someone@localhost", "-c", "commit.gpgsign=false")
    environ = {
        "GIT_COMMITTER_DATE": f"{DATE} +0000",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "PATH": "/usr/bin:/bin:/usr/local/bin",
    }
    command = ["git", *identity, "-C", str(folder), *arguments]
    return subprocess.run(
        command, env=environ, check=True, capture_output=True, text=True, timeout=60
    ).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=faster/still")
    git(folder, "commit", "--quiet", "--allow-empty", "--message=First")
    git(folder, "remote", "add", "origin", "https://someone:secret@github.com/pytorch/pytorch.git")
    return folder


def test_a_branch(repository: Path) -> None:
    sha = git(repository, "rev-parse", "HEAD")
    assert read_checkout(repository) == MeasuredCommit("pytorch/pytorch", "faster/still", sha, DATE)


def test_uncommitted_changes_are_told_and_the_index_is_not_touched(repository: Path) -> None:
    (repository / "code.py").write_text("1")
    assert not uncommitted_note(repository, "that matters")
    git(repository, "add", "code.py")
    assert "has uncommitted changes, that matters" in uncommitted_note(repository, "that matters")
    git(repository, "commit", "--quiet", "--message=Second")
    os.utime(repository / "code.py", (DATE, DATE))
    index = (repository / ".git/index").read_bytes()
    assert not uncommitted_note(repository, "that matters")
    assert (repository / ".git/index").read_bytes() == index


def test_a_detached_head_is_on_a_branch_that_holds_it(repository: Path) -> None:
    git(repository, "checkout", "--quiet", "--detach")
    assert read_checkout(repository).branch == "faster/still"


def test_a_detached_head_may_be_on_a_remote_branch_only(repository: Path) -> None:
    git(repository, "checkout", "--quiet", "--detach")
    git(repository, "update-ref", "refs/remotes/origin/viable/strict", "HEAD")
    git(repository, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/viable/strict")
    git(repository, "branch", "--quiet", "-D", "faster/still")
    assert read_checkout(repository).branch == "viable/strict"


def test_of_several_branches_it_is_the_default_one(repository: Path) -> None:
    git(repository, "checkout", "--quiet", "--detach")
    git(repository, "branch", "a-branch-that-sorts-first")
    git(repository, "update-ref", "refs/remotes/origin/main", "HEAD")
    git(repository, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
    assert read_checkout(repository).branch == "main"


def test_no_branch_is_never_guessed(repository: Path) -> None:
    git(repository, "checkout", "--quiet", "--detach")
    git(repository, "commit", "--quiet", "--allow-empty", "--message=Second")
    with pytest.raises(UnknownIdentityError, match="no branch holds the commit"):
        read_checkout(repository)


def test_without_a_remote_the_flags_are_told_and_no_secret(repository: Path) -> None:
    for call, told in (
        (
            ("set-url", "origin", "../perf.git"),
            "'origin', ../perf.git, does not say which.* set-url origin",
        ),
        (("remove", "origin"), "no remote 'origin' says which.* add origin"),
    ):
        git(repository, "remote", *call)
        with pytest.raises(UsageError, match=rf"{told}.*--repo-name, --head-branch and --head-sha"):
            gather_metadata(UploadOptions(repo=str(repository)), {}, "digest", "torchperf")


def test_what_is_no_checkout_is_told(tmp_path: Path) -> None:
    with pytest.raises(UnknownIdentityError, match="not a git repository"):
        read_checkout(tmp_path)
    with pytest.raises(UnknownIdentityError, match="there is no such directory"):
        read_checkout(tmp_path / "absent")


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://github.com/vllm-project/vllm.git", "vllm-project/vllm"),
        ("https://github.com/vllm-project/vllm/", "vllm-project/vllm"),
        ("https://x:y@ghe.example.com:8443/team/perf", "team/perf"),
        ("git@github.com:octo/torch.github.io.git", "octo/torch.github.io"),
        ("ssh://git@github.com:22/octo/perf.git", "octo/perf"),
        ("/srv/git/octo/perf.git", "octo/perf"),
        ("perf.git", ""),
        ("../perf.git", ""),
        ("../../octo/perf", "octo/perf"),
        ("https://github.com", ""),
        ("https://[::1/octo/perf", ""),
        ("https://[x/octo/perf", ""),
        ("", ""),
    ],
)
def test_the_repositorys_name(url: str, name: str) -> None:
    assert repository_name(url) == name
