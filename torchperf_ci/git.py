"""Run git so that it never asks, never outlives its time, never shows a token, and runs no program of a repository's.

A repository's hooks and its own configuration may name programs, and who made the folder may not be who calls us. What
the user's own configuration (``git config --global``) or the environment names does run.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from torchperf_ci.deadline import Deadline

# Variables that would point git at another repository or index than the one that it is told.
_ELSEWHERE = (
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_DIR", "GIT_GRAFT_FILE", "GIT_INDEX_FILE",
    "GIT_NAMESPACE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX", "GIT_QUARANTINE_PATH", "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
)  # fmt: skip
_SECRET = re.compile(
    r"(?<=://)[^/@\s:]+:(?!\d+(?:[/\s]|$))[^/\n]*@|(?<=://)[^/@\s]+@|"
    r"(?i:(?<=basic )|(?<=bearer )|(?<=[?&]token=)|(?<=[?&]password=))[^\s&]+"
)

# What somebody else's push at the same moment, a network or an overloaded server makes git say.
_PASSING = re.compile(
    r"stale info|fetch first|non-fast-forward|reference already exists|incorrect old value|"
    r"cannot lock ref|failed to (lock|update) ref|\.lock': File exists|"
    r"could not resolve host|couldn't connect|connection (refused|reset|timed out|closed)|operation timed out|"
    r"empty reply|early EOF|unexpected disconnect|hung up unexpectedly|(error:|HTTP) (408|429|5\d\d)\b",
    re.IGNORECASE,
)
_REFUSED = re.compile(r"(error:|HTTP) 4(?!08|29)\d\d\b")

GitSetting = tuple[str, str]

# No hook, no program that watches files, no program as a protocol, and no clean-up in the background.
_PLAIN: tuple[GitSetting, ...] = (
    ("core.hooksPath", os.devnull),
    ("core.fsmonitor", "false"),
    ("protocol.ext.allow", "never"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
)

# Keys, as git lists them, whose values git runs, and what is set instead. Aliases, pagers and editors are not among
# them: an alias never stands for a command of git's own, and nothing here is interactive.
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

# Of these the first value counts, so that nothing can be set instead.
_REFUSED_KEYS = re.compile(r"remote\..*\.(uploadpack|receivepack|vcs)")

# What `git lfs install --local` writes, as actions/checkout has it do: without these, files would be pointers to files.
_LFS = re.compile(
    r"filter\.lfs\.(clean|smudge|process)\ngit-lfs (clean|smudge|filter-process)( --skip)?( -- %f)?"
)


class GitError(Exception):
    """git failed, or its time was up; the message is git's own, without secrets."""

    @property
    def may_pass(self) -> bool:
        """Whether the same again may succeed."""
        return bool(_PASSING.search(str(self)) and not _REFUSED.search(str(self)))


@dataclass(frozen=True)
class Git:
    """git in one repository. ``settings`` reach it through the environment: no file, no command line shows them."""

    folder: Path
    deadline: Deadline
    settings: Sequence[GitSetting] = ()

    def __call__(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """What git prints. Raises :class:`GitError`."""
        taken_back = _taken_back(self._run(("config", "--list", "--show-scope", "-z"), (), b""))
        try:
            return self._run(arguments, (*_PLAIN, *taken_back, *self.settings), stdin)
        except GitError as error:
            if not taken_back:
                raise
            keys = ", ".join(sorted({key for key, _ in taken_back}))
            msg = (
                f"{error} (programs that only this repository's own configuration names are not run: {keys}; what you "
                "need belongs into your own, git config --global)"
            )
            raise GitError(msg) from None

    def _run(self, arguments: Sequence[str], settings: Sequence[GitSetting], stdin: bytes) -> bytes:
        try:
            process = self._start(arguments, settings)
        except FileNotFoundError as error:
            msg = "git is not installed, or not on the PATH"
            raise GitError(msg) from error
        with process:
            try:
                out, err = process.communicate(stdin, timeout=self.deadline.left)
            except subprocess.TimeoutExpired:
                _kill_group(process)
                msg = f"git {arguments[0]} was not done when the time was up"
                raise GitError(msg) from None
            except BaseException:
                _kill_group(process)
                raise
        if process.returncode:
            raise GitError(_git_message(arguments[0], process.returncode, err))
        return out

    def _start(self, arguments: Sequence[str], settings: Sequence[GitSetting]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["git", *arguments],  # noqa: S607  # whichever git the user has
            cwd=self.folder,
            env=git_environment(os.environ, settings),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # without a terminal ssh cannot ask either, and git's helpers end with it
        )


def git_environment(base: Mapping[str, str], settings: Sequence[GitSetting]) -> dict[str, str]:
    """``base`` for git: no questions, messages in English, and ``settings`` after those that it gives already."""
    chosen = {name: value for name, value in base.items() if name not in _ELSEWHERE}
    given = int(chosen.get("GIT_CONFIG_COUNT") or 0)
    for number, (key, value) in enumerate(settings, start=given):
        chosen[f"GIT_CONFIG_KEY_{number}"], chosen[f"GIT_CONFIG_VALUE_{number}"] = key, value
    chosen["GIT_CONFIG_COUNT"] = str(given + len(settings))
    # Of `core.gitProxy` the first value counts, so that only a variable stands above the repository's.
    proxy = chosen.get("GIT_PROXY_COMMAND", "")
    return {**chosen, "GIT_PROXY_COMMAND": proxy, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}


def _taken_back(listing: bytes) -> list[GitSetting]:
    """Settings that undo each program which the repository's own configuration names; the user's own come after them.

    ``listing`` is what ``git config --list --show-scope -z`` prints. Raises :class:`GitError` for what nothing undoes.
    """
    fields = os.fsdecode(listing).split("\0")
    entries = list(
        zip(fields[::2], fields[1::2], strict=False)
    )  # the last field is what follows the last NUL
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
    return settings + [(f"filter.{name}.required", "true") for name in _filters(settings)]


def _filters(settings: Iterable[GitSetting]) -> Iterable[str]:
    """The names of those among them. A file that such a filter is for must not be taken as it is without it."""
    parts = (key.partition(".")[2].rpartition(".")[0] for key, _ in settings if key.startswith("filter."))
    return dict.fromkeys(parts)


def without_secrets(text: str) -> str:
    """``text`` less the credentials of URLs and headers in it."""
    return _SECRET.sub("***", text)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):  # it has just ended; macOS says so the second way
        os.killpg(process.pid, signal.SIGKILL)


def _git_message(command: str, status: int, stderr: bytes) -> str:
    lines = [line.strip() for line in stderr.decode(errors="replace").splitlines()]
    told = " ".join(line for line in lines if line and not line.startswith(("hint:", "warning:")))
    return without_secrets(f"git {command} ended with {status}: {told[-500:] or 'it did not say why'}")
