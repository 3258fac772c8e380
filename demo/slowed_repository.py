"""A git repository of a small torch package whose speed changes at commits that the caller chooses."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from fast_import import BRANCH, Stream
from harmless_changes import Addition, addition
from planted_changes import Change, Edit

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

SOURCES = Path(__file__).parent / "smallnet"
MODEL = "smallnet/model.py"
PACKAGE = "smallnet/__init__.py"
UNFINISHED = "__all__ += [\n"  # a SyntaxError

GIT_SECONDS = 60.0


@dataclass(frozen=True)
class Repository:
    """``shas`` are the commits of the first-parent line: position 0 is the good one, the last position the bad one."""

    path: Path
    shas: tuple[str, ...]

    def sha(self, position: int) -> str:
        return self.shas[position]

    @property
    def suite(self) -> Path:
        """The workloads, which are the same at every commit."""
        return self.path / "benchmarks/suite.py"


def make_repository(
    folder: Path,
    changes: Mapping[int, Change],
    commits: int = 72,
    unbuildable: Collection[int] = (),
    merges: Collection[int] = (),
) -> Repository:
    """Make a repository in ``folder`` with ``commits`` commits after the good one, and its last one checked out.

    Each change is made at its position and stays; the other commits change nothing that is measured. The package
    cannot be imported at the positions ``unbuildable``. Those in ``merges`` bring three commits in, forked from the
    commit before, and the change is in the second of them. The same arguments give the same hashes.
    """
    strange = {*changes, *unbuildable, *merges} - {*range(1, commits + 1)}
    if strange:
        msg = f"positions go from 1 to {commits}: {sorted(strange)}"
        raise ValueError(msg)
    folder.mkdir(parents=True, exist_ok=True)
    _git(folder, "init", "--quiet", f"--initial-branch={BRANCH}")
    _git(folder, "fast-import", "--quiet", stdin=_history(changes, commits, unbuildable, merges))
    _git(folder, "reset", "--quiet", "--hard")
    return Repository(folder, tuple(_git(folder, "rev-list", "--first-parent", "--reverse", BRANCH).split()))


@dataclass
class _Sources:
    """The files as they are edited, and of every edit its subject and the model as it was before."""

    files: dict[str, str]
    edits: list[tuple[str, str]] = field(default_factory=list)
    additions: Iterator[Addition] = field(default_factory=lambda: map(addition, count()))

    def harmless(self, suffix: str) -> str:
        """Change what no benchmark runs; the subject."""
        added = next(self.additions)
        self.files[added.path] += added.text
        return added.subject + suffix

    def planted(self, change: Change, suffix: str) -> str:
        """Change the model; the subject."""
        if isinstance(change, Edit):
            subject = change.subject + suffix
            self.edits.append((subject, self.files[MODEL]))
            self.files[MODEL] = change.applied_to(self.files[MODEL])
            return subject
        if not self.edits:
            msg = "there is no edit to revert"
            raise ValueError(msg)
        reverted, self.files[MODEL] = self.edits.pop()
        return f'Revert "{reverted}"{suffix}'

    def change(self, change: Change | None, suffix: str = "") -> str:
        return self.planted(change, suffix) if change else self.harmless(suffix)


def _history(
    changes: Mapping[int, Change], commits: int, unbuildable: Collection[int], merges: Collection[int]
) -> bytes:
    sources, stream = _Sources(_first_files()), Stream()
    tip = stream.commit("Classify documents", sources.files, ())
    whole = sources.files[PACKAGE]
    for position in range(1, commits + 1):
        change, number = changes.get(position), 400 + 3 * position
        sources.files[PACKAGE] = whole + UNFINISHED * (position in unbuildable)
        if position in merges:
            side = tip
            for part in (None, change, None):
                side = stream.commit(sources.change(part), sources.files, (side,))
            subject = f"Merge pull request #{number} from smallnet/branch-{number}"
            tip = stream.commit(subject, sources.files, (tip, side))
        else:
            tip = stream.commit(sources.change(change, f" (#{number})"), sources.files, (tip,))
    return bytes(stream)


def _first_files() -> dict[str, str]:
    files = sorted(path for path in SOURCES.rglob("*") if path.suffix in {".md", ".py", ".toml"})
    return {path.relative_to(SOURCES).as_posix(): path.read_text(encoding="utf-8") for path in files}


def _git(folder: Path, *arguments: str, stdin: bytes = b"") -> str:
    """What git prints; it knows nothing of the user's settings, nor of a repository around the folder."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environ |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    command = ["git", *arguments]
    done = subprocess.run(
        command, cwd=folder, env=environ, input=stdin, timeout=GIT_SECONDS, check=True, stdout=subprocess.PIPE
    )
    return done.stdout.decode()
