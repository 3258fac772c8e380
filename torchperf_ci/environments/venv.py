"""Virtual environments that are made for one build."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from torchperf_ci.actions import without_rights
from torchperf_ci.environments.programs import run_program
from torchperf_ci.git import without_secrets

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MAKE_SECONDS = 120.0

_VERSIONS = "Available versions:"

# What would make a Python start as another one, or pip install to another place.
_ELSEWHERE = (
    "PIP_DRY_RUN", "PIP_PREFIX", "PIP_PYTHON", "PIP_REQUIRE_VIRTUALENV", "PIP_ROOT", "PIP_TARGET", "PIP_USER",
    "PYTHONHOME", "PYTHONPATH",
)  # fmt: skip


def make(python: str, folder: Path) -> Path:
    """Make a virtual environment of ``python`` in ``folder``; its interpreter."""
    command = [python, "-I", "-m", "venv", str(folder)]
    run_program(command, f"{python} -m venv", MAKE_SECONDS, cwd=folder.parent, environ=_environ())
    return folder / "bin" / "python"


def install(python: Path, requirements: Sequence[str], seconds: float, options: Sequence[str] = ()) -> None:
    """Have pip install ``requirements`` with what they need, from wherever ``options`` and the user's settings say."""
    _pip(python, ["install", "--progress-bar", "off", *options], requirements, seconds)


def versions(python: Path, package: str, seconds: float, options: Sequence[str] = ()) -> Sequence[str]:
    """The versions of ``package``, pre-releases too, that pip could install there; there is at least one.

    Raises :class:`EnvironmentUnderTestError` where there is none, or where they cannot be listed.
    """
    listed = _pip(python, ["index", "versions", "--pre", *options], [package], seconds)
    found = next((line for line in listed.splitlines() if line.startswith(_VERSIONS)), _VERSIONS)
    return found.removeprefix(_VERSIONS).strip().split(", ")


def activated(folder: Path) -> dict[str, str]:
    """The environment variables of a shell in which the virtual environment is active."""
    path = os.pathsep.join([str(folder / "bin"), os.environ.get("PATH", os.defpath)])
    return {**_environ(), "PATH": path, "VIRTUAL_ENV": str(folder)}


def _environ() -> dict[str, str]:
    caller = without_rights(os.environ, keep_caches=True)
    return {name: value for name, value in caller.items() if name not in _ELSEWHERE}


def _pip(python: Path, command: Sequence[str], requirements: Sequence[str], seconds: float) -> str:
    told = [str(python), "-I", "-m", "pip", *command, "--disable-pip-version-check", "--no-input", "--"]
    what = without_secrets(" ".join(["pip", command[0], *requirements]))
    return run_program([*told, *requirements], what, seconds, cwd=python.parent, environ=_environ())
