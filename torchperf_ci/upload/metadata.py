"""Complete records with what the uploader knows: the commit, the job and the machine; and pack them."""

from __future__ import annotations

import json
import os
import re
import socket
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchperf_ci.actions import in_actions
from torchperf_ci.errors import UsageError, failing_as
from torchperf_ci.identity import (
    JobIdentity,
    MeasuredCommit,
    UnknownIdentityError,
    commit_of_job,
    fields_of_job,
    find_job,
    job_number,
    read_checkout,
)
from torchperf_ci.machine.devices.interface import DeviceIdentity
from torchperf_ci.machine.devices.system_files import program_output
from torchperf_ci.records.record import SYNTHETIC, synthetic_id
from torchperf_ci.records.schema import float32_change, is_rounded
from torchperf_ci.upload.payload import Payload, pack_judged, pack_objects, pack_requests

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from torchperf_ci.options.storage_commands import UploadOptions
    from torchperf_ci.records.reading import LocatedRecord
    from torchperf_ci.upload.payload import CompleteRecord, RecordsSource


_NAME_IT = ", or say what was measured with --repo-name, --head-branch and --head-sha"
_BY_HAND = "give --repo DIR, or --repo-name, --head-branch and --head-sha"


@dataclass(frozen=True)
class Metadata:
    """The metadata fields of the v3 format. ``timestamp`` is None if each file's modification time applies.

    ``synthetic`` says why ``job_id`` was made up by torchperf; it is empty for a job id of GitHub's.
    """

    name: str
    repo: str
    head_branch: str
    head_sha: str
    workflow_id: int
    run_attempt: int
    job_id: int
    timestamp: int | None = None
    synthetic: str = ""

    def fields(self, timestamp: int) -> dict[str, str | int]:
        """Return the fields for a record; ``timestamp`` (Unix seconds) is used if there is no other."""
        own = {name: value for name, value in vars(self).items() if name not in ("timestamp", "synthetic")}
        return {"timestamp": self.timestamp or timestamp, "schema_version": "v3", **own}


def gather_metadata(
    options: UploadOptions,
    environ: Mapping[str, str],
    content: str,
    name: str,
    named: MeasuredCommit | None = None,
) -> Metadata:
    """Return the metadata given by flags, else that of the job in ``environ``, else of the current checkout.

    Where the checkout is of no known repository, it is that of ``named``, the commit that all of the records name.

    Outside of a job the ids are derived from the commit and from ``content``, a digest of the records, so that
    uploading the same records again does not make a second run. ``name`` is the default name. Raises
    :class:`UsageError`.
    """
    change = _change(options, environ, named)
    if in_actions(environ):
        workflow, attempt, job, synthetic = _run_of_job(options, environ)
    else:
        own = synthetic_id(change.repo, change.branch, change.sha, content)
        workflow, attempt = options.workflow_id or own, options.run_attempt or 1
        job = JobIdentity(options.job_id or own, name)
        synthetic = "" if options.job_id else "this is not a job of GitHub Actions"
    return Metadata(
        name=options.benchmark_name or job.name,
        repo=change.repo,
        head_branch=change.branch,
        head_sha=change.sha,
        workflow_id=workflow,
        run_attempt=attempt,
        job_id=job.id,
        timestamp=change.date,
        synthetic=synthetic,
    )


def _run_of_job(options: UploadOptions, environ: Mapping[str, str]) -> tuple[int, int, JobIdentity, str]:
    """Return the workflow run, its attempt, the job, and why its id is one of ours, if it is."""
    with _usage_error("; give --workflow-id"):
        workflow = options.workflow_id or job_number(environ, "GITHUB_RUN_ID")
    with _usage_error("; give --run-attempt"):
        attempt = options.run_attempt or job_number(environ, "GITHUB_RUN_ATTEMPT")
    name = environ.get("GITHUB_JOB", "")
    if options.job_id:
        return workflow, attempt, JobIdentity(options.job_id, name), ""
    try:
        return workflow, attempt, find_job(environ, workflow, attempt), ""
    except UnknownIdentityError as error:
        # Together they differ between jobs; the jobs of a matrix share their name.
        names = ("GITHUB_JOB", "TORCHPERF_MATRIX", "RUNNER_NAME", "RUNNER_TRACKING_ID")
        own = synthetic_id(str(workflow), str(attempt), *(environ.get(name, "") for name in names))
        return workflow, attempt, JobIdentity(own, name), str(error)


def _change(
    options: UploadOptions, environ: Mapping[str, str], named: MeasuredCommit | None
) -> MeasuredCommit:
    repo, branch, sha = options.repo_name, options.head_branch, options.head_sha
    if options.repo:
        if repo or branch or sha:
            msg = "--repo tells repository, branch and commit: leave out --repo-name, --head-branch and --head-sha"
            raise UsageError(msg)
        with _usage_error(_NAME_IT):
            return read_checkout(Path(options.repo))
    if repo and branch and sha:
        return MeasuredCommit(repo, branch, sha)
    if repo:
        msg = "--repo-name needs --head-branch and --head-sha: those of this job or checkout are another repository's"
        raise UsageError(msg)
    if in_actions(environ):
        with _usage_error(f"; {_BY_HAND}"):
            own = commit_of_job(environ)
        return MeasuredCommit(own.repo, branch or own.branch, sha or own.sha)
    if branch or sha:
        raise UsageError(f"--head-branch and --head-sha need --repo-name outside of a job; {_BY_HAND}")
    with _usage_error(_NAME_IT):
        try:
            return replace(read_checkout(Path()), date=None)
        except UnknownIdentityError:
            if named:
                return named
            raise


def _usage_error(advice: str) -> AbstractContextManager[None]:
    """Turn an unknown identity into a :class:`UsageError` that ends with ``advice``."""
    return failing_as(UsageError, after=advice, of=UnknownIdentityError)


HL_SMI_SECONDS = 30.0
_PRODUCT = re.compile(r"^\s*Product Name\s*:[ \t]*([^:\n]*?)\s*$", re.MULTILINE)


def gaudi_identity() -> DeviceIdentity:
    """Identify Gaudi accelerators by ``hl-smi``, named as in PyTorch's benchmark infrastructure."""
    products = _PRODUCT.findall(program_output("hl-smi", "-q", seconds=HL_SMI_SECONDS))
    # The infrastructure uses this name for every generation, and queries filter by it.
    return DeviceIdentity("hpu", f"Intel Gaudi3 {products[0]}" if products else "", gpu_count=len(products))


_NO_TYPE = "arm64-cpu"
"""CPU for which the infrastructure leaves the type empty, so that queries fall back to other hardware facts."""


def this_runner(options: UploadOptions) -> dict[str, object]:
    """Describe this machine as a ``runners`` element; device name and type in ``options`` take precedence.

    It holds what does not change between calls, and no fingerprint: how the machine was set up when the records were
    made is unknown.
    """
    from torchperf_ci.machine.host import Fingerprint, runner_entry

    entry = runner_entry(_this_identity(), Fingerprint({}, {}))
    device = {"name": options.device_name, "type": options.device_type}
    known = {key: value for key, value in device.items() if value}
    return {**entry, **known, "extra_info": {"hostname": socket.gethostname()}}


_WITHOUT_TOOLS = ("mps", "cpu")
"""Torch's devices whose presence no vendor's tool tells."""


def _this_identity() -> DeviceIdentity:
    """Return the first accelerator that its vendor's tools find; else the CPU."""
    from torchperf_ci.machine.devices import DEVICE_TYPES, device, installed

    gpus = (installed(kind).identity for kind in DEVICE_TYPES if kind not in _WITHOUT_TOOLS)
    identities = (identity() for identity in (*gpus, gaudi_identity))
    first = next((identity for identity in identities if identity.gpu_count), device("cpu").identity())
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
        """Return the complete record. Its own values win, even an empty ``runners``; null counts as missing.

        So does a time of 0, and an id of 0, with which all runs would share one key.
        """
        ids = () if record.get("servicelab_experiment_id") else ("workflow_id", "job_id")
        own = {
            name: value
            for name, value in record.items()
            if (value or name not in ("timestamp", *ids))
            and value is not None
            and value != self.of_job.get(name)
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
    return is_rounded(value) or bool(float32_change(value))


def _noted(part: Mapping[str, Any] | None, notes: Mapping[str, str]) -> dict[str, Any]:
    """Return ``part`` with ``notes`` added to its ``extra_info``, without overwriting keys that exist."""
    noted = dict(part or {})
    noted["extra_info"] = {**notes, **(noted.get("extra_info") or {})}
    return noted


def prepare(
    source: RecordsSource, metadata: Metadata, options: UploadOptions, *, api: bool
) -> tuple[list[Payload], RecordsSource]:
    """Complete all records of ``source``, and pack them for an upload API (``api``) or any other target.

    The returned source has as refused elements also the records that fit into no request.

    Verdicts and culprits are sent unchanged, but never to an upload API, which accepts records only. There, jobs that
    measure one commit, such as shards and nights, differ only in the suffix of the key: the job id in the record, since
    one job may send the records of all.
    """
    of_job = fields_of_job(os.environ)
    # As in the infrastructure's own client, whose callers replace spaces for the sake of the key.
    if api and options.device_type:
        options = replace(options, device_type=options.device_type.replace("_", " "))
    completion = Completion(
        metadata, cache(lambda: this_runner(options)), options.benchmark_name or "", of_job
    )
    files = {
        file.name: [
            completion.complete(_measured(found, of_job.get("head_sha")), file.timestamp)
            for found in file.reading.records
        ]
        for file in source.files
    }
    if not api:
        return pack_objects(files) + pack_judged(source.judged, metadata.repo, metadata.workflow_id), source
    records = [record for file in files.values() for record in file]
    by_job = in_actions(os.environ) and not options.model
    payloads, oversized = pack_requests(records, options.model or "", by_job=by_job)
    return payloads, replace(source, files=(*source.files, *oversized))


def _measured(located: LocatedRecord, head: object) -> Mapping[str, Any]:
    """Return the record; if another tool wrote this job's checkout into it, without commit and branch.

    The job's own commit and branch then apply: those of a pull request, while its checkout is ``head`` or a merge.
    """
    if not located.tool or located.record.get("head_sha") not in (head, os.environ.get("GITHUB_SHA", "")):
        return located.record
    return {name: value for name, value in located.record.items() if name not in ("head_sha", "head_branch")}
