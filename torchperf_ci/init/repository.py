"""Inspect the repository that ``torchperf init`` sets up, and find where its workflows take torchperf's actions from.

Its files are only read; nothing in it is executed. Actions come from ``OWNER/NAME@REF``, preferably a commit.
"""

from __future__ import annotations

import json
import keyword
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

from torchperf_ci.errors import UsageError
from torchperf_ci.git import Git, GitError
from torchperf_ci.identity import origin_page, page_of

_SECONDS = 60.0
WORKFLOWS = ".github/workflows"

# Paths without special meaning in YAML, in a quoted shell argument, in a comma-separated list, and to GitHub.
_PLAIN_PATH = re.compile(r"[\w.+@/][\w.+@/ -]*(?<! )")
_INSTALLABLE = re.compile(r"^\[(project|build-system|tool\.poetry)\]", re.MULTILINE)
_IMPORTS_TORCH = re.compile(r"^(from|import) torch\b", re.MULTILINE)
_REQUIRES_TORCH = re.compile(r"^requires *=[^\]]*[\"']torch\b", re.MULTILINE)
_NO_PACKAGES = {
    "benchmark",
    "benchmarks",
    "doc",
    "docs",
    "example",
    "examples",
    "script",
    "scripts",
    "test",
    "tests",
}
_SUITE = r"^(from|import) torchperf_ci\.suite"

_DATA_FOLDERS = {"v3", "judged", "packed"}  # all that a data branch has at its top

# Existing benchmarks: the tool's name, a pattern that identifies it (also in a file of results), and where to search.
_OTHER_TOOLS: Mapping[str, tuple[str, Sequence[str]]] = {
    "asv": (".", ("asv.conf.json", "*/asv.conf.json")),
    "pytest-benchmark": (
        # The fixture in a test's arguments, the plugin, or its results
        r"^ *def test_\w+\((.*[ ,])?benchmark[,):]|pytest[-_]benchmark|\"machine_info\":",
        ("*test*.py", "*.json", "pyproject.toml", "setup.*", "tox.ini", "*requirements*", f"{WORKFLOWS}/*"),
    ),
    "Google Benchmark": (
        r"benchmark::benchmark|<benchmark/benchmark\.h>|\"library_build_type\":",
        ("*.json", "*CMakeLists.txt", "*.cmake", "*.cc", "*.cpp"),
    ),
    "hyperfine": (
        r"\bhyperfine |\"exit_codes\":",
        ("*.json", "*.sh", "*Makefile", "*justfile", f"{WORKFLOWS}/*"),
    ),
    "github-action-benchmark": (r"benchmark-action/github-action-benchmark", (f"{WORKFLOWS}/*",)),
}


@dataclass(frozen=True)
class Repository:
    """What is known about a repository. Paths are relative to ``root``.

    ``page`` is the web page of ``remote``; both are empty without a remote. ``project`` is the folder that pip can
    install, if any, ``package`` the name that it is imported by, and ``source`` the folder that contains it.
    ``other_tools`` maps other benchmark tools to one of their files. ``odd_suites`` are suite files with names that a
    workflow cannot contain, and ``untracked_suites`` others that nobody has added to git. ``benchmarks_is_taken`` says
    that a branch of that name holds something else than records.
    """

    root: Path
    remote: str
    page: str
    branch: str
    default_branch: str
    has_upstream: bool
    project: str | None
    requirements: bool
    package: str
    source: str
    suites: tuple[str, ...]
    odd_suites: tuple[str, ...]
    workflows: Mapping[str, str]
    untracked_suites: tuple[str, ...]
    other_tools: Mapping[str, str]
    benchmarks_is_taken: bool

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

    @property
    def needs_torch_to_build(self) -> bool:
        """Whether ``setup.py`` imports torch, as for a C++ extension, without declaring that building requires it."""
        setup, declared = (
            _text(self.root / str(self.project) / name) for name in ("setup.py", "pyproject.toml")
        )
        return bool(_IMPORTS_TORCH.search(setup)) and not _REQUIRES_TORCH.search(declared)


def inspect_repository(folder: Path) -> Repository:
    """Inspect the repository that ``folder`` is in. Raises :class:`UsageError` if there is none."""
    root = _root_of(folder)
    git = Git.within(_SECONDS, root)
    remote, page = _remote(git)
    branch = _line(git, "branch", "--show-current")
    untracked = _paths(git, "ls-files", "--others", "--exclude-standard", "-z")
    files = [*_paths(git, "ls-files", "-z"), *untracked]
    project = _project(root, folder.resolve())
    package, source = _package(files, project, page.rpartition("/")[2] or root.name)
    found = [path for path in _files_with(git, _SUITE, ["*.py"]) if not _is_test(path)]
    suites = tuple(path for path in found if _PLAIN_PATH.fullmatch(path))
    tools = {tool: _files_with(git, pattern, where) for tool, (pattern, where) in _OTHER_TOOLS.items()}
    return Repository(
        root=root,
        remote=remote,
        page=page,
        branch=branch,
        default_branch=_default_branch(git, remote) or branch,
        has_upstream=bool(_line(git, "rev-parse", "--abbrev-ref", "@{upstream}")),
        project=project,
        requirements=(root / "requirements.txt").is_file(),
        package=package,
        source=source,
        suites=suites,
        odd_suites=tuple(path for path in found if path not in suites),
        untracked_suites=tuple(path for path in suites if path in untracked),
        workflows=_workflows(root),
        other_tools={tool: paths[0] for tool, paths in tools.items() if paths},
        benchmarks_is_taken=_is_taken(git, "benchmarks"),
    )


def _root_of(folder: Path) -> Path:
    try:
        root = os.fsdecode(Git.within(_SECONDS, folder)("rev-parse", "--show-toplevel"))
    except GitError as error:
        if "not a git repository" in str(error) or "in a work tree" in str(error):
            msg = f"{folder} is in no checkout of a repository: call `torchperf init` in a clone, or after `git init`"
            raise UsageError(msg) from None
        raise UsageError(str(error)) from None
    return Path(root.removesuffix("\n"))


def _remote(git: Git) -> tuple[str, str]:
    """Return ``origin``, else the first remote, and its page; both empty without a remote."""
    names = sorted(_line(git, "remote").splitlines(), key=lambda name: (name != "origin", name))
    return (names[0], page_of(_line(git, "remote", "get-url", names[0]))) if names else ("", "")


def _default_branch(git: Git, remote: str) -> str:
    """Return what a clone knows of its remote, else the usual name of which there is a branch; empty if unknown."""
    known = _line(git, "symbolic-ref", "--short", f"refs/remotes/{remote}/HEAD") if remote else ""
    usual = [
        f"refs/{place}/{name}" for place in ("heads", f"remotes/{remote}") for name in ("main", "master")
    ]
    found = _line(git, "for-each-ref", "--count=1", "--format=%(refname:lstrip=-1)", *usual)
    return known.removeprefix(f"{remote}/") or found


def _line(git: Git, *arguments: str) -> str:
    """Return what git prints; empty if it fails, which means that what was asked for does not exist."""
    with suppress(GitError):
        return git(*arguments).decode(errors="replace").strip()
    return ""


def _paths(git: Git, *arguments: str) -> list[str]:
    with suppress(GitError):
        return [os.fsdecode(path) for path in git(*arguments).split(b"\0") if path]
    return []


def _files_with(git: Git, pattern: str, where: Sequence[str]) -> list[str]:
    """Return the files, except ignored ones, that contain a line matching ``pattern``. Without any, git fails."""
    # What the user's configuration may turn on: colours in the names, and submodules, together with which it fails.
    plain = ("--no-color", "--no-recurse-submodules")
    return _paths(git, "grep", "-lzE", "--untracked", *plain, pattern, "--", *where)


def _is_taken(git: Git, branch: str) -> bool:
    """Whether a branch of this name, here or of a remote, holds something else than records.

    So does one below it: beside ``benchmarks/x``, git creates no ``benchmarks``.
    """
    places = f"refs/heads/{branch}", f"refs/remotes/*/{branch}", f"refs/remotes/*/{branch}/**"
    refs = _line(git, "for-each-ref", "--format=%(refname)", *places)
    tops = [set(_paths(git, "ls-tree", "--name-only", "-z", ref)) for ref in refs.splitlines()]
    return any(not top or top - _DATA_FOLDERS for top in tops)


def _is_test(path: str) -> bool:
    return any(part.startswith("test") for part in path.split("/"))


def _project(root: Path, folder: Path) -> str | None:
    """Return the nearest folder, from ``folder`` upwards, that pip can install.

    Raises :class:`UsageError` if its path has characters that a shell line could misread.
    """
    inside = folder.relative_to(root.resolve()) if folder.is_relative_to(root.resolve()) else Path()
    for place in (inside, *inside.parents):
        if (root / place / "setup.py").is_file() or _INSTALLABLE.search(
            _text(root / place / "pyproject.toml")
        ):
            path = place.as_posix()
            if not _PLAIN_PATH.fullmatch(path):
                msg = f"{path!r} has characters that a shell line could misread: no workflow can install it"
                raise UsageError(msg)
            return path
    return None


def _package(files: Iterable[str], project: str | None, name: str) -> tuple[str, str]:
    """Return the name of the project's package, empty if ambiguous, and the folder that contains it."""
    base = "" if project in (None, ".") else f"{project}/"
    for source in (f"{base}src/", base):
        packages = [
            parts[0]
            for path in files
            if path.startswith(source)
            and len(parts := path.removeprefix(source).split("/")) == 2
            and parts[1] == "__init__.py"
            and parts[0] not in _NO_PACKAGES
        ]
        named = [package for package in packages if package == name.lower().replace("-", "_")] or packages
        if packages:
            clear = len(named) == 1 and named[0].isascii() and named[0].isidentifier()
            return (named[0] if clear and not keyword.iskeyword(named[0]) else ""), source.rstrip("/")
    return "", base.rstrip("/")


def _workflows(root: Path) -> dict[str, str]:
    """Return the text of each workflow by its path."""
    files = sorted((root / WORKFLOWS).glob("*.y*ml"))
    return {f"{WORKFLOWS}/{file.name}": _text(file) for file in files}


def _text(file: Path) -> str:
    """Return the content of a file; empty if it cannot be read."""
    if file.is_file():
        with suppress(OSError):
            return file.read_text("utf-8", errors="replace")
    return ""


def find_torch_python(root: Path) -> str | None:
    """Find a Python with torch: of the active environment or one in the repository, else this one, else on PATH.

    Interpreters inside the repository are not executed, only inspected.
    """
    active = os.environ.get("VIRTUAL_ENV") or os.environ.get("CONDA_PREFIX")
    for folder in (Path(active) if active else None, root / ".venv", root / "venv"):
        if folder and any(folder.glob("lib/python3*/site-packages/torch/__init__.py")):
            inside = folder.is_relative_to(root)
            return str((folder.relative_to(root) if inside else folder) / "bin/python")
    outside = (sys.executable, *filter(None, map(shutil.which, ("python3", "python"))))
    return next((python for python in outside if _has_torch(python)), None)


def _has_torch(python: str) -> bool:
    code = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
    try:
        done = subprocess.run([python, "-I", "-c", code], capture_output=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


PUBLISHED = "OWNER/torchperf-ci@v1"
"""Source if nothing else is known. To be completed with the owner's name when the project is published."""
_GITHUB = "github.com"
_COMMIT = re.compile("[0-9a-f]{40}")
_PAGE = re.compile(r"https://([^/]+)/([A-Za-z0-9][A-Za-z0-9_-]*/[A-Za-z0-9._-]+)")


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


def find_source(value: str | None, host: str) -> ActionsSource:
    """Return the source ``value``, else the commit on GitHub or ``host`` of this torchperf, else the default."""
    repository, _, ref = (value or PUBLISHED).partition("@")
    return (None if value else _installed(host)) or ActionsSource(repository, ref)


def _installed(host: str) -> ActionsSource | None:
    """Read from pip's ``direct_url.json`` (PEP 610) from which repository and commit, or folder, it was installed."""
    written = None
    with suppress(PackageNotFoundError):
        written = distribution("torchperf-ci").read_text("direct_url.json")
    note = json.loads(written or "{}")
    url = str(note.get("url", ""))
    if url.startswith("file://"):
        return _clone(Path(unquote(urlsplit(url).path)), host)
    return _on_github(page_of(url), str(note.get("vcs_info", {}).get("commit_id", "")), host)


def _clone(folder: Path, host: str) -> ActionsSource | None:
    """Return the commit of a clone if it was pushed, because GitHub has no other commits."""
    if not (folder / ".git").exists():
        return None
    try:
        git = Git.within(_SECONDS, folder)
        commit = git("rev-parse", "HEAD").decode().strip()
        pushed = git("for-each-ref", "--count=1", "--contains", commit, "refs/remotes/origin")
    except GitError:
        return None
    return _on_github(origin_page(folder), commit, host) if pushed else None


def _on_github(page: str, commit: str, host: str) -> ActionsSource | None:
    match = _PAGE.fullmatch(page)
    if not match or match[1] not in (_GITHUB, host) or not _COMMIT.fullmatch(commit):
        return None
    return ActionsSource(match[2], commit)
