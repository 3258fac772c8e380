"""An upload's report for people on a terminal, for programs, and for a job's page."""

from __future__ import annotations

import gzip
import json
import os
import sys
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from torchperf_ci import actions
from torchperf_ci.actions import ANNOTATION_LIMIT, Annotation, Level, fit_annotations, markdown_cell, one_line
from torchperf_ci.places.content import is_gzip
from torchperf_ci.upload.reporting import records
from torchperf_ci.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchperf_ci.errors import TorchperfError
    from torchperf_ci.records.problems import Problem
    from torchperf_ci.upload.reporting import Delivery, Report

ARTIFACT = "TORCHPERF_SPOOL_ARTIFACT"
"""The variable with the name under which a job offers its spool as an artifact, where it does."""

_LISTED = 50
"""Entries of a list for people; who has more to mend reads the quarantine, or asks for JSON."""
_EXACT = "whole numbers beyond its Float32, and null, are kept exactly in metric.extra_info"


def tell(report: Report, error: TorchperfError | None, *, json_output: bool, missing_matters: bool) -> None:
    """Print the report, and put it on the job's page.

    ``error`` is what the command ends with: whoever catches it tells it. ``missing_matters`` where nothing to upload
    deserves a warning even so.
    """
    if json_output:
        sys.stdout.write(f"{actions.inert_json(json.dumps(as_json(report), indent=2))}\n")
    else:
        with actions.literal(sys.stdout):
            sys.stdout.writelines(f"{one_line(line)}\n" for line in lines(report))
    sys.stdout.flush()
    if not error:
        with actions.literal():
            sys.stderr.write(f"{one_line(report.headline())}\n")
    if not actions.in_actions():
        return
    actions.append_summary(markdown(report, error, os.environ.get(ARTIFACT, "")))
    annotations = to_annotate(report, "error" if error else "warning", missing_matters=missing_matters)
    actions.annotate(fit_annotations(annotations, ANNOTATION_LIMIT - 1 if error else ANNOTATION_LIMIT))
    actions.set_output("uploaded", str(records(report.kept)))
    actions.set_output("refused", str(report.refused_count + records(report.conflicts)))
    actions.set_output("spooled", str(records(report.undelivered)))
    actions.set_output("spool-dir", str(report.spool.absolute()))


def lines(report: Report) -> list[str]:
    """What needs attention; of a dry run, every object and the metadata."""
    shown = _first(f"refused: {problem}" for problem in report.refused)
    shown += _first(f"changed by the database: {problem}" for problem in report.changed)
    shown += [_EXACT] if report.changed else []
    shown += _first(f"{word}: {problem}" for word, problem in _problems(report.deliveries))
    if report.planned and report.metadata:
        fields = {**asdict(report.metadata), "synthetic": "", "note": _synthetic(report)}
        shown += [f"{name}: {value}" for name, value in fields.items() if value]
    for delivery in report.planned:
        payload = delivery.payload
        shown.append(f"{payload.key}: {counted(payload.records, 'record')}, {len(payload.body)} bytes")
    return shown


def as_json(report: Report) -> dict[str, Any]:
    """The whole report; the objects of a dry run with their content."""
    return {
        "target": report.target,
        "metadata": asdict(report.metadata) if report.metadata else None,
        "objects": [_object(delivery) for delivery in report.deliveries],
        "refused": [asdict(problem) for problem in report.refused],
        "changed": [asdict(problem) for problem in report.changed],
        "spool": str(report.spool),
    }


def _object(delivery: Delivery) -> dict[str, Any]:
    payload = delivery.payload
    shown = {
        "key": payload.key,
        "records": payload.records,
        "bytes": len(payload.body),
        "outcome": delivery.word,
        "problem": delivery.problem,
    }
    return shown if delivery.outcome else {**shown, "content": _text(payload.body)}


def _text(body: bytes) -> str:
    return (gzip.decompress(body) if is_gzip(body) else body).decode()


def markdown(report: Report, error: TorchperfError | None, artifact: str = "") -> str:
    """The job's summary: the sentence, then what needs somebody, each with where it is kept.

    ``error`` is what the command ends with, ``artifact`` the name by which the spool outlives the job.
    """
    failed = error or report.failure(invalid=False)
    sign = "❌" if failed else "⚠️" if report.refused_count or report.missing else "✅"
    parts = [f"### {sign} Upload: {markdown_cell(report.headline())}"]
    undelivered, conflicts = (
        [problem for _, problem in _problems(kind)] for kind in (report.undelivered, report.conflicts)
    )
    parts += _section("Not delivered", undelivered, f"to send it later: {report.resume}")
    parts += _section("In conflict", conflicts, f"what was not sent stays in {report.spool}")
    parts += _section("Refused", map(str, report.refused), report.set_aside)
    parts += _section("Changed by the database", map(str, report.changed), _EXACT)
    if artifact and report.quarantine and report.failure():
        parts.append(
            f"{markdown_cell(str(report.spool))} is the artifact {markdown_cell(artifact)} of this run."
        )
    if note := _synthetic(report):
        parts.append(markdown_cell(note))
    return "\n\n".join(parts) + "\n"


def _problems(deliveries: Iterable[Delivery]) -> list[tuple[str, str]]:
    """Each problem once, after its word, and how many objects have it."""
    found = Counter((delivery.word, delivery.problem) for delivery in deliveries if delivery.problem)
    return [
        (word, problem if number == 1 else f"{problem} ({counted(number, 'object')})")
        for (word, problem), number in found.items()
    ]


def _first(entries: Iterable[str]) -> list[str]:
    listed = list(entries)
    return [*listed[:_LISTED], f"and {len(listed) - _LISTED} more"] if len(listed) > _LISTED else listed


def _section(title: str, entries: Iterable[str], hint: str) -> list[str]:
    items = [f"- {markdown_cell(entry)}" for entry in _first(entries)]
    heading = f"**{title}**: {markdown_cell(hint)}" if hint else f"**{title}**"
    return [heading, "\n".join(items)] if items else []


def to_annotate(report: Report, failed: Level, *, missing_matters: bool) -> list[Annotation]:
    """One for each thing that somebody should look at; ``failed`` is how bad a failure is."""
    found = [
        Annotation(failed, problem, title=f"Upload: {word}")
        for word, problem in _problems([*report.undelivered, *report.conflicts])
    ]
    found += [_beside(problem, failed, "Record refused") for problem in report.refused]
    found += [_beside(problem, "warning", "Value changed by the database") for problem in report.changed]
    if report.missing and missing_matters:
        found.append(Annotation("warning", report.missing, title="Upload"))
    if note := _synthetic(report):
        found.append(Annotation("notice", note, title="Upload"))
    return found


def _beside(problem: Problem, level: Level, title: str) -> Annotation:
    return Annotation(level, f"{problem.path}: {problem.reason}", title, problem.file, problem.line)


def _synthetic(report: Report) -> str:
    reason = report.metadata.synthetic if report.metadata else ""
    return f"job_id is one of torchperf's own, since {reason}" if reason else ""
