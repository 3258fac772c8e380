"""What somebody calls a build: a Python, a wheel, or a revision of a repository."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from torchperf_ci.environments.repository import Revision, find_revision
from torchperf_ci.errors import UsageError


@dataclass(frozen=True)
class Python:
    """An interpreter that has what is to be measured, by its path. No link is followed: a venv's is one."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)


@dataclass(frozen=True)
class Wheel:
    """What pip is to install: a requirement, or the path of a wheel."""

    requirement: str

    def __str__(self) -> str:
        return Path(self.requirement).name if self.requirement.endswith(".whl") else self.requirement


Spec = Python | Wheel | Revision


def recognise(given: str, repo: Path) -> Spec:
    """What ``given`` stands for; raises :class:`UsageError` that says what it was taken for in vain.

    An existing file that can be run is a Python, what ends with ``.whl`` or holds ``==`` a wheel, and the rest a
    commit, branch or tag of the checkout ``repo``.
    """
    file = Path(given)
    if file.is_file() and os.access(file, os.X_OK):
        return Python(file.absolute())
    if given.endswith(".whl") or "==" in given:
        return _wheel(given)
    revision, why_not = find_revision(given, repo)
    if revision is None:
        kind = "a directory without records" if file.is_dir() else "not a file that can be run"
        msg = (
            f"{given!r} is {kind}, no requirement such as torch==2.12.0, no path of a wheel, and no commit, branch or "
            f"tag of {repo}: {why_not}"
        )
        raise UsageError(msg)
    return revision


def _wheel(given: str) -> Wheel:
    if not given.endswith(".whl"):
        return Wheel(given)
    if not Path(given).is_file():
        msg = f"there is no wheel at {given}"
        raise UsageError(msg)
    return Wheel(str(Path(given).absolute()))
