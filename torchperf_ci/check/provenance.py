"""Who renews a baseline, when and how."""

from __future__ import annotations

import datetime
import os
import shlex
import subprocess
from typing import TYPE_CHECKING

from torchperf_ci import __version__
from torchperf_ci.check.baseline import Provenance

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_GIT_DEADLINE = 10.0


def provenance(reason: str, command: Sequence[str], environ: Mapping[str, str] = os.environ) -> Provenance:
    """The provenance of what is done now: by the user of git, or in a job by whoever started it."""
    return Provenance(
        reason=reason,
        date=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        by=environ.get("GITHUB_ACTOR", "") or _git_user(),
        command=shlex.join(command),
        torchperf=__version__,
    )


def _git_user() -> str:
    """As git writes an author; empty where there is no git, or it knows none."""
    name, email = _git_setting("user.name"), _git_setting("user.email")
    return f"{name} <{email}>" if name and email else name or email


def _git_setting(name: str) -> str:
    try:
        done = subprocess.run(
            ["git", "config", "--get", name],  # noqa: S607  # whichever git the user has
            capture_output=True,
            text=True,
            timeout=_GIT_DEADLINE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
