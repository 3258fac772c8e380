"""What every destination needs of the job that reports, and where it writes what nobody was asked to take."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.console import say
from torchperf_ci.culprits.markdown import GITHUB
from torchperf_ci.errors import OutputDirectoryError, UsageError
from torchperf_ci.records.files import replace_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchperf_ci.options import ReportOptions

OUT = "torchperf-report"


def server(environ: Mapping[str, str]) -> str:
    """The GitHub that people look at."""
    return environ.get("GITHUB_SERVER_URL") or GITHUB


def repository(options: ReportOptions, environ: Mapping[str, str], configured: str | None = None) -> str:
    """``--repo``, else what is configured, else the job's own. Raises :class:`UsageError` where there is none."""
    name: str = options.repo or configured or environ.get("GITHUB_REPOSITORY", "")
    if not name:
        msg = f"{options.to} in which repository? give --repo"
        raise UsageError(msg)
    return name


def why_silent(options: ReportOptions, environ: Mapping[str, str]) -> str:
    """Why GitHub is asked nothing; empty where it is."""
    if options.dry_run:
        return "this is a dry run"
    return "" if environ.get("GITHUB_TOKEN") else "there is no GITHUB_TOKEN"


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write texts to ``folder``, each whole or not at all. Raises :class:`OutputDirectoryError`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"{folder}: this directory cannot be made: {error.strerror}"
        raise OutputDirectoryError(msg) from error
    for name, text in files.items():
        replace_file(folder / name, text)
        say(f"written to {folder / name}")


def out(options: ReportOptions) -> Path:
    """Where files go instead."""
    return Path(options.out or OUT)
