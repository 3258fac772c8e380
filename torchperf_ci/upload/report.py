"""The result of an upload as counts, a headline and an error, for terminals, programs and the job summary."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from torchperf_ci import document as doc
from torchperf_ci.actions import ANNOTATION_LIMIT, Annotation, Level, fit_annotations
from torchperf_ci.command_output import publish_result
from torchperf_ci.errors import ConflictError, NotDeliveredError, RecordsRefusedError, TorchperfError
from torchperf_ci.masking import without_secrets
from torchperf_ci.places.place import PutOutcome, unpacked

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from torchperf_ci.records.schema import Problem
    from torchperf_ci.upload.metadata import Metadata
    from torchperf_ci.upload.payload import Payload


@dataclass(frozen=True)
class Delivery:
    """The outcome of sending one object; None in a dry run."""

    payload: Payload
    outcome: PutOutcome | None = None

    @property
    def problem(self) -> str:
        """Why the object was not kept; empty if it was."""
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
    """Everything there is to report about an upload.

    ``target`` is the destination without credentials, and ``reaching`` the flags needed to reach it. ``refused`` are
    the reasons why elements were refused, ``refused_count`` the number of those elements, and ``quarantine`` the file
    that holds them (None in a dry run). ``changed`` are values that the database will store differently, ``flagged``
    what makes records hard to find, and ``missing`` says why there was nothing to upload. ``judged_left_out`` is the
    number of files of verdicts or culprits that the target, an upload API, does not accept, ``unread`` that of files
    whose suffix is not read, and ``has_below`` whether there are files in folders below, which are not read.
    ``without_records`` are files that hold nothing. ``left_out`` says which batches in the spool were not to be sent.
    """

    target: str
    spool: Path
    quarantine: Path | None
    deliveries: tuple[Delivery, ...] = ()
    metadata: Metadata | None = None
    refused: tuple[Problem, ...] = ()
    refused_count: int = 0
    changed: tuple[Problem, ...] = ()
    flagged: tuple[Problem, ...] = ()
    missing: str = ""
    judged_left_out: int = 0
    unread: int = 0
    has_below: bool = False
    without_records: tuple[str, ...] = ()
    left_out: str = ""
    reaching: tuple[str, ...] = ()

    @property
    def kept(self) -> list[Delivery]:
        """Objects that are stored at the target."""
        return [delivery for delivery in self.deliveries if isinstance(delivery.outcome, str)]

    @property
    def undelivered(self) -> list[Delivery]:
        """Objects that must be sent again."""
        return [delivery for delivery in self.deliveries if isinstance(delivery.outcome, NotDeliveredError)]

    @property
    def conflicts(self) -> list[Delivery]:
        """Objects whose key already holds other content."""
        return [delivery for delivery in self.deliveries if isinstance(delivery.outcome, ConflictError)]

    @property
    def planned(self) -> list[Delivery]:
        """Objects that a dry run would send."""
        return [delivery for delivery in self.deliveries if delivery.outcome is None]

    @property
    def has_unread(self) -> bool:
        """Whether files were given that may be meant as records, but of which none was read."""
        return bool(self.unread or self.has_below or self.without_records)

    @property
    def resume(self) -> str:
        """The command that sends the objects left in the spool."""
        where = ("--to", self.target, *self.reaching, "--spool", str(self.spool))
        return without_secrets(shlex.join(["torchperf", "upload", *where, "--resume"]))

    @property
    def set_aside(self) -> str:
        """A sentence that says where the refused elements are; empty in a dry run."""
        return f"what was refused is in {self.quarantine}" if self.quarantine else ""

    def headline(self) -> str:
        """Summarize the upload in one sentence."""
        already = [delivery for delivery in self.kept if delivery.outcome == "already there"]
        parts = [
            (self.planned, f"{_amount(self.planned)} would be sent to {self.target}"),
            (self.kept, f"{_amount(self.kept)} kept at {self.target}"),
            (already, f"{doc.counted(len(already), 'object')} of them there already"),
            (self.undelivered, f"{_amount(self.undelivered)} not delivered to {self.target}"),
            (self.conflicts, f"{_amount(self.conflicts)} in conflict with what is there"),
            (self.refused_count, f"{self.refused_count} refused"),
            (
                self.judged_left_out,
                f"{_files_of_judged(self.judged_left_out)} not sent: an upload API takes none",
            ),
            (self.missing, self.missing),
            (self.unread, f"{doc.counted(self.unread, 'file')} of .jsonl or .JSON not read: rename to .json"),
            (self.has_below, "what lies in folders below is not read: name each to upload it"),
            (self.without_records, f"no record in {doc.counted(len(self.without_records), 'file')}"),
            (self.left_out, self.left_out),
        ]
        headline = ", ".join(text for there, text in parts if there)
        return headline or f"nothing is left to send to {self.target}"

    def failure(self, *, invalid: bool = True) -> TorchperfError | None:
        """Return the worst problem as an error, None if there is none; ``invalid``: whether refused records count."""
        kinds: list[tuple[object, type[TorchperfError], str]] = [
            (self.refused_count if invalid else 0, RecordsRefusedError, self.set_aside),
            (self.conflicts, ConflictError, f"what is in conflict stays in {self.spool}; {_KEY_OF_ITS_OWN}"),
            (self.undelivered, NotDeliveredError, f"send it later with: {self.resume}"),
        ]
        problems = [(kind, advice) for there, kind, advice in kinds if there]
        lines = [self.headline(), *(advice for _, advice in problems if advice)]
        return problems[-1][0]("; ".join(lines)) if problems else None


def count_records(deliveries: Iterable[Delivery]) -> int:
    """Return the number of records in these objects."""
    return sum(delivery.payload.records for delivery in deliveries)


def _count_entries(deliveries: Iterable[Delivery]) -> int:
    return sum(delivery.payload.entries for delivery in deliveries)


def _amount(deliveries: list[Delivery]) -> str:
    of_records = [delivery for delivery in deliveries if delivery.payload.records]
    judged = len(deliveries) - len(of_records)
    parts = (
        (
            of_records,
            f"{doc.counted(count_records(of_records), 'record')} in {doc.counted(len(of_records), 'object')}",
        ),
        (judged, _files_of_judged(judged)),
    )
    return " and ".join(text for there, text in parts if there)


def _files_of_judged(count: int) -> str:
    return f"{doc.counted(count, 'file')} of verdicts or culprits"


ARTIFACT = "TORCHPERF_SPOOL_ARTIFACT"
"""Environment variable with the name of the artifact that holds the job's spool, if there is one."""

_KEY_OF_ITS_OWN = "to keep it, upload it again under another file name, or at an upload API with --model"
_ELEMENT = re.compile(r"\$(\[\d+\])?\.")
"""The beginning of a path, up to the record."""
_LISTED = 50
"""Most entries of a list for people; the quarantine and the JSON output have all of them."""
_EXACT = "whole numbers beyond its Float32, and null, are kept exactly in metric.extra_info"


def print_report(
    report: UploadReport, error: TorchperfError | None, *, json_output: bool, missing_matters: bool
) -> None:
    """Print the report, and write it to the job's summary, annotations and outputs.

    ``error`` is what the command ends with, and is printed by its handler. ``missing_matters``: whether it deserves a
    warning that there was nothing to upload.
    """
    document = report_document(report, error, os.environ.get(ARTIFACT, ""))
    annotations = to_annotate(report, "error" if error else "warning", missing_matters=missing_matters)
    publish_result(
        document,
        *([] if error else [report.headline()]),
        as_json=f"{json.dumps(report_json(report), indent=2)}\n" if json_output else None,
        annotations=fit_annotations(annotations, ANNOTATION_LIMIT - 1 if error else ANNOTATION_LIMIT),
        outputs={
            "uploaded": count_records(report.kept),
            "refused": report.refused_count + _count_entries(report.conflicts),
            "spooled": _count_entries(report.undelivered),
            "spool-dir": report.spool.absolute(),
        },
        rest="all of them with --json",
    )


def report_document(report: UploadReport, error: TorchperfError | None, artifact: str = "") -> doc.Document:
    """Return the headline, then the problems with where their data is kept; for a dry run, all that would be sent.

    ``error`` is what the command ends with, ``artifact`` the name of the artifact that holds the spool.
    """
    failed = error or report.failure(invalid=False)
    warned = report.refused_count or report.missing or report.left_out or report.has_unread
    sign = "❌" if failed else "⚠️" if warned else "✅"
    offered = artifact and report.quarantine and report.failure()
    return doc.Document(
        f"{sign} Upload: {report.headline()}",
        [
            *_section("Not delivered", _problems(report.undelivered), "to send it later:", report.resume),
            *_section(
                "In conflict", _problems(report.conflicts), f"what was not sent stays in {report.spool}"
            ),
            *_section("Refused", map(str, report.refused), report.set_aside),
            *_section("Without a record", report.without_records, "what wrote them may have been stopped"),
            *_section("Changed by the database", map(str, report.changed), _EXACT),
            *_section("Hard to find", _flags(report.flagged), "queries and dashboards look for it"),
            doc.Paragraph(f"{report.spool} is the artifact {artifact} of this run." if offered else ""),
            doc.OnlyOn("page", [doc.Paragraph(_synthetic(report))]),
            doc.Folded("To be sent", _planned(report)),
        ],
    )


def _section(title: str, problems: Iterable[str], hint: str, command: str = "") -> list[doc.Block]:
    items = list(problems)
    if not items:
        return []
    heading = doc.Paragraph((doc.Bold(title), f": {hint}" if hint else ""))
    return [heading, doc.Commands([command] if command else []), doc.Bullets(items, _LISTED)]


def _planned(report: UploadReport) -> Sequence[doc.Block]:
    """Return what a dry run would send: the metadata, and a table of all objects."""
    if not report.planned:
        return []
    payloads = [delivery.payload for delivery in report.planned]
    columns = [doc.Column("object"), *doc.number_columns("records", "bytes")]
    rows = [(payload.key, str(payload.records), str(len(payload.body))) for payload in payloads]
    metadata = asdict(report.metadata) if report.metadata else {}
    known = {**metadata, "synthetic": "", "note": _synthetic(report)}
    return [doc.facts({name: str(value) for name, value in known.items() if value}), doc.Table(columns, rows)]


def report_json(report: UploadReport) -> dict[str, object]:
    """Return the whole report as JSON; the objects of a dry run have their content."""
    return {
        "target": report.target,
        "metadata": asdict(report.metadata) if report.metadata else None,
        "objects": [_object(delivery) for delivery in report.deliveries],
        "refused": [asdict(problem) for problem in report.refused],
        "changed": [asdict(problem) for problem in report.changed],
        "spool": str(report.spool),
    }


def _object(delivery: Delivery) -> dict[str, object]:
    payload = delivery.payload
    shown = {
        "key": payload.key,
        "records": payload.records,
        "bytes": len(payload.body),
        "outcome": delivery.word,
        "problem": delivery.problem,
    }
    return shown if delivery.outcome else {**shown, "content": unpacked(payload.body, -1).decode()}


def _problems(deliveries: Iterable[Delivery]) -> list[str]:
    """Return each distinct problem with the number of objects that have it."""
    counts = Counter(delivery.problem for delivery in deliveries if delivery.problem)
    return [
        problem if number == 1 else f"{problem} ({doc.counted(number, 'object')})"
        for problem, number in counts.items()
    ]


def _flags(problems: Iterable[Problem]) -> list[str]:
    """Return each distinct flag with the number of records that have it: a harness writes all of them alike."""
    counts = Counter(f"{_ELEMENT.sub('', problem.path)}: {problem.reason}" for problem in problems)
    return [f"{flag} ({doc.counted(number, 'record')})" for flag, number in counts.items()]


def to_annotate(report: UploadReport, failed: Level, *, missing_matters: bool) -> list[Annotation]:
    """Return an annotation for each problem; ``failed`` is the level of those that are failures."""
    kinds = (("not delivered", report.undelivered), ("conflict", report.conflicts))
    found = [
        Annotation(failed, problem, title=f"Upload: {word}")
        for word, deliveries in kinds
        for problem in _problems(deliveries)
    ]
    found += [Annotation(failed, str(problem), "Record refused") for problem in report.refused]
    found += [
        Annotation("warning", str(problem), "Value changed by the database") for problem in report.changed
    ]
    if report.has_unread:
        found.append(Annotation("warning", report.headline(), title="Upload"))
    elif report.missing and missing_matters:
        found.append(Annotation("warning", report.missing, title="Upload"))
    if note := _synthetic(report):
        found.append(Annotation("notice", note, title="Upload"))
    return found


def _synthetic(report: UploadReport) -> str:
    reason = report.metadata.synthetic if report.metadata else ""
    return f"job_id is one of torchperf's own, since {reason}" if reason else ""
