"""Virtual environments that are made for one comparison."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from torchperf_ci.environments.programs import run_program

if TYPE_CHECKING:
    from pathlib import Path

MAKE_SECONDS = 120.0

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


def install(python: Path, requirement: str, seconds: float) -> None:
    """Have pip install ``requirement`` with what it needs, from wherever the user's settings say."""
    options = ("--disable-pip-version-check", "--no-input", "--progress-bar", "off")
    command = [str(python), "-I", "-m", "pip", "install", *options, "--", requirement]
    run_program(command, f"pip install {requirement}", seconds, cwd=python.parent, environ=_environ())


def activated(folder: Path) -> dict[str, str]:
    """The environment variables of a shell in which the virtual environment is active."""
    path = os.pathsep.join([str(folder / "bin"), os.environ.get("PATH", os.defpath)])
    return {**_environ(), "PATH": path, "VIRTUAL_ENV": str(folder)}


def _environ() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}
