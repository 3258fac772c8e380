"""From the files of a directory to the objects that are sent."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from torchperf_ci.records.problems import Problem
from torchperf_ci.records.reading import Refused
from torchperf_ci.upload.merging import Completion
from torchperf_ci.upload.payload import API_LIMIT, Oversized, Payload, objects, requests
from torchperf_ci.upload.this_machine import runner

if TYPE_CHECKING:
    from torchperf_ci.options import UploadOptions
    from torchperf_ci.upload.metadata import Metadata
    from torchperf_ci.upload.source import Source


@dataclass(frozen=True)
class Prepared:
    """What is sent, what is not (``refused``, with its text), and why (``faults``)."""

    payloads: tuple[Payload, ...]
    refused: tuple[Refused, ...]
    faults: tuple[Problem, ...]

    @property
    def refused_count(self) -> int:
        """Elements that are not sent, or 1 where only the file as a whole is at fault."""
        return max(len(self.refused), 1 if self.faults else 0)


def prepare(source: Source, metadata: Metadata, options: UploadOptions, *, api: bool) -> Prepared:
    """Complete every record of ``source``, and pack them as an upload API (``api``) or any other target has them."""
    completion = Completion(metadata, cache(lambda: runner(options)), options.benchmark_name or "")
    files = {
        file.name: [completion.complete(found.record, file.timestamp) for found in file.reading.records]
        for file in source.files
    }
    oversized: list[Oversized] = []
    if api:
        records = [record for file in files.values() for record in file]
        payloads, oversized = requests(records, options.model or "")
    else:
        payloads = objects(files)
    refused = [_refused(item) for item in oversized]
    return Prepared(
        tuple(payloads),
        (*source.refused, *refused),
        (*source.problems("refused"), *(_fault(item) for item in refused)),
    )


def _refused(item: Oversized) -> Refused:
    reason = f"takes {item.size} bytes of a request, and an upload API has {API_LIMIT} for all; send it to a bucket"
    text = json.dumps(item.record)
    return Refused(str(item.record["name"]), 1, "$", (reason,), text)


def _fault(item: Refused) -> Problem:
    return Problem(item.file, item.line, item.path, item.reasons[0], "refused")
