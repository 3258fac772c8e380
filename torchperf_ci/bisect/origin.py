"""Where the commits of a checkout can be looked at."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from torchperf_ci.deadline import Deadline
from torchperf_ci.git import Git, GitError

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 30.0
_REMOTE = re.compile(
    r"(?:https?://(?:[^/@]*@)?|ssh://(?:[^/@]*@)?|[^/@:]+@)(?P<host>[\w.-]+)(?::\d+(?=/))?[:/](?P<path>[\w./~-]+?)(?:\.git)?/?"
)


def origin_url(repo: Path) -> str:
    """The page of the repository that ``origin`` is, without credentials; empty where there is none."""
    try:
        remote = Git(repo, Deadline.after(SECONDS))("remote", "get-url", "origin").decode().strip()
    except (GitError, UnicodeDecodeError):
        return ""
    found = _REMOTE.fullmatch(remote)
    return f"https://{found['host']}/{found['path']}" if found else ""
