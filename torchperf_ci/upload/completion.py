"""Complete records with what the uploader knows, such as the commit and the machine, and pack them."""

from __future__ import annotations

import json
import os
import re
import socket
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from torchperf_ci.identity import fields_of_job
from torchperf_ci.machine.devices.interface import DeviceIdentity
from torchperf_ci.machine.devices.system_files import program_output
from torchperf_ci.records.reading import RefusedElement
from torchperf_ci.records.record import SYNTHETIC
from torchperf_ci.records.schema import Problem, column_changes, is_rounded
from torchperf_ci.upload.payload import (
    API_LIMIT,
    Oversized,
    Payload,
    pack_judged,
    pack_objects,
    pack_requests,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torchperf_ci.options.keeping_commands import UploadOptions
    from torchperf_ci.records.reading import LocatedRecord
    from torchperf_ci.upload.metadata import Metadata
    from torchperf_ci.upload.payload import CompleteRecord, RecordsSource


HL_SMI_SECONDS = 30.0
_PRODUCT = re.compile(r"^\s*Product Name\s*:[ \t]*([^:\n]*?)\s*$", re.MULTILINE)


def gaudi_identity() -> DeviceIdentity:
    """Identify Gaudi accelerators by ``hl-smi``, named as in PyTorch's benchmark infrastructure."""
    products = _PRODUCT.findall(program_output("hl-smi", "-q", seconds=HL_SMI_SECONDS))
    # The infrastructure uses this name for every generation, and queries filter by it.
    return DeviceIdentity("hpu", f"Intel Gaudi3 {products[0]}" if products else "", gpu_count=len(products))


_NO_TYPE = "arm64-cpu"
"""CPU for which the infrastructure leaves the type empty, so that queries fall back to other hardware facts."""


def this_runner(given: UploadOptions) -> dict[str, object]:
    """Describe this machine as a ``runners`` element; ``device_name`` and ``device_type`` of ``given`` take precedence.

    It holds what does not change between calls, and no fingerprint: how the machine was set up when the records were
    made is unknown.
    """
    from torchperf_ci.machine.host import Fingerprint, runner_entry

    entry = runner_entry(_this_identity(), Fingerprint({}, {}))
    told = {"name": given.device_name, "type": given.device_type}
    known = {key: value for key, value in told.items() if value}
    return {**entry, **known, "extra_info": {"hostname": socket.gethostname()}}


def _this_identity() -> DeviceIdentity:
    """Return the first accelerator that its vendor's tools find, in the infrastructure's order; else the CPU."""
    from torchperf_ci.machine.devices import device

    kinds = (
        device("cuda").identity,
        device("cuda", hip=True).identity,
        gaudi_identity,
        device("xpu").identity,
    )
    found = (kind() for kind in kinds)
    first = next((identity for identity in found if identity.gpu_count), device("cpu").identity())
    return replace(first, type="") if first.name == _NO_TYPE else first


@dataclass(frozen=True)
class Completion:
    """The values that complete each record.

    ``runner`` describes the machine and is called only if a record does not do so. ``benchmark``, unless empty,
    replaces the name of every benchmark. ``of_job`` are the fields that ``torchperf run`` filled in from this job: the
    flags override them, unlike a record's other values.
    """

    metadata: Metadata
    runner: Callable[[], Mapping[str, object]]
    benchmark: str = ""
    of_job: Mapping[str, str | int] = field(default_factory=dict)

    def complete(self, record: Mapping[str, Any], timestamp: int) -> CompleteRecord:
        """Return the complete record. Its own values win, even an empty ``runners``; null counts as missing."""
        own = {
            name: value
            for name, value in record.items()
            if value is not None and value != self.of_job.get(name)
        }
        merged = {"dependencies": {}, **self.metadata.fields(timestamp), **own}
        if "runners" not in own:
            merged["runners"] = [self.runner()]
        if self.benchmark and (own.get("benchmark") or {}).get("name"):
            merged["benchmark"] = {**own["benchmark"], "name": self.benchmark}
        if self.metadata.synthetic and "job_id" not in own:
            merged["benchmark"] = _noted(merged.get("benchmark"), {SYNTHETIC: "synthetic"})
        exact = inexact(own["metric"])
        if exact:
            merged["metric"] = _noted(own["metric"], exact)
        return merged


def inexact(metric: Mapping[str, object]) -> dict[str, str]:
    """Return the values that Float32 would change (large whole numbers, null) as JSON, with keys ``{name}_exact``."""
    kept = {}
    values, target = metric.get("benchmark_values"), metric.get("target_value")
    if isinstance(values, list) and any(value is None or _is_inexact(value) for value in values):
        kept["benchmark_values_exact"] = json.dumps(values)
    if target is not None and _is_inexact(target):
        kept["target_value_exact"] = json.dumps(target)
    return kept


def _is_inexact(value: object) -> bool:
    return is_rounded(value) or any(True for _ in column_changes("Float32", value))


def _noted(part: Mapping[str, Any] | None, notes: Mapping[str, str]) -> dict[str, Any]:
    """Return ``part`` with ``notes`` added to its ``extra_info``, without overwriting keys that exist."""
    noted = dict(part or {})
    noted["extra_info"] = {**notes, **(noted.get("extra_info") or {})}
    return noted


@dataclass(frozen=True)
class PreparedUpload:
    """The payloads to send, the ``refused`` elements with their text, and the reasons (``faults``)."""

    payloads: tuple[Payload, ...]
    refused: tuple[RefusedElement, ...]
    faults: tuple[Problem, ...]

    @property
    def refused_count(self) -> int:
        """The number of elements that are not sent; 1 if only a file as a whole was refused."""
        return max(len(self.refused), 1 if self.faults else 0)


def prepare(
    source: RecordsSource, metadata: Metadata, options: UploadOptions, *, api: bool
) -> PreparedUpload:
    """Complete all records of ``source``, and pack them for an upload API (``api``) or any other target.

    Verdicts and culprits are sent unchanged, but never to an upload API, which accepts records only.
    """
    completion = Completion(
        metadata,
        cache(lambda: this_runner(options)),
        options.benchmark_name or "",
        fields_of_job(os.environ),
    )
    files = {
        file.name: [completion.complete(_measured(found), file.timestamp) for found in file.reading.records]
        for file in source.files
    }
    oversized: list[Oversized] = []
    if api:
        records = [record for file in files.values() for record in file]
        payloads, oversized = pack_requests(records, options.model or "")
    else:
        payloads = pack_objects(files) + pack_judged(source.judged, metadata.repo, metadata.workflow_id)
    refused = [_oversized_element(item) for item in oversized]
    return PreparedUpload(
        tuple(payloads),
        (*source.refused, *refused),
        (*source.problems("refused"), *(_oversized_problem(item) for item in refused)),
    )


def _measured(found: LocatedRecord) -> Mapping[str, Any]:
    """Return the record; if another tool wrote this job's checkout into it, without commit and branch.

    The job's own commit and branch then apply: those of a pull request's head, while its checkout is a merge commit.
    """
    if not found.tool or found.record.get("head_sha") != os.environ.get("GITHUB_SHA", ""):
        return found.record
    return {name: value for name, value in found.record.items() if name not in ("head_sha", "head_branch")}


def _oversized_element(item: Oversized) -> RefusedElement:
    reason = f"takes {item.size} bytes of a request, and an upload API has {API_LIMIT} for all; send it to a bucket"
    text = json.dumps(item.record)
    return RefusedElement(str(item.record["name"]), 1, "$", (reason,), text)


def _oversized_problem(item: RefusedElement) -> Problem:
    return Problem(item.file, item.line, item.path, item.reasons[0], "refused")
