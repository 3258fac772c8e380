"""Read pytest-benchmark's JSON from ``--benchmark-json``, ``--benchmark-autosave`` and ``--benchmark-save``.

Times are in seconds per iteration. Without ``--benchmark-save-data`` a saved file has only statistics of the rounds;
the median is then the only value.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from torchperf_ci.imports.imported_case import (
    TIME,
    ImportedCase,
    ImportedFile,
    cases_of,
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
    from collections.abc import Mapping

TOOL = "pytest-benchmark"


def recognises(value: object) -> bool:
    """Whether a JSON document is a file of pytest-benchmark."""
    return isinstance(value, dict) and {"benchmarks", "machine_info"} <= value.keys()


def read(value: Mapping[str, object]) -> ImportedFile:
    """Return the cases of a file. Raises :class:`UnfitResultError`."""
    listed = items(value["benchmarks"], "a list of benchmarks", "$.benchmarks")
    info = members(value["machine_info"], "a description of the machine", "$.machine_info")
    commit = value.get("commit_info")
    told = commit if isinstance(commit, dict) else {}
    stamp = commit_stamp(told.get("id"), told.get("branch"), unix_seconds(value.get("datetime")))
    about = {"dirty": "true"} if told.get("dirty") is True else {}
    return ImportedFile(TOOL, cases_of(listed, "$.benchmarks", partial(_case, info, about)), stamp)


def _case(info: Mapping[str, object], about: Mapping[str, object], entry: object, path: str) -> ImportedCase:
    result = members(entry, "a benchmark", path)
    stats = members(result.get("stats"), "the statistics of a benchmark", f"{path}.stats")
    case_about = {
        **about,
        **parameters(result.get("params")),
        **facts({"group": result.get("group")}),
        **_extra(result.get("extra_info")),
    }
    name = name_of(result.get("fullname") or result.get("name"), f"{path}.fullname")
    metrics = [_time(stats, f"{path}.stats")]
    return ImportedCase(path, entry, name, metrics, _interpreter(info), case_about, _machine(info))


def _time(stats: Mapping[str, object], path: str) -> Metric:
    about = facts({name: stats.get(name) for name in ("rounds", "iterations")})
    if "data" in stats:
        return Metric(TIME, numbers(stats["data"], f"{path}.data", 1e3), about)
    spread = facts({f"{name}_seconds": stats.get(name) for name in ("min", "max", "mean", "stddev", "iqr")})
    return Metric(TIME, [number(stats.get("median"), f"{path}.median") * 1e3], {**about, **spread})


def _extra(found: object) -> dict[str, str]:
    return facts({f"extra.{name}": value for name, value in found.items()} if isinstance(found, dict) else {})


def _interpreter(info: Mapping[str, object]) -> str:
    """Return the interpreter, such as ``CPython 3.11``. Results of different interpreters are separate series."""
    version = ".".join(str(info.get("python_version") or "").split(".")[:2])
    return " ".join(filter(None, [*facts({"name": info.get("python_implementation")}).values(), version]))[
        :100
    ]


def _machine(info: Mapping[str, object]) -> dict[str, object]:
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
