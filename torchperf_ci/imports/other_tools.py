"""Read a file of records, or convert another tool's results to records. The content identifies the tool."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from torchperf_ci.imports import asv
from torchperf_ci.imports.imported_case import ImportedCase, ImportedFile, InvalidResult, InvalidResultError
from torchperf_ci.records.files import MAX_BYTES, check_elements, checkpoint, read_regular
from torchperf_ci.records.parser import whole
from torchperf_ci.records.reading import (
    FoundInFile,
    LocatedRecord,
    RecordsReading,
    guarded,
    parse_records,
    refused_file,
    text_of,
)
from torchperf_ci.records.schema import check_record, is_text, path_text

_BENCHMARKS = "benchmarks.json"
_PARTS = {"metric", "model", "benchmark"}  # an object with one of them is meant to be a record
_FOREIGN = "metric is missing, and it is no supported tool's result: see docs/bring-your-own-results.md"


def parse_results(
    content: bytes, name: str, format_name: str = "", folder: Path | None = None
) -> RecordsReading:
    """Return the records in a file.

    Messages call the file ``name``. ``format_name`` is the option ``--format``, or empty. ``folder`` is the file's
    folder, if it is on this machine. Problems are part of the result, as in :func:`parse_records`. Formats of other
    tools are tried only if the file contains no record.
    """
    reading = parse_records(content, name)
    if reading.records or reading.limit:
        return reading
    return guarded(lambda: _convert(content, name, format_name, folder) or reading, content, name)


def _convert(content: bytes, name: str, format_name: str, folder: Path | None) -> RecordsReading | None:
    """Return the records converted from a file; None if it is not of any known tool."""
    text, _ = text_of(content)
    try:
        elements = whole(text)
    except (ValueError, RecursionError):
        return None
    value = [item.value for item in elements] if text.lstrip().startswith("[") else elements[0].value
    if asv.is_companion(value):
        return RecordsReading((), (), ())
    found = _Converted(name)
    try:
        file = _file(value, format_name, folder)
        if file is None:
            is_foreign = isinstance(value, dict) and is_text(text) and not value.keys() & _PARTS
            return refused_file(name, _FOREIGN, text) if is_foreign else None
        found.take(file.with_ids(content))
        return found.reading(f"holds no result of {file.tool}")
    except InvalidResultError as error:
        found.refuse(error.path or "$", str(error), text)
    except RecursionError:
        found.refuse("$", "is nested too deeply", text)
    return found.reading()


def _file(value: object, format_name: str, folder: Path | None) -> ImportedFile | None:
    # Imported on use, because few files need them.
    from torchperf_ci.imports.list_formats import is_for_github_action, read_github_action, reader_of

    if isinstance(value, dict) and value.keys() >= asv.MEMBERS:
        return asv.read(value, _asv_units(folder))
    if reader := reader_of(value):
        return reader(value)
    if isinstance(value, list) and is_for_github_action(value):
        return read_github_action(value, format_name)
    return None


@lru_cache(maxsize=1)  # that file may have megabytes, and a history has thousands of files beside it
def _asv_units(folder: Path | None) -> dict[str, str]:
    """Read the units in asv's ``benchmarks.json``, which is in the parent folder or the same one."""
    for place in (folder.parent, folder) if folder else ():
        with suppress(OSError, ValueError, RecursionError):
            return asv.units_of(json.loads(read_regular(place / _BENCHMARKS, MAX_BYTES)))
    return {}


class _Converted(FoundInFile):
    """Collects the cases of one file, converted to records."""

    def take(self, file: ImportedFile) -> None:
        names: set[tuple[str, str]] = set()
        for case in file.cases:
            checkpoint()
            check_elements(len(self.records) + len(self.refused) + 1)
            if isinstance(case, InvalidResult):
                self.refuse(case.path, case.reason, _text(case.source))
            elif (case.name, case.backend) in names:
                reason = f"{case.name!r} occurs twice; give each its own name"
                self.refuse(case.path, reason, _text(case.source))
            else:
                names.add((case.name, case.backend))
                self._take_case(file, case)

    def _take_case(self, file: ImportedFile, case: ImportedCase) -> None:
        for record in file.records_of(case):
            findings = check_record(record)
            for finding in findings:
                if finding.severity == "changed":
                    self.note(case.path, f"{case.name}: {finding.reason}", "changed")
            if refused := [finding for finding in findings if finding.severity == "refused"]:
                reason = f"{path_text(refused[0].steps).removeprefix('.')}: {refused[0].reason}"
                self.refuse(case.path, reason, _text(case.source))
                return
            self.records.append(LocatedRecord(record, self.file, 1, case.path, _text(record), file.tool))


def _text(source: object) -> str:
    return json.dumps(source, ensure_ascii=False)
