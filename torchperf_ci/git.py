"""Run git without prompts, within a deadline, without exposing tokens, and without running a repository's programs.

A repository's hooks and local configuration may name programs, and its author need not be the user. Programs named by
the user's own configuration (``git config --global``) or environment do run.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from torchperf_ci.deadline import Deadline
from torchperf_ci.masking import without_secrets
from torchperf_ci.processes import end_group

# Variables that would point git to another repository or index.
_ELSEWHERE = (
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_DIR", "GIT_GRAFT_FILE", "GIT_INDEX_FILE",
    "GIT_NAMESPACE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX", "GIT_QUARANTINE_PATH", "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
)  # fmt: skip

# Messages of git, and of curl, TLS and ssh through it, that are caused by a concurrent push, the network, or an
# overloaded server. Their words differ by version.
_PASSING = re.compile(
    r"stale info|reference already exists|incorrect old value|"
    r"cannot lock ref|failed to (lock|update) ref|\.lock': File exists|"
    r"could not resolve host|failed to (connect|resolve)|connection (refused|reset|closed|timeout)|timed out|"
    r"timeout was reached|network is unreachable|no route to host|(recv|send) failure|not closed cleanly|"
    r"ssl_error_syscall|non-properly terminated|unexpected eof|transfer closed with|expected (flush|'packfile')|"
    r"empty reply|early EOF|unexpected disconnect|hung up unexpectedly|(error:|HTTP) (408|429|5\d\d)\b",
    re.IGNORECASE,
)
_REFUSED = re.compile(r"(error:|HTTP) 4(?!08|29)\d\d\b|hash algorithm")

GitSetting = tuple[str, str]

# No hooks, no file system monitor, no external protocols, and no background maintenance.
_PLAIN: tuple[GitSetting, ...] = (
    ("core.hooksPath", os.devnull),
    ("core.fsmonitor", "false"),
    ("protocol.ext.allow", "never"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
)

# Keys whose values git runs as programs, and the value that is set instead. Aliases, pagers and editors are missing
# because an alias cannot replace a built-in command, and nothing here is interactive.
_PROGRAMS: tuple[tuple[str, str], ...] = (
    (r"core\.sshcommand", "ssh"),
    (r"core\.askpass|credential\.(.*\.)?helper", ""),
    (r"core\.alternaterefscommand|hook\..*\.command", "true"),
    (r"filter\..*\.(clean|smudge|process)", ""),
    (r"diff\.(external|.*\.(command|textconv))|merge\..*\.driver", ""),
    (r"gpg\.(.*\.)?(program|defaultkeycommand)", "false"),
    (r"submodule\..*\.update", "checkout"),
    (r"lfs\.(customtransfer|extension)\..*|lfs\.(.*\.)?standalonetransferagent", ""),
)

# For these keys git uses the first value, so they cannot be overridden.
_REFUSED_KEYS = re.compile(r"remote\..*\.(uploadpack|receivepack|vcs)")

# Written by `git lfs install --local`, which actions/checkout runs; without them files would be LFS pointers.
_LFS = re.compile(
    r"filter\.lfs\.(clean|smudge|process)\ngit-lfs (clean|smudge|filter-process)( --skip)?( -- %f)?"
)


class GitError(Exception):
    """git failed or exceeded its deadline; the message is git's own, without secrets."""

    @property
    def may_pass(self) -> bool:
        """Whether a retry may succeed."""
        return bool(_PASSING.search(str(self)) and not _REFUSED.search(str(self)))


@dataclass(frozen=True)
class Git:
    """git in one repository. ``settings`` are passed through the environment, not in files or on the command line."""

    folder: Path
    deadline: Deadline
    settings: Sequence[GitSetting] = ()

    @classmethod
    def within(cls, seconds: float, folder: Path) -> Git:
        """Git in a folder, with so much time for all calls together."""
        return cls(folder, Deadline.after(seconds))

    def __call__(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """Run git and return its output. Raises :class:`GitError`."""
        overrides = self._own_programs
        try:
            return self._run(arguments, (*_PLAIN, *overrides, *self.settings), stdin)
        except GitError as error:
            if not overrides:
                raise
            keys = ", ".join(sorted({key for key, _ in overrides}))
            msg = (
                f"{error} (programs that only this repository's own configuration names are not run: {keys}; what you "
                "need belongs in your own, git config --global)"
            )
            raise GitError(msg) from None

    @cached_property
    def _own_programs(self) -> Sequence[GitSetting]:
        """The settings that override the repository's; read once, since each call would start a second process."""
        return _overrides(self._listing())

    def _listing(self) -> bytes:
        """Return all settings with their scopes. Raises :class:`GitError`, also if git ignores those passed to it."""
        try:
            listing = self._run(("config", "--list", "--show-scope", "-z"), _PLAIN, b"")
        except GitError as error:
            listing = b""
            if "unknown option" not in str(error):
                raise
        if b"command\0core.hookspath\n" not in listing:
            raise GitError("this git is too old: torchperf needs git 2.31 or newer")
        return listing

    def blobs(self, names: Sequence[str]) -> Iterator[bytes]:
        """Yield the contents of files, given their object names, from one call of git."""
        output = self("cat-file", "--batch=%(objectsize)", stdin="\n".join(names).encode())
        at = 0
        for _ in names:
            begin = output.index(b"\n", at) + 1
            end = begin + int(output[at:begin])
            yield output[begin:end]
            at = end + 1

    def _run(self, arguments: Sequence[str], settings: Sequence[GitSetting], stdin: bytes) -> bytes:
        try:
            process = self._start(arguments, settings)
        except (FileNotFoundError, NotADirectoryError) as error:
            is_there = self.folder.is_dir()
            msg = "git is not installed, or not on the PATH" if is_there else "there is no such directory"
            raise GitError(msg) from error
        with process:
            try:
                out, err = process.communicate(stdin, timeout=self.deadline.left)
            except subprocess.TimeoutExpired:
                end_group(process.pid)
                raise GitError(f"git {arguments[0]} did not finish in time") from None
            except BaseException:
                end_group(process.pid)
                raise
        if process.returncode:
            raise GitError(_git_message(arguments[0], process.returncode, err))
        return out

    def _start(self, arguments: Sequence[str], settings: Sequence[GitSetting]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["git", *arguments],  # noqa: S607  # the user's git
            cwd=self.folder,
            env=git_environment(os.environ, settings),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # so that ssh cannot prompt either, and git's helpers can be killed with it
        )


def git_environment(base: Mapping[str, str], settings: Sequence[GitSetting]) -> dict[str, str]:
    """Return ``base`` for running git: no prompts, English messages, and ``settings`` after those it has already."""
    chosen = {name: value for name, value in base.items() if name not in _ELSEWHERE}
    count = int(chosen.get("GIT_CONFIG_COUNT") or 0)
    for number, (key, value) in enumerate(settings, start=count):
        chosen[f"GIT_CONFIG_KEY_{number}"], chosen[f"GIT_CONFIG_VALUE_{number}"] = key, value
    chosen["GIT_CONFIG_COUNT"] = str(count + len(settings))
    # git uses the first value of `core.gitProxy`, so only a variable can override the repository's.
    proxy = chosen.get("GIT_PROXY_COMMAND", "")
    return {**chosen, "GIT_PROXY_COMMAND": proxy, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}


def _overrides(listing: bytes) -> list[GitSetting]:
    """Return settings that override every program named by the repository's configuration, then those of the user.

    ``listing`` is the output of ``git config --list --show-scope -z``. Raises :class:`GitError` for a key that cannot
    be overridden.
    """
    fields = os.fsdecode(listing).split("\0")
    entries = list(zip(fields[::2], fields[1::2], strict=False))  # the last field follows the last NUL
    own = [entry for scope, entry in entries if scope in ("local", "worktree") and not _LFS.fullmatch(entry)]
    settings = []
    for key in dict.fromkeys(entry.partition("\n")[0] for entry in own):
        if _REFUSED_KEYS.fullmatch(key):
            msg = f"this repository's own configuration names a program as {key}: unset it, git is not run here before"
            raise GitError(msg)
        instead = next((value for keys, value in _PROGRAMS if re.fullmatch(keys, key)), None)
        if instead is not None:
            others = (
                entry.partition("\n") for scope, entry in entries if scope in ("system", "global", "command")
            )
            settings += [(key, instead), *((name, value) for name, _, value in others if name == key)]
    # Without its program, git would check out raw files unless the filter is required.
    filters = (key.rpartition(".")[0] for key, _ in settings if key.startswith("filter."))
    return settings + [(f"{name}.required", "true") for name in dict.fromkeys(filters)]


def _git_message(command: str, status: int, stderr: bytes) -> str:
    lines = [line.strip() for line in stderr.decode(errors="replace").splitlines()]
    message = " ".join(line for line in lines if line and not line.startswith(("hint:", "warning:")))
    told = without_secrets(message)[-500:]  # in this order: a half of a secret is not recognized
    return f"git {command} ended with {status}: {told or 'it did not say why'}"
