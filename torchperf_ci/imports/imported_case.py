"""Parts shared by the readers of all tools: a case with its numbers, the machine, and the validation of both.

Files are untrusted. Text from a file's head, which is copied to each record, is truncated, and only numbers are
accepted as measurements.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torchperf_ci.metrics import STATUS
from torchperf_ci.records.parser import RepeatedKeys
from torchperf_ci.records.record import SYNTHETIC, Benchmark, Metric, Model, build_record, synthetic_id
from torchperf_ci.records.schema import excerpt

TIME = "time(ms)"
MILLISECONDS: Mapping[str, float] = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1e3),
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), 1.0),
    **dict.fromkeys(("us", "µs", "μs", "usec", "microsecond", "microseconds"), 1e-3),
    **dict.fromkeys(("ns", "nsec", "nanosecond", "nanoseconds"), 1e-6),
}
"""Milliseconds in each unit of time."""
MAX_FACT_LENGTH = 100
MAX_NAME_LENGTH = 500
_MAX_FACTS = 20
_DIGITS = 12
"""Number of digits of a fingerprint, which identifies a machine in a store."""


class InvalidResultError(Exception):
    """A result or a whole file cannot be converted; the message is the reason, ``path`` the JSON path."""

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(reason)
        self.path = path


@dataclass(frozen=True)
class ImportedCase:
    """One benchmark in a file, at the JSON ``path``, with its ``metrics``; ``source`` is the parsed JSON.

    ``backend`` is what executed it, if results of different backends must be separate series.
    """

    path: str
    source: object
    name: str
    metrics: Sequence[Metric]
    backend: str = ""
    about: Mapping[str, object] = field(default_factory=dict)
    machine: Mapping[str, object] | None = None


@dataclass(frozen=True)
class InvalidResult:
    """A result at the JSON ``path`` that cannot be converted, and why."""

    path: str
    source: object
    reason: str


@dataclass(frozen=True)
class ImportedFile:
    """The content of a file of ``tool``; ``stamp`` has the record fields that the file itself provides.

    ``independent``: each value of a case is from a process of its own, and not from a round of the same one.

    Tools that record the commit keep results of many commits, and a directory may contain all of them. Each commit is
    then a separate run with an id that is always the same, which ``with_ids`` adds.
    """

    tool: str
    cases: Iterator[ImportedCase | InvalidResult]
    stamp: Mapping[str, str | int] = field(default_factory=dict)
    independent: bool = False

    def with_ids(self, content: bytes) -> ImportedFile:
        """Return a copy with the ids of its run, if the file names a commit.

        The job's id depends on ``content``, the bytes of the file, because more results may be added to the file later.
        """
        if "head_sha" not in self.stamp:
            return self
        run = synthetic_id(self.tool, *(str(self.stamp.get(name, "")) for name in ("head_sha", "timestamp")))
        job = synthetic_id(self.tool, hashlib.sha256(content).hexdigest())
        return replace(self, stamp={**self.stamp, "workflow_id": run, "run_attempt": 1, "job_id": job})

    def records_of(self, case: ImportedCase) -> list[dict[str, object]]:
        """Return one record for each metric of a case."""
        own_ids = {SYNTHETIC: "synthetic"} if "job_id" in self.stamp else {}
        metrics = case.metrics if self.independent else map(_of_rounds, case.metrics)
        return [
            {
                **self.stamp,
                **build_record(
                    benchmark=Benchmark(self.tool, extra_info={**case.about, **own_ids}),
                    model=Model(case.name, backend=case.backend),
                    metric=metric,
                    runners=None if case.machine is None else [case.machine],
                ),
            }
            for metric in metrics
        ]


def _of_rounds(metric: Metric) -> Metric:
    """Return the metric, with a mark that its values are rounds of one process if there are several."""
    rounds = {"independent": "false"} if len(metric.values) > 1 else {}
    return replace(metric, extra_info={**metric.extra_info, **rounds})


def cases_of(
    listed: Iterable[object], path: str, case: Callable[[Any, str], ImportedCase]
) -> Iterator[ImportedCase | InvalidResult]:
    """Yield the ``case`` of each entry of the list at ``path``, or a refusal for an :class:`InvalidResultError`."""
    for index, entry in enumerate(listed):
        place = f"{path}[{index}]"
        try:
            yield case(entry, place)
        except InvalidResultError as error:
            yield InvalidResult(error.path or place, entry, str(error))


def members(value: object, what: str, path: str = "") -> Mapping[str, object]:
    """Return ``value`` if it is a JSON object. Raises :class:`InvalidResultError` otherwise."""
    if not isinstance(value, dict):
        raise InvalidResultError(f"{excerpt(value)} is not {what}", path)
    if isinstance(value, RepeatedKeys):
        reason = f"the key {excerpt(value.repeated)} occurs more than once; keep the intended one"
        raise InvalidResultError(reason, path)
    return value


def items(value: object, what: str, path: str = "") -> Sequence[Any]:
    """Return ``value`` if it is a JSON list. Raises :class:`InvalidResultError` otherwise."""
    if not isinstance(value, list):
        raise InvalidResultError(f"{excerpt(value)} is not {what}", path)
    return value


def name_of(value: object, path: str) -> str:
    """Return ``value`` if it is a valid name. Raises :class:`InvalidResultError` otherwise."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidResultError(f"{excerpt(value)} is not a name", path)
    if len(value) > MAX_NAME_LENGTH:
        reason = f"the name has more than {MAX_NAME_LENGTH} characters; give it a shorter one"
        raise InvalidResultError(reason, path)
    return value


def number(value: object, path: str) -> float:
    """Return ``value`` if it is a finite number; text is not converted. Else raises :class:`InvalidResultError`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidResultError(f"{excerpt(value)} is not a number", path)
    try:
        if math.isfinite(value):
            return value
    except OverflowError:
        pass
    raise InvalidResultError(f"{excerpt(value)} is not a finite number", path)


def numbers(value: object, path: str, scale: float = 1.0) -> list[float]:
    """Return the numbers of a list, multiplied by ``scale``. Raises :class:`InvalidResultError`, also for none."""
    listed = items(value, "a list of numbers", path)
    if not listed:
        raise InvalidResultError("holds no number", path)
    return [number(each, f"{path}[{index}]") * scale for index, each in enumerate(listed)]


def status(failure: str = "", word: str = "failed") -> Metric:
    """Return the status metric of a case. ``failure`` says why it did not pass, and ``word`` is its status."""
    if failure:
        return Metric(STATUS, [0.0], {"status": word, "reason": failure[:MAX_NAME_LENGTH]})
    return Metric(STATUS, [1.0], {"status": "pass"})


def facts(values: Mapping[str, object]) -> dict[str, str]:
    """Return the non-empty scalar values in ``values`` as short text, at most ``_MAX_FACTS`` of them."""
    known = {
        name[:MAX_FACT_LENGTH]: str(value)[:MAX_FACT_LENGTH]
        for name, value in values.items()
        if isinstance(value, str | int | float) and value != ""
    }
    return dict(list(known.items())[:_MAX_FACTS])


def parameters(values: object, kind: str = "param") -> dict[str, str]:
    """Return the parameters of a case, or what is added to it by another name, for its ``extra_info``."""
    known = values if isinstance(values, dict) else {}
    return facts({f"{kind}.{name}": value for name, value in known.items()})


def machine(
    processor: object, cpus: object, architecture: object, compared: Mapping[str, object], **seen: object
) -> dict[str, object]:
    """Return an element of ``runners``. Machines are compared only if ``compared`` is equal; ``seen`` may differ."""
    known = facts({"cpu": processor or architecture, "cpus": cpus, "machine": architecture, **compared})
    arm = known.get("machine", "").lower() in ("aarch64", "arm64")
    count = f"{known['cpus']}cpus" if "cpus" in known else ""
    kind = "_".join(f"{known.get('cpu', 'unknown')} {count}".split())
    return {
        "name": "arm64-cpu" if arm else "cpu",
        "type": kind,
        "cpu_info": " ".join(filter(None, [known.get("machine"), known.get("cpu")])),
        "extra_info": {
            **facts(seen),
            **known,
            "fingerprint": hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:_DIGITS],
            "fingerprint_of": ",".join(sorted(known)),
        },
    }


def system_version(system: object, release: object) -> str:
    """Return a text such as ``Linux 6.8``, without the patch level, which changes often."""
    version = ".".join(str(release).split("-", maxsplit=1)[0].split(".")[:2])
    return f"{system} {version}"[:MAX_FACT_LENGTH]


_COMMIT = re.compile(r"[0-9a-f]{7,64}")


def commit_stamp(sha: object, branch: object, seconds: int | None) -> dict[str, str | int]:
    """Return the record fields for the measured commit and the time, as far as they are known."""
    stamp: dict[str, str | int] = {}
    if isinstance(sha, str) and _COMMIT.fullmatch(sha):
        stamp["head_sha"] = sha
        # pytest-benchmark: (detached head), (unknown)
        if isinstance(branch, str) and branch and "(" not in branch:
            stamp["head_branch"] = branch[:MAX_NAME_LENGTH]
    if seconds:
        stamp["timestamp"] = seconds
    return stamp


def unix_seconds(text: object) -> int | None:
    """Return the Unix seconds of a time in ISO 8601, which is in UTC by default; None for anything else."""
    try:
        found = datetime.datetime.fromisoformat(str(text).replace("Z", "+00:00"))
        moment = found if found.tzinfo else found.replace(tzinfo=datetime.timezone.utc)
        return max(0, int(moment.timestamp()))
    except (ValueError, OverflowError):
        return None
