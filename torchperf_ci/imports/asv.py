"""Read results of airspeed velocity: ``results/MACHINE/COMMIT-ENVIRONMENT.json`` in the format of asv 0.5 and newer.

Failed benchmarks are null and skipped ones NaN. The units of ``track_…`` benchmarks are in another file,
``benchmarks.json`` in the parent folder.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from torchperf_ci.imports import imported_case
from torchperf_ci.records.record import Metric

TOOL = "asv"
MEMBERS = {"commit_hash", "requirements", "results"}
"""Members of a file of results, by which it is known."""
_VERSION = 2
_SECONDS = ("time_", "timeraw_")
_BYTES = {"mem_": "memory(bytes)", "peakmem_": "peak_memory(bytes)"}
_MAX_COMBINATIONS = 10_000
"""Most combinations of the parameters of one benchmark."""
_Combination = tuple[str, object, object]  # the case name, result and samples


def is_companion(value: object) -> bool:
    """Whether a document is asv's ``machine.json`` or ``benchmarks.json``, which are among results but have none."""
    if not isinstance(value, dict) or "version" not in value or "results" in value:
        return False
    if {"machine", "num_cpu", "arch"} <= value.keys():
        return True
    entries = [entry for entry in value.values() if isinstance(entry, dict)]
    return bool(entries) and all({"code", "type", "unit"} <= entry.keys() for entry in entries)


def read(value: Mapping[str, object], units: Mapping[str, str]) -> imported_case.ImportedFile:
    """Return the cases of a file. ``units`` are the known units by benchmark.

    Raises :class:`InvalidResultError`.
    """
    columns = value.get("result_columns")
    names = [name for name in columns if isinstance(name, str)] if isinstance(columns, list) else []
    if value.get("version") != _VERSION or names != columns:
        reason = f"is not a file of asv's format {_VERSION}; run `asv update`"
        raise imported_case.InvalidResultError(reason, "$.version")
    results = imported_case.members(value["results"], "the results of benchmarks", "$.results")
    date = value.get("date")
    seconds = int(imported_case.number(date, "$.date") / 1000) if date is not None else None
    return imported_case.ImportedFile(
        TOOL,
        _cases(value, names, results, units),
        imported_case.commit_stamp(value["commit_hash"], "", max(seconds or 0, 0)),
    )


def _cases(
    value: Mapping[str, object], names: Sequence[str], results: Mapping[str, object], units: Mapping[str, str]
) -> Iterator[imported_case.ImportedCase | imported_case.InvalidResult]:
    environment = imported_case.name_of(value.get("env_name"), "$.env_name")
    for name, row in results.items():
        path = f'$.results["{name[: imported_case.MAX_NAME_LENGTH]}"]'
        try:
            columns = dict(zip(names, imported_case.items(row, "a row of results", path), strict=False))
            described = _machine(value.get("params"), columns.get("version"))
            made = partial(imported_case.ImportedCase, backend=environment, machine=described)
            case = partial(_case, made, _metric(imported_case.name_of(name, path), units.get(name, "")))
            yield from imported_case.cases_of(_combinations(name, columns, path), f"{path}[0]", case)
        except imported_case.InvalidResultError as error:
            yield imported_case.InvalidResult(error.path or path, row, str(error))


def _combinations(name: str, columns: Mapping[str, object], path: str) -> Iterator[_Combination]:
    """Yield each combination of parameters; a single one without parameters."""
    given = imported_case.items(columns.get("params") or [], "a list of parameters", path)
    choices = [imported_case.items(values, "the values of a parameter", path) for values in given]
    if (count := math.prod(map(len, choices))) > _MAX_COMBINATIONS:
        reason = f"has more than {_MAX_COMBINATIONS} combinations of its parameters"
        raise imported_case.InvalidResultError(reason, path)
    result, samples = columns.get("result"), columns.get("samples")
    results = [None] * count if result is None else imported_case.items(result, "a list of results", path)
    taken = itertools.chain(samples if isinstance(samples, list) else (), itertools.repeat(None))
    for chosen, *measured in zip(itertools.product(*choices), results, taken, strict=False):
        yield (f"{name}({', '.join(map(str, chosen))})" if chosen else name, *measured)


def _case(
    made: Callable[..., imported_case.ImportedCase],
    metric: tuple[str, float],
    measured: _Combination,
    path: str,
) -> imported_case.ImportedCase:
    case, result, samples = measured
    return made(path, measured, imported_case.name_of(case, path), _metrics(metric, result, samples, path))


def _metrics(metric: tuple[str, float], result: object, samples: object, path: str) -> Sequence[Metric]:
    if result is None:
        return [imported_case.status("asv says that it failed")]
    if isinstance(result, float) and math.isnan(result):
        return [imported_case.status("asv says that it was skipped", "skipped")]
    name, scale = metric
    single = float(result) if isinstance(result, bool) else result  # of a track_ that tells yes or no
    return [Metric(name, imported_case.numbers(samples or [single], path, scale)), imported_case.status()]


def _metric(name: str, unit: str) -> tuple[str, float]:
    """Return the metric of a benchmark and the factor for its numbers, by its name's prefix, as asv does, or unit."""
    own = name.rpartition(".")[2]
    if own.startswith(_SECONDS):
        return imported_case.TIME, 1e3
    kind = next((metric for prefix, metric in _BYTES.items() if own.startswith(prefix)), "")
    if kind:
        return kind, 1.0
    if unit in imported_case.MILLISECONDS:
        return imported_case.TIME, imported_case.MILLISECONDS[unit]
    return f"{own}({unit})" if unit and unit != "unit" else own, 1.0


def _machine(params: object, version: object) -> dict[str, object]:
    """Describe the machine. It includes the benchmark's ``version``: other code must not be compared either."""
    known = params if isinstance(params, dict) else {}
    system, _, release = str(known.get("os", "")).partition(" ")
    compared = {
        "system": imported_case.system_version(system, release),
        "benchmark_version": str(version or "")[:12],
    }
    return imported_case.machine(
        known.get("cpu"),
        known.get("num_cpu"),
        known.get("arch"),
        compared,
        hostname=known.get("machine"),
        memory=known.get("ram"),
    )


def units_of(value: object) -> dict[str, str]:
    """Return the unit of each benchmark in a ``benchmarks.json``."""
    benchmarks = value if is_companion(value) and isinstance(value, dict) else {}
    return {
        name: entry["unit"][: imported_case.MAX_NAME_LENGTH]
        for name, entry in benchmarks.items()
        if isinstance(entry, dict) and isinstance(entry.get("unit"), str)
    }
