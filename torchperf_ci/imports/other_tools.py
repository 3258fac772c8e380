"""Read a file of records, or of another tool's results as the records that they become."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_ci.records.reading import guarded, parse_records

if TYPE_CHECKING:
    from pathlib import Path

    from torchperf_ci.records.reading import RecordsReading


def parse_results(content: bytes, name: str, given: str = "", folder: Path | None = None) -> RecordsReading:
    """What a file holds; messages call it ``name``. ``given`` is the option ``--format``, or empty.

    ``folder`` is where it lies, if that is on this machine. Whatever is wrong ends in the result, as in
    :func:`parse_records`. Only a file without a single record is looked at for what other tools write.
    """
    reading = parse_records(content, name)
    if reading.records or reading.limit:
        return reading
    from torchperf_ci.imports.conversion import convert  # on use: few files need one of its readers

    return guarded(lambda: convert(content, name, given, folder) or reading, content, name)
