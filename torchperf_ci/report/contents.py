"""The contents of a report: the files it is made of, its documents and their Markdown, and where they are written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci import actions
from torchperf_ci.console import say
from torchperf_ci.culprits.culprit import Bisection, read_culprits
from torchperf_ci.culprits.culprit_document import bisection_document
from torchperf_ci.document import Document, counted
from torchperf_ci.errors import UsageError
from torchperf_ci.github import GITHUB
from torchperf_ci.markdown import size, to_markdown
from torchperf_ci.records.files import replace_file
from torchperf_ci.verdicts.verdict import Judgement, Verdict, all_verdicts, read_verdicts
from torchperf_ci.verdicts.verdict_document import verdicts_document

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchperf_ci.options.analysis_commands import ReportOptions


@dataclass(frozen=True)
class ReportInputs:
    """The content of the given files, in their order."""

    judgements: tuple[Judgement, ...]
    bisections: tuple[Bisection, ...] = ()

    @property
    def verdicts(self) -> list[Verdict]:
        """The verdicts of all files."""
        return all_verdicts(self.judgements)


def read_inputs(options: ReportOptions) -> ReportInputs:
    """Read the files that the options name. Raises :class:`TorchperfError` for an invalid file."""
    files = bool(options.verdicts or options.culprits)
    if files == options.unjudged:
        msg = "report what? give files of verdicts with --verdicts, of culprits with --culprits, or --unjudged alone"
        raise UsageError(msg)
    if options.unjudged and [*options.to] != ["comment"]:
        raise UsageError("--unjudged is for an earlier comment: give --to comment, too")
    return ReportInputs(
        tuple(read_verdicts(Path(path)) for path in options.verdicts),
        tuple(read_culprits(Path(path)) for path in options.culprits),
    )


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
            parts.append(f"…and {counted(rest, 'more bisection')}, left out here\n"[:left])
            break
        else:
            parts.append(to_markdown(document, max(left // rest, _LEAST // 2)))
    return "\n".join(parts)


def publish_to_summary(text: str) -> None:
    """Append ``text`` to the job's summary, or print it outside a job."""
    if actions.in_actions():
        actions.append_summary(text)
        return
    print(end=text, flush=True)


def why_silent(options: ReportOptions, environ: Mapping[str, str]) -> str:
    """Return why nothing is sent to GitHub; empty if it is."""
    if options.dry_run:
        return "this is a dry run"
    return "" if environ.get("GITHUB_TOKEN") else "there is no GITHUB_TOKEN"


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write texts to ``folder``, each file atomically. Raises :class:`OutputDirectoryError`."""
    for name, text in files.items():
        replace_file(folder / name, text)
        say(f"written to {folder / name}")
