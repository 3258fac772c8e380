"""Inspect the repository that ``torchperf init`` sets up, and find where its workflows take torchperf's actions from.

Its files are only read; nothing in it is executed. Actions come from ``OWNER/NAME@REF``, preferably a commit.
"""

from __future__ import annotations

import json
import os
import re
import sys
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci import __version__
from torchperf_ci.deadline import Deadline
from torchperf_ci.errors import UsageError
from torchperf_ci.git import Git, GitError
from torchperf_ci.identity import page_of

if TYPE_CHECKING:
    from collections.abc import Mapping


_SECONDS = 60.0
WORKFLOWS = ".github/workflows"

# Paths without special meaning in YAML, in a quoted shell argument, in a comma-separated list, and to GitHub.
_PLAIN_PATH = re.compile(r"[\w.+@/][\w.+@/ -]*(?<! )")
_INSTALLABLE = re.compile(r"^\[(project|build-system|tool\.poetry)\]", re.MULTILINE)
_SUITE = r"^(from|import) torchperf_ci\.suite"


@dataclass(frozen=True)
class Repository:
    """What is known about a repository. Paths are relative to ``root``.

    ``page`` is the web page of ``remote``; both are empty without a remote. ``project`` is the folder that pip can
    install, if any, and ``source`` the folder that its packages are imported from.
    """

    root: Path
    remote: str
    page: str
    branch: str
    default_branch: str
    project: str | None
    source: str
    suites: tuple[str, ...]
    workflows: Mapping[str, str]
    has_data_branch: bool

    @property
    def name(self) -> str:
        """The repository's name, reduced to letters, digits, ``_``, ``.`` and ``-``."""
        raw = self.page.rpartition("/")[2] or self.root.name
        return re.sub(r"[^A-Za-z0-9_.-]+", "-", raw).strip("-.") or "project"

    @property
    def host(self) -> str:
        """The server that hosts the repository; empty without a remote."""
        return self.page.removeprefix("https://").partition("/")[0]

    @property
    def is_pytorch(self) -> bool:
        """Whether the repository is PyTorch itself or a fork."""
        return (self.root / "torch/__init__.py").is_file() and (self.root / "aten").is_dir()


def look_at(folder: Path) -> Repository:
    """Inspect the repository that ``folder`` is in. Raises :class:`UsageError` if there is none."""
    root = _root_of(folder)
    git = Git(root, Deadline.after(_SECONDS))
    remote, page = _remote(git)
    branch = _line(git, "branch", "--show-current")
    default = _line(git, "symbolic-ref", "--short", f"refs/remotes/{remote}/HEAD") if remote else ""
    project = _project(root, folder.resolve())
    return Repository(
        root=root,
        remote=remote,
        page=page,
        branch=branch,
        default_branch=default.removeprefix(f"{remote}/") or branch,
        project=project,
        source=_source(root, project),
        suites=_suites(git),
        workflows=_workflows(root),
        has_data_branch=bool(
            _line(git, "for-each-ref", "refs/heads/benchmarks", "refs/remotes/*/benchmarks")
        ),
    )


def _root_of(folder: Path) -> Path:
    try:
        root = os.fsdecode(Git(folder, Deadline.after(_SECONDS))("rev-parse", "--show-toplevel"))
    except GitError as error:
        if "not a git repository" in str(error):
            msg = f"{folder} is in no git repository: call `torchperf init` in a clone, or after `git init`"
            raise UsageError(msg) from None
        raise UsageError(str(error)) from None
    return Path(root.removesuffix("\n"))


def _remote(git: Git) -> tuple[str, str]:
    """Return ``origin``, else the first remote, and its page; both empty without a remote."""
    names = sorted(_line(git, "remote").splitlines(), key=lambda name: (name != "origin", name))
    return (names[0], page_of(_line(git, "remote", "get-url", names[0]))) if names else ("", "")


def _line(git: Git, *arguments: str) -> str:
    """Return what git prints; empty if it fails, which means that what was asked for does not exist."""
    with suppress(GitError):
        return git(*arguments).decode(errors="replace").strip()
    return ""


def _suites(git: Git) -> tuple[str, ...]:
    """Return the suite files, except ignored ones and tests. Raises as :func:`_plain`."""
    with suppress(GitError):  # git grep fails if it finds nothing
        listed = git("grep", "-lzE", "--untracked", _SUITE, "--", "*.py")
        paths = [os.fsdecode(path) for path in listed.split(b"\0") if path]
        return tuple(_plain(path) for path in paths if not re.search(r"(^|/)test", path))
    return ()


def _plain(path: str) -> str:
    """Return the path if a workflow can contain it, else raise :class:`UsageError`."""
    if not _PLAIN_PATH.fullmatch(path):
        msg = f"{path!r} has characters that a shell line could misread: no workflow can name it; rename it"
        raise UsageError(msg)
    return path


def _project(root: Path, folder: Path) -> str | None:
    """Return the nearest folder, from ``folder`` upwards, that pip can install. Raises as :func:`_plain`."""
    inside = folder.relative_to(root.resolve())
    for place in (inside, *inside.parents):
        if (root / place / "setup.py").is_file() or _INSTALLABLE.search(
            _text(root / place / "pyproject.toml")
        ):
            return _plain(place.as_posix())
    return None


def _source(root: Path, project: str | None) -> str:
    """Return the folder that packages are imported from: ``src`` if it has some, else the project's; empty for root."""
    folder = Path(project or ".")
    if any((root / folder / "src").glob("*/__init__.py")):
        folder /= "src"
    return "" if folder == Path() else folder.as_posix()


def _workflows(root: Path) -> dict[str, str]:
    """Return the text of each workflow by its path."""
    files = sorted((root / WORKFLOWS).glob("*.y*ml"))
    return {f"{WORKFLOWS}/{file.name}": _text(file) for file in files}


def _text(file: Path) -> str:
    """Return the content of a file; empty if it cannot be read."""
    with suppress(OSError):
        return file.read_text("utf-8", errors="replace")
    return ""


def find_torch_python(root: Path) -> str | None:
    """Find a Python with torch: of the active environment or one in the repository, else this one.

    Interpreters are not executed, only inspected.
    """
    active = os.environ.get("VIRTUAL_ENV") or os.environ.get("CONDA_PREFIX")
    for folder in (Path(active) if active else None, root / ".venv", root / "venv"):
        if folder and any(folder.glob("lib/python3*/site-packages/torch/__init__.py")):
            inside = folder.is_relative_to(root)
            return str((folder.relative_to(root) if inside else folder) / "bin/python")
    return sys.executable if find_spec("torch") else None


PUBLISHED = "OWNER/torchperf-ci@v1"
"""Source if nothing else is known. To be completed with the owner's name when the project is published."""
_GITHUB = "github.com"
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
    """Read from pip's ``direct_url.json`` (PEP 610) from which repository and commit it was installed."""
    written = None
    with suppress(PackageNotFoundError):
        written = distribution("torchperf-ci").read_text("direct_url.json")
    note = json.loads(written or "{}")
    match = _PAGE.fullmatch(page_of(str(note.get("url", ""))))
    commit = str(note.get("vcs_info", {}).get("commit_id", ""))
    if not match or match[1] not in (_GITHUB, host) or not _COMMIT.fullmatch(commit):
        return None
    return ActionsSource(match[2], commit)
