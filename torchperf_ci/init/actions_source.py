"""Find where a repository's workflows take torchperf's actions from: ``OWNER/NAME@REF``, preferably a commit."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

from torchperf_ci import __version__
from torchperf_ci.deadline import Deadline
from torchperf_ci.git import Git, GitError
from torchperf_ci.identity import origin_page, page_of

PUBLISHED = "OWNER/torchperf-ci@v1"
"""Source if nothing else is known. To be completed with the owner's name when the project is published."""
_GITHUB = "github.com"
_SECONDS = 60.0
_COMMIT = re.compile("[0-9a-f]{40}")
_PAGE = re.compile(r"https://([^/]+)/([A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+)")


@dataclass(frozen=True)
class ActionsSource:
    """A GitHub repository (``owner/name``) and one of its commits, tags or branches."""

    repository: str
    ref: str

    def __str__(self) -> str:
        return f"{self.repository}@{self.ref}"

    @property
    def is_known(self) -> bool:
        """Whether the name is that of a real repository, not the placeholder."""
        return not self.repository.startswith("OWNER/")

    @property
    def is_pinned(self) -> bool:
        """Whether the ref is a commit, which can never change."""
        return bool(_COMMIT.fullmatch(self.ref))

    @property
    def comment(self) -> str:
        """Comment with the version for a pinned source, because a commit alone is not readable."""
        return f" # torchperf {__version__}" if self.is_pinned else ""


def find_source(given: str | None, host: str) -> ActionsSource:
    """Return the given source, else the commit on GitHub or ``host`` that this torchperf is from, else the default."""
    repository, _, ref = (given or PUBLISHED).partition("@")
    return (None if given else _installed(host)) or ActionsSource(repository, ref)


def _installed(host: str) -> ActionsSource | None:
    """Read from pip's ``direct_url.json`` (PEP 610) from which repository and commit, or folder, it was installed."""
    told = None
    with suppress(PackageNotFoundError):
        told = distribution("torchperf-ci").read_text("direct_url.json")
    note = json.loads(told or "{}")
    url = str(note.get("url", ""))
    if url.startswith("file://"):
        return _clone(Path(unquote(urlsplit(url).path)), host)
    return _on_github(page_of(url), str(note.get("vcs_info", {}).get("commit_id", "")), host)


def _clone(folder: Path, host: str) -> ActionsSource | None:
    """Return the commit of a clone if it was pushed, because GitHub has no other commits."""
    if not (folder / ".git").exists():
        return None
    try:
        git = Git(folder, Deadline.after(_SECONDS))
        commit = git("rev-parse", "HEAD").decode().strip()
        pushed = git("for-each-ref", "--count=1", "--contains", commit, "refs/remotes/origin")
    except GitError:
        return None
    return _on_github(origin_page(folder), commit, host) if pushed else None


def _on_github(page: str, commit: str, host: str) -> ActionsSource | None:
    found = _PAGE.fullmatch(page)
    if not found or found[1] not in (_GITHUB, host) or not _COMMIT.fullmatch(commit):
        return None
    return ActionsSource(found[2], commit)
