"""Assemble a whole report and write it to a summary or to files."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from torchperf_ci import actions
from torchperf_ci.console import say
from torchperf_ci.culprits.culprit_document import bisection_document
from torchperf_ci.errors import OutputDirectoryError, UsageError
from torchperf_ci.github import GITHUB
from torchperf_ci.markdown import size, to_markdown
from torchperf_ci.records.files import replace_file
from torchperf_ci.verdicts.verdict_document import verdicts_document

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from torchperf_ci.document import Document
    from torchperf_ci.options.analysis_commands import ReportOptions
    from torchperf_ci.report.inputs import ReportInputs


_LEAST = 4_000
"""Fewest bytes for a useful report on a bisection."""


def report_documents(inputs: ReportInputs, server: str = GITHUB) -> list[Document]:
    """Return one document for the verdicts of all files, then one for each bisection."""
    verdicts = [verdicts_document(inputs.judgements)] if inputs.judgements else []
    return [*verdicts, *(bisection_document(bisection, server) for bisection in inputs.bisections)]


def report_markdown(inputs: ReportInputs, room: int, server: str = GITHUB) -> str:
    """Return the report in at most ``room`` bytes, which must be several thousand.

    The verdicts take at most half if there are bisections, which share the rest. Bisections that do not fit are
    counted.
    """
    documents = report_documents(inputs, server)
    parts: list[str] = []
    for place, document in enumerate(documents):
        left = room - sum(map(size, parts)) - len(parts)
        rest = len(documents) - place
        if place == 0 and inputs.judgements:
            parts.append(to_markdown(document, room // 2 if inputs.bisections else room))
        elif left < _LEAST:
            parts.append(f"…and {rest} more bisections, left out here\n"[:left])
            break
        else:
            parts.append(to_markdown(document, max(left // rest, _LEAST // 2)))
    return "\n".join(parts)


def tell_in_summary(text: str) -> None:
    """Append ``text`` to the job's summary, or print it outside a job."""
    if actions.in_actions():
        actions.append_summary(text)
        return
    with actions.literal():
        sys.stdout.write(text)
        sys.stdout.flush()


def repository_name(options: ReportOptions, environ: Mapping[str, str], configured: str | None = None) -> str:
    """Return ``--repo``, else the configured repository, else the job's. Raises :class:`UsageError` without any."""
    name: str = options.repo or configured or environ.get("GITHUB_REPOSITORY", "")
    if not name:
        msg = f"{options.to} in which repository? give --repo"
        raise UsageError(msg)
    return name


def why_silent(options: ReportOptions, environ: Mapping[str, str]) -> str:
    """Return why nothing is sent to GitHub; empty if it is."""
    if options.dry_run:
        return "this is a dry run"
    return "" if environ.get("GITHUB_TOKEN") else "there is no GITHUB_TOKEN"


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write texts to ``folder``, each file atomically. Raises :class:`OutputDirectoryError`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"{folder}: this directory cannot be made: {error.strerror}"
        raise OutputDirectoryError(msg) from error
    for name, text in files.items():
        replace_file(folder / name, text)
        say(f"written to {folder / name}")
