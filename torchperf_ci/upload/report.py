"""What became of an upload: its counts, its sentence, its error; for a terminal, for programs, and for a job's page."""

from __future__ import annotations

import gzip
import json
import os
import shlex
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from torchperf_ci import actions
from torchperf_ci.actions import ANNOTATION_LIMIT, Annotation, Level, fit_annotations, markdown_cell, one_line
from torchperf_ci.document import counted
from torchperf_ci.errors import ConflictError, NotDeliveredError, RecordsRefusedError, TorchperfError
from torchperf_ci.places.place import is_gzip

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from torchperf_ci.places.place import PutOutcome
    from torchperf_ci.records.schema import Problem
    from torchperf_ci.upload.metadata import Metadata
    from torchperf_ci.upload.payload import Payload


@dataclass(frozen=True)
class Delivery:
    """What became of one object; ``outcome`` is None in a dry run, where it is not sent."""

    payload: Payload
    outcome: PutOutcome | None = None

    @property
    def problem(self) -> str:
        """Why it is not kept; empty where it is."""
        return str(self.outcome) if isinstance(self.outcome, Exception) else ""

    @property
    def word(self) -> str:
        """The outcome in a word or two."""
        if isinstance(self.outcome, ConflictError):
            return "conflict"
        if isinstance(self.outcome, Exception):
            return "not delivered"
        return self.outcome or "would be sent"


@dataclass(frozen=True)
class UploadReport:
    """All that there is to tell.

    ``target`` is where it goes, without any credential, and ``reaching`` the flags that it takes to get there.
    ``refused`` says why elements are no records, ``refused_count`` how many they are, ``quarantine`` where they are
    set aside (None in a dry run, which sets nothing aside), ``changed`` what the database will not keep as it is
    written, and ``missing`` why there was nothing to upload at all.
    """

    target: str
    spool: Path
    quarantine: Path | None
    deliveries: tuple[Delivery, ...] = ()
    metadata: Metadata | None = None
    refused: tuple[Problem, ...] = ()
    refused_count: int = 0
    changed: tuple[Problem, ...] = ()
    missing: str = ""
    reaching: tuple[str, ...] = ()

    @property
    def kept(self) -> list[Delivery]:
        """Objects that are safe."""
        return [delivery for delivery in self.deliveries if isinstance(delivery.outcome, str)]

    @property
    def undelivered(self) -> list[Delivery]:
        """Objects that are to be sent again."""
        return [delivery for delivery in self.deliveries if isinstance(delivery.outcome, NotDeliveredError)]

    @property
    def conflicts(self) -> list[Delivery]:
        """Objects whose key holds something else."""
        return [delivery for delivery in self.deliveries if isinstance(delivery.outcome, ConflictError)]

    @property
    def planned(self) -> list[Delivery]:
        """Objects of a dry run."""
        return [delivery for delivery in self.deliveries if delivery.outcome is None]

    @property
    def resume(self) -> str:
        """The command that sends what is in the spool."""
        return shlex.join(
            [
                "torchperf",
                "upload",
                "--to",
                self.target,
                *self.reaching,
                "--spool",
                str(self.spool),
                "--resume",
            ]
        )

    @property
    def set_aside(self) -> str:
        """Where to find what was refused."""
        return f"what was refused is in {self.quarantine}" if self.quarantine else ""

    def headline(self) -> str:
        """One sentence."""
        already = [delivery for delivery in self.kept if delivery.outcome == "already there"]
        parts = [
            (self.planned, f"{_amount(self.planned)} would be sent to {self.target}"),
            (self.kept, f"{_amount(self.kept)} kept at {self.target}"),
            (already, f"{counted(len(already), 'object')} of them there already"),
            (self.undelivered, f"{_amount(self.undelivered)} not delivered to {self.target}"),
            (self.conflicts, f"{_amount(self.conflicts)} in conflict with what is there"),
            (self.refused_count, f"{self.refused_count} refused"),
            (self.missing, self.missing),
        ]
        return (
            ", ".join(text for there, text in parts if there) or f"nothing is left to send to {self.target}"
        )

    def failure(self, *, invalid: bool = True) -> TorchperfError | None:
        """The worst of it, as an error; None where all is well. Whether ``invalid`` records are one, is a choice."""
        kinds: list[tuple[object, type[TorchperfError], str]] = [
            (self.refused_count if invalid else 0, RecordsRefusedError, self.set_aside),
            (self.conflicts, ConflictError, f"what is in conflict stays in {self.spool}"),
            (self.undelivered, NotDeliveredError, f"send it later with: {self.resume}"),
        ]
        found = [(kind, advice) for there, kind, advice in kinds if there]
        told = [self.headline(), *(advice for _, advice in found if advice)]
        return found[-1][0]("; ".join(told)) if found else None


def count_records(deliveries: Iterable[Delivery]) -> int:
    """The number of records in objects."""
    return sum(delivery.payload.records for delivery in deliveries)


def _amount(deliveries: list[Delivery]) -> str:
    return f"{counted(count_records(deliveries), 'record')} in {counted(len(deliveries), 'object')}"


ARTIFACT = "TORCHPERF_SPOOL_ARTIFACT"
"""The variable with the name under which a job offers its spool as an artifact, where it does."""

_LISTED = 50
"""Entries of a list for people; who has more to mend reads the quarantine, or asks for JSON."""
_EXACT = "whole numbers beyond its Float32, and null, are kept exactly in metric.extra_info"


def print_report(
    report: UploadReport, error: TorchperfError | None, *, json_output: bool, missing_matters: bool
) -> None:
    """Print the report, and put it on the job's page.

    ``error`` is what the command ends with: whoever catches it tells it. ``missing_matters`` where nothing to upload
    deserves a warning even so.
    """
    if json_output:
        sys.stdout.write(f"{actions.inert_json(json.dumps(report_json(report), indent=2))}\n")
    else:
        with actions.literal(sys.stdout):
            sys.stdout.writelines(f"{one_line(line)}\n" for line in report_lines(report))
    sys.stdout.flush()
    if not error:
        with actions.literal():
            sys.stderr.write(f"{one_line(report.headline())}\n")
    if not actions.in_actions():
        return
    actions.append_summary(report_markdown(report, error, os.environ.get(ARTIFACT, "")))
    annotations = to_annotate(report, "error" if error else "warning", missing_matters=missing_matters)
    actions.annotate(fit_annotations(annotations, ANNOTATION_LIMIT - 1 if error else ANNOTATION_LIMIT))
    actions.set_output("uploaded", str(count_records(report.kept)))
    actions.set_output("refused", str(report.refused_count + count_records(report.conflicts)))
    actions.set_output("spooled", str(count_records(report.undelivered)))
    actions.set_output("spool-dir", str(report.spool.absolute()))


def report_lines(report: UploadReport) -> list[str]:
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


def report_json(report: UploadReport) -> dict[str, Any]:
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


def report_markdown(report: UploadReport, error: TorchperfError | None, artifact: str = "") -> str:
    """The job's summary: the sentence, then what needs somebody, each with where it is kept.

    ``error`` is what the command ends with, ``artifact`` the name by which the spool outlives the job.
    """
    failed = error or report.failure(invalid=False)
    sign = "❌" if failed else "⚠️" if report.refused_count or report.missing else "✅"
    parts = [f"### {sign} Upload: {markdown_cell(report.headline())}"]
    undelivered, conflicts = (
        [problem for _, problem in _problems(kind)] for kind in (report.undelivered, report.conflicts)
    )
    parts += _summary_section("Not delivered", undelivered, f"to send it later: {report.resume}")
    parts += _summary_section("In conflict", conflicts, f"what was not sent stays in {report.spool}")
    parts += _summary_section("Refused", map(str, report.refused), report.set_aside)
    parts += _summary_section("Changed by the database", map(str, report.changed), _EXACT)
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


def _summary_section(title: str, entries: Iterable[str], hint: str) -> list[str]:
    items = [f"- {markdown_cell(entry)}" for entry in _first(entries)]
    heading = f"**{title}**: {markdown_cell(hint)}" if hint else f"**{title}**"
    return [heading, "\n".join(items)] if items else []


def to_annotate(report: UploadReport, failed: Level, *, missing_matters: bool) -> list[Annotation]:
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


def _synthetic(report: UploadReport) -> str:
    reason = report.metadata.synthetic if report.metadata else ""
    return f"job_id is one of torchperf's own, since {reason}" if reason else ""
