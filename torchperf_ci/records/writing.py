"""Write records as a JSON list, one record a line, so that two files differ where their records do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from torchperf_ci.records.checking import check
from torchperf_ci.records.files import replace_file
from torchperf_ci.records.problems import path_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


def write(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Write ``records`` to ``path``, whole or not at all.

    Raises ``ValueError`` for a record that the database would refuse or that holds a number which is not
    finite: that is the caller's mistake. Raises :class:`OutputDirectoryError` where the file cannot be
    written.
    """
    lines = [_line(index, record) for index, record in enumerate(records)]
    replace_file(path, "[\n" + ",\n".join(lines) + "\n]\n" if lines else "[]\n")


def _line(index: int, record: Mapping[str, Any]) -> str:
    refused = [finding for finding in check(dict(record)) if finding.severity == "refused"]
    if refused:
        message = f"record $[{index}]{path_text(refused[0].steps)}: {refused[0].reason}"
        raise ValueError(message)
    return json.dumps(record, ensure_ascii=False, allow_nan=False)
