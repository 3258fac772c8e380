"""What somebody calls a build: a Python, a wheel, or a revision of a repository."""

from __future__ import annotations

import os
import re
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


_PYTHON = re.compile(r"/bin/python[0-9.]*\Z")
_DIGITS = re.compile(r"[0-9a-fA-F]{7,64}")

Spec = Python | Wheel | Revision


def is_path(given: str) -> bool:
    """Whether it can be nothing but a path: no branch has a part that begins with a dot, or is called like a Python.

    What a repository holds, a stranger may have added: so a file in it must not stand for a commit of the same name.
    """
    return given.startswith(("/", ".")) or "/." in given or bool(_PYTHON.search(given))


def names_commit(given: str, repo: Path) -> bool:
    """Whether a commit is meant, be it here or not: digits of one, or whatever else names one in ``repo``."""
    return not is_path(given) and bool(_DIGITS.fullmatch(given) or find_revision(given, repo)[0])


def recognise(given: str, repo: Path) -> Spec:
    """What ``given`` stands for; raises :class:`UsageError` that says what it was taken for in vain.

    A path (:func:`is_path`) of a file that can be run is a Python, what ends with ``.whl`` or holds ``==`` a wheel, and
    the rest a commit, branch or tag of the checkout ``repo``.
    """
    file = Path(given)
    can_be_run = file.is_file() and os.access(file, os.X_OK)
    if can_be_run and is_path(given):
        return Python(file.absolute())
    if given.endswith(".whl") or "==" in given:
        return _wheel(given)
    revision, why_not = find_revision(given, repo)
    if revision is None:
        if can_be_run:
            msg = f"{given!r} is no commit, branch or tag of {repo}; if the file is the Python that you mean: ./{given}"
            raise UsageError(msg)
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
