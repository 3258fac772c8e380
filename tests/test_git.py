"""Programs named in a checkout's own git configuration do not run; those in the user's configuration do."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from torchperf_ci.bisect.commits import path_changes, read_range
from torchperf_ci.deadline import Deadline
from torchperf_ci.environments.revisions import find_revision, worktree
from torchperf_ci.errors import EnvironmentUnderTestError
from torchperf_ci.git import Git, GitError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SECONDS = 60.0


class Trap:
    """A repository of two commits, and a program that writes down with what it was called."""

    def __init__(self, folder: Path, git: Callable[..., str]) -> None:
        self.folder, self._git, self.marks = folder / "repo", git, folder / "marks"
        self.program = folder / "program"
        self.program.write_text(f'#!/bin/sh\necho "$0 $*" >>{self.marks}\n')
        self.program.chmod(0o755)
        self.folder.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")
        for content in ("one", "two"):
            (self.folder / "file.txt").write_text(content)
            self.git("add", "--all")
            self.git("commit", "--quiet", "--message", content)

    def git(self, *arguments: str) -> str:
        return self._git(self.folder, *arguments)

    def attribute(self, text: str) -> None:
        (self.folder / ".gitattributes").write_text(f"*.txt {text}\n")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "three")

    def ran(self) -> str:
        return self.marks.read_text() if self.marks.exists() else ""

    def use(self, tmp_path: Path) -> str:
        """All that a bisection asks of a repository; the content of its file at the newest commit."""
        revision, why = find_revision("main", self.folder)
        assert revision, why
        path_changes(read_range(self.folder, "main~1", "main"))
        scratch = tmp_path / "torchperf-scratch"
        scratch.mkdir(exist_ok=True)
        with worktree(revision, scratch) as tree:
            return (tree / "file.txt").read_text()


@pytest.fixture
def trap(tmp_path: Path, git: Callable[..., str]) -> Trap:
    return Trap(tmp_path, git)


# What git prints where the network fails, with libcurl 7.88 and 8.23, with OpenSSL and GnuTLS, and over ssh.
PASSING = [
    "fatal: unable to access 'https://o.org/r/': Could not resolve host: o.org",
    "fatal: unable to access 'https://o.org/r/': Failed to connect to o.org port 443 after 9 ms: Couldn't connect",
    "fatal: unable to access 'https://o.org/r/': Failed to connect to o.org:443 after 9 ms: Could not connect",
    "fatal: unable to access 'https://o.org/r/': SSL connection timeout",
    "fatal: unable to access 'https://o.org/r/': Recv failure: Connection reset by peer",
    "fatal: unable to access 'https://o.org/r/': OpenSSL SSL_connect: SSL_ERROR_SYSCALL in connection to o.org:443",
    "fatal: unable to access 'https://o.org/r/': The TLS connection was non-properly terminated.",
    "fatal: unable to access 'https://o.org/r/': SSL_read: error:0A000126:SSL routines::unexpected eof",
    "fatal: unable to access 'https://o.org/r/': transfer closed with 4966 bytes remaining to read",
    "fatal: unable to access 'https://o.org/r/': transfer closed with outstanding read data remaining",
    "fatal: expected flush after ref listing",
    "fatal: expected 'packfile'",
    "error: RPC failed; curl 92 HTTP/2 stream 5 was not closed cleanly: CANCEL (err 8)",
    "ssh: connect to host o.org port 22: Network is unreachable",
]
FINAL = [
    "fatal: unable to access 'https://o.org/r/': The requested URL returned error: 403",
    "fatal: unable to access 'https://o.org/r/': SSL certificate problem: self-signed certificate",
    "fatal: couldn't find remote ref timeout",
]


@pytest.mark.parametrize("message", PASSING)
def test_what_the_network_did_may_pass(message: str) -> None:
    assert GitError(message).may_pass


@pytest.mark.parametrize("message", FINAL)
def test_what_is_wrong_does_not_pass(message: str) -> None:
    assert not GitError(message).may_pass


def test_a_folder_that_is_none_is_the_reason_and_not_a_missing_git(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("file", "nowhere"):
        with pytest.raises(GitError, match="there is no such directory"):
            Git(tmp_path / name, Deadline.after(SECONDS))("status")


@pytest.mark.parametrize(
    "old",
    [
        'unset GIT_CONFIG_COUNT; exec {git} "$@"',  # 2.30 would run the programs
        'echo "error: unknown option \\`show-scope\'" >&2; exit 129',  # 2.25
    ],
)
def test_a_git_that_ignores_what_it_is_told_is_not_used(
    trap: Trap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str
) -> None:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/git"
    program.write_text(f"#!/bin/sh\n{old.format(git=shutil.which('git'))}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    with pytest.raises(GitError, match=r"too old: torchperf needs git 2\.31 or newer"):
        Git(trap.folder, Deadline.after(SECONDS))("log")


def test_no_program_of_a_checkouts_configuration_runs(trap: Trap, tmp_path: Path) -> None:
    (tmp_path / "hooks").mkdir()
    for hook in ("post-checkout", "post-index-change", "reference-transaction"):
        (tmp_path / "hooks" / hook).symlink_to(trap.program)
    (tmp_path / "included").write_text(f'[core]\n\tfsmonitor = "{trap.program}"\n')
    trap.attribute("diff=evil")
    trap.git("config", "log.showSignature", "true")
    trap.git("config", "core.hooksPath", str(tmp_path / "hooks"))
    trap.git("config", "include.path", str(tmp_path / "included"))
    for key in ("core.pager", "diff.external", "diff.evil.textconv", "diff.evil.command", "gpg.program"):
        trap.git("config", key, str(trap.program))
    for key in ("alias.reset", "alias.log", "credential.helper"):
        trap.git("config", key, f"!{trap.program}")
    trap.marks.unlink(missing_ok=True)  # the calls of git above are not ours
    assert trap.use(tmp_path) == "two"
    assert trap.ran() == ""


@pytest.mark.parametrize("kind", ["smudge", "process"])
def test_a_filter_of_the_checkout_does_not_run_and_is_named(trap: Trap, tmp_path: Path, kind: str) -> None:
    trap.attribute("filter=evil")
    trap.git("config", f"filter.evil.{kind}", str(trap.program))
    named = r"filter evil failed.*not run: filter\.evil\..*git config --global"
    with pytest.raises(EnvironmentUnderTestError, match=named):
        trap.use(tmp_path)
    assert trap.ran() == ""


def test_a_filter_that_no_file_is_for_stops_nothing(trap: Trap, tmp_path: Path) -> None:
    trap.git("config", "filter.evil.smudge", str(trap.program))
    assert trap.use(tmp_path) == "two"


def test_a_filter_of_the_users_own_runs_whatever_the_checkout_says(
    trap: Trap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "global").write_text('[filter "mine"]\n\tsmudge = tr a-z A-Z\n')
    trap.attribute("filter=mine")
    trap.git("config", "filter.mine.smudge", str(trap.program))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "global"))
    assert trap.use(tmp_path) == "TWO"
    assert trap.ran() == ""


def test_large_files_that_the_checkout_was_set_up_for_are_there(
    trap: Trap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "git-lfs").write_text('#!/bin/sh\necho "large: $*"\n')
    (tmp_path / "git-lfs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    trap.attribute("filter=lfs")
    trap.git("config", "filter.lfs.smudge", "git-lfs smudge -- %f")  # as `git lfs install --local` has it
    assert trap.use(tmp_path) == "large: smudge -- file.txt\n"
    trap.git("config", "filter.lfs.smudge", f"git-lfs smudge -- %f; {trap.program}")
    with pytest.raises(EnvironmentUnderTestError, match="filter lfs failed"):
        trap.use(tmp_path)
    assert trap.ran() == ""


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("ssh://git@127.0.0.1:1/repo", "core.sshCommand"),
        ("git://127.0.0.1:1/repo", "core.gitProxy"),
        ("{program.parent}/repo", "remote.evil.uploadpack"),
        ("ext::{program}", "protocol.ext.allow"),
        ("ext::{program}", "protocol.allow"),
    ],
)
def test_what_is_fetched_runs_nothing_of_the_checkout_either(trap: Trap, url: str, key: str) -> None:
    trap.git("remote", "add", "evil", url.format(program=trap.program))
    trap.git("config", key, "always" if key.endswith("allow") else str(trap.program))
    with pytest.raises(GitError):
        Git(trap.folder, Deadline.after(SECONDS))("fetch", "--quiet", "evil")
    assert trap.ran() == ""


def test_a_signal_in_the_moment_when_git_has_ended_is_that_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(process: subprocess.Popen[bytes], *_: object, **__: object) -> None:
        process.wait(SECONDS)
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "communicate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Git(tmp_path, Deadline.after(SECONDS))("--version")


def test_the_end_of_a_long_message_holds_no_end_of_a_secret(tmp_path: Path) -> None:
    with pytest.raises(GitError, match="unable to access") as caught:
        Git.within(60, tmp_path)("ls-remote", f"https://me:{'s3cret' * 100}@127.0.0.1:1/r")
    assert "s3cret" not in str(caught.value)
