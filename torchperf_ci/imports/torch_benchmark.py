"""Read results of ``torch.utils.benchmark``: JSON of one ``Measurement`` or a list, from ``dataclasses.asdict``.

The library's own file format is a pickle, which is not supported, because loading one can run arbitrary code.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from torchperf_ci.imports.imported_case import (
    TIME,
    ImportedCase,
    ImportedFile,
    UnfitResult,
    UnfitResultError,
    facts,
    members,
    name_of,
    number,
    numbers,
)
from torchperf_ci.records.record import Metric

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

TOOL = "torch.utils.benchmark"
_NEEDED = {"number_per_run", "raw_times", "task_spec"}


def recognises(value: object) -> bool:
    """Whether a JSON document is such a measurement or a list with some."""
    listed = value if isinstance(value, list) else [value]
    return any(isinstance(entry, dict) and entry.keys() >= _NEEDED for entry in listed)


def read(value: object) -> ImportedFile:
    """Return the cases of a file. Several measurements of one task, as ``Timer.repeat`` creates, become one case."""
    listed = value if isinstance(value, list) else [value]
    paths = [f"$[{index}]" for index in range(len(listed))] if isinstance(value, list) else ["$"]
    return ImportedFile(TOOL, _cases(dict(zip(paths, listed, strict=True))))


def _cases(entries: Mapping[str, object]) -> Iterator[ImportedCase | UnfitResult]:
    cases: dict[tuple[str, str], ImportedCase] = {}
    for path, entry in entries.items():
        try:
            case = _case(entry, path)
        except UnfitResultError as error:
            yield UnfitResult(error.path or path, entry, str(error))
            continue
        key = case.name, case.backend
        if key in cases:
            (before,), (again,) = cases[key].metrics, case.metrics
            together = replace(before, values=[*before.values, *again.values])
            cases[key] = replace(cases[key], metrics=[together])
        else:
            cases[key] = case
    yield from cases.values()


def _case(entry: object, path: str) -> ImportedCase:
    result = members(entry, "a measurement", path)
    task = members(result.get("task_spec"), "the task of a measurement", f"{path}.task_spec")
    runs = number(result.get("number_per_run"), f"{path}.number_per_run")
    if runs < 1:
        reason = "is not a number of runs"
        raise UnfitResultError(reason, f"{path}.number_per_run")
    times = numbers(result.get("raw_times"), f"{path}.raw_times", 1e3 / runs)
    about = facts({"number_per_run": runs, "stmt": task.get("stmt"), "num_threads": task.get("num_threads")})
    name = name_of(_name(task), f"{path}.task_spec.label")
    backend = facts({"description": task.get("description")}).get("description", "")
    return ImportedCase(path, entry, name, [Metric(TIME, times)], backend, about)


def _name(task: Mapping[str, object]) -> str:
    """Return the name like ``Measurement.title``, extended by what else distinguishes two tasks."""
    threads = task.get("num_threads") or 1
    title = ": ".join(
        str(part) for part in (task.get("label") or task.get("stmt"), task.get("sub_label")) if part
    )
    return ", ".join(
        filter(None, [title, str(task.get("env") or ""), f"{threads} threads" if threads != 1 else ""])
    )
