"""What a user's command is told of the build that it measures."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.actions import without_rights
from torchperf_ci.bench.luck import drawn
from torchperf_ci.bench.process import worker_environment
from torchperf_ci.errors import UsageError

if TYPE_CHECKING:
    from torchperf_ci.bench.case import Settings

_PLACE = re.compile(r"\{(sha|worktree|python)\}")


@dataclass(frozen=True)
class CommandArm:
    """A build that a command is run with.

    ``settings`` give its Python, the folders to import from, threads, CPUs and the seconds that a run may take. ``sha``
    is its commit, where it is known. ``worktree`` holds the files of that, where they are there; the command then runs
    in it. Compiler caches and what a run prints lie below ``scratch``, which belongs to this build alone.
    """

    settings: Settings
    sha: str | None
    worktree: Path | None
    scratch: Path

    @property
    def cache(self) -> Path:
        """Where compilers keep what they make."""
        return self.scratch / "cache"


def filled_in(command: str, arm: CommandArm) -> str:
    """The line with its places filled, all in one go: a path may look like one of them."""
    values = _values(arm)
    for name in _PLACE.findall(command):
        if name not in values:
            msg = f"--command names {{{name}}}, and what this builder makes has none"
            raise UsageError(msg)
    return _PLACE.sub(lambda place: shlex.quote(values[place[1]]), command)


def _values(arm: CommandArm) -> dict[str, str]:
    values = {"sha": arm.sha, "worktree": arm.worktree, "python": arm.settings.python}
    return {name: str(value) for name, value in values.items() if value}


def environment(arm: CommandArm) -> dict[str, str]:
    """The caller's variables, with the environment under test in front and no compiler's cache of another commit.

    Each call draws hash seed and padding anew (:func:`drawn`).
    """
    python = Path(arm.settings.python)
    caller = without_rights(os.environ)
    inherited = {name: value for name, value in caller.items() if name not in ("PYTHONHOME", "VIRTUAL_ENV")}
    parent = python.parent.parent
    return {
        **inherited,
        **worker_environment(arm.settings, arm.cache),
        **drawn(),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PATH": os.pathsep.join([str(python.parent), os.environ.get("PATH", os.defpath)]),
        **({"VIRTUAL_ENV": str(parent)} if (parent / "pyvenv.cfg").is_file() else {}),
        **{name.upper(): value for name, value in _values(arm).items()},
    }
