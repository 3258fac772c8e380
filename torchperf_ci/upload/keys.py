"""Where the infrastructure wants an object to be: its key, of safe characters only."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_PART = 120
_LONGEST_PATH = 400
"""Of a repository or a branch: keys have 1,024 characters for both, and for four parts more."""

_MARK = 8
"""Hexadecimal digits that tell two names apart which only differ in what a key cannot hold."""


def file_key(record: Mapping[str, Any], file: str) -> str:
    """``v3/{repo}/{workflow_id}/{job_id}/{file}``, for the records of one file.

    ``record`` is complete. One of ServiceLab has the ids of its experiment and its trial instead.
    """
    workflow = record["workflow_id"] or record.get("servicelab_experiment_id")
    job = record["job_id"] or record.get("servicelab_trial_id")
    return "/".join(["v3", _path(record["repo"]), safe(workflow), safe(job), distinct(file)])


def commit_key(record: Mapping[str, Any], model: str = "", part: int = 1) -> str:
    """``v3/{repo}/{branch}/{sha}/{device_type}/benchmark_results[_{model}].json``, as an upload API is given.

    ``record`` is complete. Content that is too large for one request goes on in ``….part2.json``, and so on.
    """
    branch = str(record["head_branch"]).removeprefix("refs/heads/")
    suffix = f"_{safe(model)}" if model else ""
    number = f".part{part}" if part > 1 else ""
    name = f"benchmark_results{suffix}{number}.json"
    return "/".join(
        [
            "v3",
            _path(record["repo"]),
            _path(branch),
            safe(record["head_sha"]),
            safe(device_type(record)),
            name,
        ]
    )


def device_type(record: Mapping[str, Any]) -> str:
    """The hardware that queries go by: of the record's first runner, or what the benchmark says of it."""
    first = next(iter(record.get("runners") or []), None) or {}
    about = (record.get("benchmark") or {}).get("extra_info") or {}
    return str(first.get("type") or about.get("arch") or first.get("cpu_info") or "unknown")


def safe(name: object) -> str:
    """``name`` as one part of a key: what is not a letter, a digit or ``. _ -`` becomes ``_``."""
    replaced = _UNSAFE.sub("_", str(name))[:_LONGEST_PART].lstrip(".")
    return replaced or "_"


def distinct(file: str) -> str:
    """:func:`safe`, with a mark of ``file`` where something was replaced: two files never get one key."""
    if safe(file) == file:
        return file
    mark = hashlib.sha256(file.encode("utf-8", "surrogateescape")).hexdigest()[:_MARK]
    suffix = next((suffix for suffix in (".json.gz", ".json") if file.endswith(suffix)), "")
    return f"{safe(file.removesuffix(suffix))}-{mark}{suffix}"


def _path(name: object) -> str:
    path = "/".join(safe(part) for part in str(name).split("/") if part) or "_"
    return path if len(path) <= _LONGEST_PATH else distinct(path.replace("/", " "))
