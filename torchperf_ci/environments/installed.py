"""What is installed in an environment, and from which commits."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.actions import without_rights
from torchperf_ci.errors import EnvironmentUnderTestError

if TYPE_CHECKING:
    from collections.abc import Mapping

LOOK_SECONDS = 60.0
_LISTING = Path(__file__).with_name("list_installed.py")


@dataclass(frozen=True)
class Distribution:
    """An installed distribution. ``requested`` is whether pip was told its name, or came upon it as a dependency.

    ``commit`` is the one that it says it was built from: ``git_version`` in the ``version.py`` of its package, as
    PyTorch and its libraries have it; empty where it does not say.
    """

    version: str
    commit: str
    requested: bool


def installed(python: str) -> Mapping[str, Distribution]:
    """The distributions that ``python`` has, by their normalised names; nothing of theirs is imported.

    Raises :class:`EnvironmentUnderTestError`.
    """
    try:
        done = subprocess.run(
            [python, "-I", str(_LISTING)],
            env=without_rights(os.environ),  # what is installed there may run when a Python starts
            capture_output=True,
            timeout=LOOK_SECONDS,
            check=True,
        )
        return {name: Distribution(**facts) for name, facts in json.loads(done.stdout).items()}
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        msg = f"{python} cannot tell what is installed there: {error}"
        raise EnvironmentUnderTestError(msg) from error


def moved(
    old: Mapping[str, Distribution], new: Mapping[str, Distribution]
) -> Mapping[str, tuple[str | None, str | None]]:
    """The distributions whose version differs, with both versions; None is for one that is not there."""
    versions = {
        name: tuple(side[name].version if name in side else None for side in (old, new))
        for name in sorted({*old, *new})
    }
    return {name: (before, after) for name, (before, after) in versions.items() if before != after}
