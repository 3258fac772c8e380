"""What a git checkout says about the change that it holds."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from torchperf_ci.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

_DEADLINE = 60.0
_BY_HAND = "or say what was measured with --repo-name, --head-branch and --head-sha"


@dataclass(frozen=True)
class Checkout:
    """A repository (``owner/name``), a branch, a commit, and when it was committed (Unix time in seconds)."""

    repo: str
    branch: str
    sha: str
    date: int


def read_checkout(folder: Path) -> Checkout:
    """Ask git about ``folder``; raises :class:`UsageError` where it cannot tell everything."""
    sha, date = _git(folder, "log", "-1", "--no-show-signature", "--format=%H %ct").split()
    return Checkout(_repository(folder), _branch(folder), sha, int(date))


def _repository(folder: Path) -> str:
    url = _git(folder, "remote", "get-url", "origin")
    repo = repository_name(url)
    if not repo:
        msg = f"{folder}: its remote 'origin' names no owner/name; set one, {_BY_HAND}"
        raise UsageError(msg)
    return repo


def repository_name(url: str) -> str:
    """``owner/name`` of a remote such as ``https://host/owner/name.git`` or ``git@host:owner/name``, or empty."""
    try:
        path = urlsplit(url).path if "://" in url else url.rpartition(":")[2]
    except ValueError:
        return ""
    parts = [part for part in path.removesuffix("/").removesuffix(".git").split("/") if part]
    return "/".join(parts[-2:]) if len(parts) > 1 else ""


def _branch(folder: Path) -> str:
    """The branch checked out; of a detached HEAD, as CI checks out, the default branch or another that holds it."""
    current = _git(folder, "branch", "--show-current")
    if current:
        return current
    # What the symbolic references point at, a remote's default branch, comes first.
    form = "--format=%(if)%(symref)%(then)0 %(symref)%(else)1 %(refname)%(end)"
    listed = _git(folder, "for-each-ref", "--contains=HEAD", form, "refs/heads", "refs/remotes").splitlines()
    names = [_short(line.partition(" ")[2]) for line in sorted(listed)]
    if not names:
        msg = f"{folder}: no branch holds the commit that is checked out; fetch its branch, {_BY_HAND}"
        raise UsageError(msg)
    return names[0]


def _short(ref: str) -> str:
    kind, _, name = ref.removeprefix("refs/").partition("/")
    return name if kind == "heads" else name.partition("/")[2]


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_DEADLINE, check=True)
    except FileNotFoundError:
        msg = f"git is not installed, so {folder} cannot be asked what it holds; install it, {_BY_HAND}"
        raise UsageError(msg) from None
    except subprocess.TimeoutExpired:
        msg = (
            f"{folder}: git did not answer within {_DEADLINE:g} s; look for a lock or a slow disk, {_BY_HAND}"
        )
        raise UsageError(msg) from None
    except subprocess.CalledProcessError as error:
        reason = (error.stderr.strip().splitlines() or [f"git ended with {error.returncode}"])[-1]
        reason = reason.removeprefix("fatal: ").removeprefix("error: ")
        msg = f"{folder}: {reason}; name the checkout that was measured with --repo, {_BY_HAND}"
        raise UsageError(msg) from None
    return done.stdout.strip()
