"""Where the commits of a checkout can be looked at."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from torchperf_ci.deadline import Deadline
from torchperf_ci.git import Git, GitError

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 30.0
_PATH = r"(?P<path>[\w./~-]+?)(?:\.git)?/?"
_REMOTES = (
    re.compile(r"https?://(?:[^/@]*@)?(?P<host>[\w.-]+(?::\d+)?)/" + _PATH),
    # A port of ssh's is none of its pages'.
    re.compile(r"(?:ssh://(?:[^/@]*@)?|[^/@:]+@)(?P<host>[\w.-]+)(?::\d+(?=/))?[:/]" + _PATH),
)


def origin_url(repo: Path) -> str:
    """The page of the repository that ``origin`` is, without credentials; empty where there is none."""
    try:
        remote = Git(repo, Deadline.after(SECONDS))("remote", "get-url", "origin").decode().strip()
    except (GitError, UnicodeDecodeError):
        return ""
    found = next(filter(None, (form.fullmatch(remote) for form in _REMOTES)), None)
    return f"https://{found['host']}/{found['path']}" if found else ""
