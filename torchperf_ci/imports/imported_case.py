"""What is common to the results of all tools: a case with its numbers, the machine, and the checks of both.

A file may come from a stranger. What is taken from its head, which goes into each record, is cut to a length; what is
no number is no measurement, whatever else looks like one.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from torchperf_ci.metrics import STATUS
from torchperf_ci.records.parser import RepeatedKeys
from torchperf_ci.records.record import SYNTHETIC, Benchmark, Metric, Model, build_record, synthetic_id
from torchperf_ci.records.schema import excerpt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


TIME = "time(ms)"
MILLISECONDS: Mapping[str, float] = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1e3),
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), 1.0),
    **dict.fromkeys(("us", "µs", "μs", "usec", "microsecond", "microseconds"), 1e-3),
    **dict.fromkeys(("ns", "nsec", "nanosecond", "nanoseconds"), 1e-6),
}
"""Of one of each unit of time."""
LONGEST_FACT = 100
LONGEST_NAME = 500
_MOST_FACTS = 20
_DIGITS = 12
"""Of a fingerprint, by which a store knows a machine."""


class UnfitResultError(Exception):
    """A result, or a whole file, that becomes no record; the message is the reason. ``path`` is where below it."""

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(reason)
        self.path = path


@dataclass(frozen=True)
class ImportedCase:
    """One benchmark of a file, at the JSON ``path``, with its ``metrics``; ``source`` is its text in other words.

    ``backend`` is what executed it, where results of several are no series of one.
    """

    path: str
    source: object
    name: str
    metrics: Sequence[Metric]
    backend: str = ""
    about: Mapping[str, object] = field(default_factory=dict)
    machine: Mapping[str, object] | None = None


@dataclass(frozen=True)
class UnfitResult:
    """A result at the JSON ``path`` that becomes no record, and why."""

    path: str
    source: object
    reason: str


@dataclass(frozen=True)
class ImportedFile:
    """What the results of ``tool`` hold; ``stamp`` are the fields of a record that they say themselves.

    A tool that names the commit keeps the results of many, and a directory may have them all: each commit is a run of
    its own then, always under the same id, and ``with_ids`` makes it one.
    """

    tool: str
    cases: Iterator[ImportedCase | UnfitResult]
    stamp: Mapping[str, str | int] = field(default_factory=dict)

    def with_ids(self, content: bytes) -> ImportedFile:
        """The same with the ids of its run, if it names a commit. ``content`` is the file's: it may grow later."""
        if "head_sha" not in self.stamp:
            return self
        run = synthetic_id(self.tool, *(str(self.stamp.get(name, "")) for name in ("head_sha", "timestamp")))
        job = synthetic_id(self.tool, hashlib.sha256(content).hexdigest())
        return replace(self, stamp={**self.stamp, "workflow_id": run, "run_attempt": 1, "job_id": job})

    def records_of(self, case: ImportedCase) -> list[dict[str, object]]:
        """One for each metric of a case."""
        own_ids = {SYNTHETIC: "synthetic"} if "job_id" in self.stamp else {}
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
            for metric in case.metrics
        ]


def cases_of(
    listed: Sequence[object], path: str, case: Callable[[object, str], ImportedCase]
) -> Iterator[ImportedCase | UnfitResult]:
    """The ``case`` of each entry of the list at ``path``; one that raises :class:`UnfitResultError` is refused."""
    for index, entry in enumerate(listed):
        place = f"{path}[{index}]"
        try:
            yield case(entry, place)
        except UnfitResultError as error:
            yield UnfitResult(error.path or place, entry, str(error))


def members(value: object, what: str, path: str = "") -> Mapping[str, object]:
    """``value`` as the JSON object that it must be. Raises :class:`UnfitResultError`."""
    if not isinstance(value, dict):
        reason = f"{excerpt(value)} is not {what}"
        raise UnfitResultError(reason, path)
    if isinstance(value, RepeatedKeys):
        reason = f"the key {excerpt(value.repeated)} stands there more than once; keep the one that is meant"
        raise UnfitResultError(reason, path)
    return value


def items(value: object, what: str, path: str = "") -> Sequence[Any]:
    """``value`` as the JSON list that it must be. Raises :class:`UnfitResultError`."""
    if not isinstance(value, list):
        reason = f"{excerpt(value)} is not {what}"
        raise UnfitResultError(reason, path)
    return value


def name_of(value: object, path: str) -> str:
    """``value`` as the name that it must be. Raises :class:`UnfitResultError`."""
    if not isinstance(value, str) or not value.strip():
        reason = f"{excerpt(value)} is not a name"
        raise UnfitResultError(reason, path)
    if len(value) > LONGEST_NAME:
        reason = f"the name has more than {LONGEST_NAME} characters; give it a shorter one"
        raise UnfitResultError(reason, path)
    return value


def number(value: object, path: str) -> float:
    """``value`` as the number that it must be; text never becomes one. Raises :class:`UnfitResultError`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        reason = f"{excerpt(value)} is not a number"
        raise UnfitResultError(reason, path)
    try:
        if math.isfinite(value):
            return value
    except OverflowError:
        pass
    reason = f"{excerpt(value)} is not a finite number"
    raise UnfitResultError(reason, path)


def numbers(value: object, path: str, scale: float = 1.0) -> list[float]:
    """The numbers of a list that has some, ``scale`` times as large. Raises :class:`UnfitResultError`."""
    listed = items(value, "a list of numbers", path)
    if not listed:
        reason = "holds no number"
        raise UnfitResultError(reason, path)
    return [number(each, f"{path}[{index}]") * scale for index, each in enumerate(listed)]


def status(failure: str = "", word: str = "failed") -> Metric:
    """Whether a case passed; a ``failure`` says why it did not, and ``word`` in one word."""
    if failure:
        return Metric(STATUS, [0.0], {"status": word, "reason": failure[:LONGEST_NAME]})
    return Metric(STATUS, [1.0], {"status": "pass"})


def facts(found: Mapping[str, object]) -> dict[str, str]:
    """The single values among ``found`` that say something, as short text."""
    told = {
        name[:LONGEST_FACT]: str(value)[:LONGEST_FACT]
        for name, value in found.items()
        if isinstance(value, str | int | float) and value != ""
    }
    return dict(list(told.items())[:_MOST_FACTS])


def parameters(found: object) -> dict[str, str]:
    """The parameters of a case for its ``extra_info``."""
    return facts({f"param.{name}": value for name, value in found.items()} if isinstance(found, dict) else {})


def machine(
    processor: object, cpus: object, architecture: object, compared: Mapping[str, object], **seen: object
) -> dict[str, object]:
    """A ``runners`` element. Two with unlike ``compared`` facts are not compared; ``seen`` may differ."""
    told = facts({"cpu": processor or architecture, "cpus": cpus, "machine": architecture, **compared})
    arm = told.get("machine", "").lower() in ("aarch64", "arm64")
    kind = "_".join(
        [*told.get("cpu", "unknown").split(), *([f"{told['cpus']}cpus"] if "cpus" in told else [])]
    )
    return {
        "name": "arm64-cpu" if arm else "cpu",
        "type": kind,
        "cpu_info": " ".join(filter(None, [told.get("machine"), told.get("cpu")])),
        "extra_info": {
            **facts(seen),
            **told,
            "fingerprint": hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:_DIGITS],
            "fingerprint_of": ",".join(sorted(told)),
        },
    }


def system_version(system: object, release: object) -> str:
    """Such as ``Linux 6.8``: patches of a kernel come and go."""
    version = ".".join(str(release).split("-", maxsplit=1)[0].split(".")[:2])
    return f"{system} {version}"[:LONGEST_FACT]


_COMMIT = re.compile(r"[0-9a-f]{7,64}")


def commit_stamp(sha: object, branch: object, seconds: int | None) -> dict[str, str | int]:
    """The commit that was measured, and the time of its records, as far as they are known."""
    stamp: dict[str, str | int] = {}
    if isinstance(sha, str) and _COMMIT.fullmatch(sha):
        stamp["head_sha"] = sha
        if (
            isinstance(branch, str) and branch and "(" not in branch
        ):  # pytest-benchmark: (detached head), (unknown)
            stamp["head_branch"] = branch[:LONGEST_NAME]
    if seconds:
        stamp["timestamp"] = seconds
    return stamp


def unix_seconds(text: object) -> int | None:
    """Of a date and time in ISO 8601, in UTC where it does not say; None for anything else."""
    try:
        found = datetime.datetime.fromisoformat(str(text).replace("Z", "+00:00"))
        moment = found if found.tzinfo else found.replace(tzinfo=datetime.timezone.utc)
        return max(0, int(moment.timestamp()))
    except (ValueError, OverflowError):
        return None
