"""Run git so that it never asks, never runs a hook, never outlives its time, and never shows a token."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from torchperf_ci.deadline import Deadline

# Variables that would point git at another repository or index than the one that it is told.
_ELSEWHERE = (
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_DIR", "GIT_GRAFT_FILE", "GIT_INDEX_FILE",
    "GIT_NAMESPACE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX", "GIT_QUARANTINE_PATH", "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
)  # fmt: skip
_SECRET = re.compile(r"(?<=://)[^/@\s]+@|(?i:(?<=basic )|(?<=bearer ))\S+")

# What somebody else's push at the same moment, a network or an overloaded server makes git say.
_PASSING = re.compile(
    r"stale info|fetch first|non-fast-forward|reference already exists|incorrect old value|"
    r"cannot lock ref|failed to (lock|update) ref|\.lock': File exists|"
    r"could not resolve host|couldn't connect|connection (refused|reset|timed out|closed)|operation timed out|"
    r"empty reply|early EOF|unexpected disconnect|hung up unexpectedly|(error:|HTTP) (408|429|5\d\d)\b",
    re.IGNORECASE,
)
_REFUSED = re.compile(r"(error:|HTTP) 4(?!08|29)\d\d\b")

Setting = tuple[str, str]


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
    settings: Sequence[Setting] = ()

    def __call__(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """What git prints. Raises :class:`GitError`."""
        try:
            process = self._start(arguments)
        except FileNotFoundError as error:
            msg = "git is not installed, or not on the PATH"
            raise GitError(msg) from error
        with process:
            try:
                out, err = process.communicate(stdin, timeout=self.deadline.left)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                msg = f"git {arguments[0]} was not done when the time was up"
                raise GitError(msg) from None
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        if process.returncode:
            raise GitError(_message(arguments[0], process.returncode, err))
        return out

    def _start(self, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["git", *arguments],  # noqa: S607  # whichever git the user has
            cwd=self.folder,
            env=environment(os.environ, self.settings),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # without a terminal ssh cannot ask either, and git's helpers end with it
        )


def environment(base: Mapping[str, str], settings: Sequence[Setting]) -> dict[str, str]:
    """``base`` for git: no questions, messages in English, and ``settings`` after those that it gives already."""
    chosen = {name: value for name, value in base.items() if name not in _ELSEWHERE}
    given = int(chosen.get("GIT_CONFIG_COUNT") or 0)
    for number, (key, value) in enumerate(settings, start=given):
        chosen[f"GIT_CONFIG_KEY_{number}"], chosen[f"GIT_CONFIG_VALUE_{number}"] = key, value
    chosen["GIT_CONFIG_COUNT"] = str(given + len(settings))
    return {**chosen, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}


def without_secrets(text: str) -> str:
    """``text`` less the credentials of URLs and headers in it."""
    return _SECRET.sub("***", text)


def _message(command: str, status: int, stderr: bytes) -> str:
    lines = [line.strip() for line in stderr.decode(errors="replace").splitlines()]
    told = " ".join(line for line in lines if line and not line.startswith(("hint:", "warning:")))
    return without_secrets(f"git {command} ended with {status}: {told[-500:] or 'it did not say why'}")
