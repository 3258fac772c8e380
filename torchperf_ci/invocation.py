"""The call that was made, as a line for a shell."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.git import without_secrets

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchperf_ci.options.option import Option

NAME = "torchperf"


def command_line(
    options: Iterable[Option], program: Sequence[str] = (NAME,), more: Sequence[str] = ()
) -> str:
    """The call with ``more`` flags, and with those of ``options`` that came by the environment, as they do in a job.

    It is without credentials, which have to be given again.
    """
    variables = [option.env for option in options if os.environ.get(option.env, "").strip()]
    given = [f"{name}={shlex.quote(os.environ[name])}" for name in variables]
    argv = sys.argv[1:]
    flags = [flag for flag in more if flag not in argv]
    return without_secrets(" ".join([*given, shlex.join([*program, *argv, *flags])]))


def program() -> Sequence[str]:
    """What this process was started as: by the name, if that finds the same, else by its path."""
    file = Path(sys.argv[0])
    if file.name == "__main__.py":
        return (sys.executable, "-m", "torchperf_ci")
    named = shutil.which(NAME)
    return (NAME,) if named and file.exists() and file.samefile(named) else (str(file),)
