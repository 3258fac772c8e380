"""pytest-benchmark's JSON, of ``--benchmark-json``, ``--benchmark-autosave`` and ``--benchmark-save``.

Times are in seconds for one iteration. Without ``--benchmark-save-data`` a saved file has no rounds, only their
statistics: its median is the one value then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torchperf_ci.imports.imported_case import (
    TIME,
    ImportedCase,
    ImportedFile,
    UnfitResult,
    UnfitResultError,
    commit_stamp,
    facts,
    items,
    machine,
    members,
    name_of,
    number,
    numbers,
    parameters,
    system_version,
    unix_seconds,
)
from torchperf_ci.records.record import Metric

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

TOOL = "pytest-benchmark"


def recognises(value: object) -> bool:
    """Whether a JSON document is such a file."""
    return isinstance(value, dict) and {"benchmarks", "machine_info"} <= value.keys()


def read(value: Mapping[str, Any]) -> ImportedFile:
    """The cases of such a file. Raises :class:`UnfitResultError`."""
    listed = items(value["benchmarks"], "a list of benchmarks", "$.benchmarks")
    info = members(value["machine_info"], "a description of the machine", "$.machine_info")
    commit = value.get("commit_info")
    told = commit if isinstance(commit, dict) else {}
    stamp = commit_stamp(told.get("id"), told.get("branch"), unix_seconds(value.get("datetime")))
    return ImportedFile(
        TOOL, _cases(listed, info, {"dirty": "true"} if told.get("dirty") is True else {}), stamp
    )


def _cases(
    listed: Sequence[object], info: Mapping[str, Any], about: Mapping[str, object]
) -> Iterator[ImportedCase | UnfitResult]:
    described, backend = _machine(info), _interpreter(info)
    for index, entry in enumerate(listed):
        path = f"$.benchmarks[{index}]"
        try:
            result = members(entry, "a benchmark", path)
            stats = members(result.get("stats"), "the statistics of a benchmark", f"{path}.stats")
            case_about = {
                **about,
                **parameters(result.get("params")),
                **facts({"group": result.get("group")}),
                **_extra(result.get("extra_info")),
            }
            yield ImportedCase(
                path,
                entry,
                name_of(result.get("fullname") or result.get("name"), f"{path}.fullname"),
                [_time(stats, f"{path}.stats")],
                backend,
                case_about,
                described,
            )
        except UnfitResultError as error:
            yield UnfitResult(error.path or path, entry, str(error))


def _time(stats: Mapping[str, Any], path: str) -> Metric:
    about = facts({name: stats.get(name) for name in ("rounds", "iterations")})
    if "data" in stats:
        return Metric(TIME, numbers(stats["data"], f"{path}.data", 1e3), about)
    spread = facts({f"{name}_seconds": stats.get(name) for name in ("min", "max", "mean", "stddev", "iqr")})
    return Metric(TIME, [number(stats.get("median"), f"{path}.median") * 1e3], {**about, **spread})


def _extra(found: object) -> dict[str, str]:
    return facts({f"extra.{name}": value for name, value in found.items()} if isinstance(found, dict) else {})


def _interpreter(info: Mapping[str, Any]) -> str:
    """Such as ``CPython 3.11``: the results of two interpreters are no series of one."""
    version = ".".join(str(info.get("python_version") or "").split(".")[:2])
    return " ".join(filter(None, [*facts({"name": info.get("python_implementation")}).values(), version]))[
        :100
    ]


def _machine(info: Mapping[str, Any]) -> dict[str, object]:
    processor = info.get("cpu")
    cpu = processor if isinstance(processor, dict) else {}
    return machine(
        cpu.get("brand_raw") or cpu.get("brand") or info.get("processor"),
        cpu.get("count"),
        info.get("machine"),
        {"system": system_version(info.get("system"), info.get("release"))},
        hostname=info.get("node"),
        kernel=info.get("release"),
        python=info.get("python_version"),
    )
