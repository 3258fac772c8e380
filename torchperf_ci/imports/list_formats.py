"""The formats of tools whose files are a list of results, one reader for each tool."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from torchperf_ci.imports.google_benchmark import read_google_benchmark
from torchperf_ci.imports.imported_case import (
    MAX_FACT_LENGTH,
    MILLISECONDS,
    TIME,
    ImportedCase,
    ImportedFile,
    InvalidResult,
    InvalidResultError,
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
    status,
    system_version,
    unix_seconds,
)
from torchperf_ci.metrics import DOWN, UP
from torchperf_ci.records.record import Metric
from torchperf_ci.records.schema import excerpt


def read_pytest_benchmark(value: Mapping[str, object]) -> ImportedFile:
    """Read pytest-benchmark's JSON from ``--benchmark-json``, ``--benchmark-autosave`` and ``--benchmark-save``.

    Times are in seconds per iteration. Without ``--benchmark-save-data`` a saved file has only statistics of the
    rounds; the median is then the only value.
    """
    listed = items(value["benchmarks"], "a list of benchmarks", "$.benchmarks")
    info = members(value["machine_info"], "a description of the machine", "$.machine_info")
    commit = value.get("commit_info")
    known = commit if isinstance(commit, dict) else {}
    stamp = commit_stamp(known.get("id"), known.get("branch"), unix_seconds(value.get("datetime")))
    about = {"dirty": "true"} if known.get("dirty") is True else {}
    case = partial(_pytest_case, info, about)
    return ImportedFile("pytest-benchmark", cases_of(listed, "$.benchmarks", case), stamp)


def _pytest_case(
    info: Mapping[str, object], about: Mapping[str, object], entry: object, path: str
) -> ImportedCase:
    result = members(entry, "a benchmark", path)
    stats = members(result.get("stats"), "the statistics of a benchmark", f"{path}.stats")
    case_about = {
        **about,
        **parameters(result.get("params")),
        **facts({"group": result.get("group")}),
        **parameters(result.get("extra_info"), "extra"),
    }
    name = name_of(result.get("fullname") or result.get("name"), f"{path}.fullname")
    metrics = [_pytest_time(stats, f"{path}.stats")]
    return ImportedCase(
        path, entry, name, metrics, _pytest_interpreter(info), case_about, _pytest_machine(info)
    )


def _pytest_time(stats: Mapping[str, object], path: str) -> Metric:
    about = facts({name: stats.get(name) for name in ("rounds", "iterations")})
    if "data" in stats:
        return Metric(TIME, numbers(stats["data"], f"{path}.data", 1e3), about)
    spread = facts({f"{name}_seconds": stats.get(name) for name in ("min", "max", "mean", "stddev", "iqr")})
    return Metric(TIME, [number(stats.get("median"), f"{path}.median") * 1e3], {**about, **spread})


def _pytest_interpreter(info: Mapping[str, object]) -> str:
    """Return the interpreter, such as ``CPython 3.11``. Results of different interpreters are separate series."""
    version = ".".join(str(info.get("python_version") or "").split(".")[:2])
    return f"{info.get('python_implementation') or ''} {version}".strip()[:MAX_FACT_LENGTH]


def _pytest_machine(info: Mapping[str, object]) -> dict[str, object]:
    processor = info.get("cpu")
    cpu = processor if isinstance(processor, dict) else {}
    return machine(
        cpu.get("brand_raw") or cpu.get("brand") or info.get("processor"),
        cpu.get("count"),
        info.get("machine"),
        {"system": system_version(info.get("system"), info.get("release")), "gpu": info.get("gpu")},
        hostname=info.get("node"),
        kernel=info.get("release"),
        python=info.get("python_version"),
    )


_OF_ROUNDS = re.compile(r"[0-2]\.|3\.[01]\.")
"""Versions of pytest-codspeed that wrote the time of a round, which may have several iterations."""


def read_codspeed(value: Mapping[str, object]) -> ImportedFile:
    """Read CodSpeed's walltime results: ``.codspeed/results_*.json`` of pytest-codspeed and CodSpeed's other plugins.

    They contain statistics of the rounds in nanoseconds, but not the rounds, so the median is the only value.
    """
    kind = members(value["instrument"], "an instrument", "$.instrument").get("type")
    if kind != "walltime":
        reason = "holds no times: run CodSpeed in walltime mode (--codspeed-mode walltime)"
        raise InvalidResultError(reason, "$.instrument.type")
    creator = members(value["creator"], "a creator", "$.creator")
    if creator.get("name") == "pytest-codspeed" and _OF_ROUNDS.match(str(creator.get("version"))):
        reason = "pytest-codspeed before 3.2 writes the time of a round, not of an iteration; update it"
        raise InvalidResultError(reason, "$.creator.version")
    listed = items(value["benchmarks"], "a list of benchmarks", "$.benchmarks")
    about = facts({"creator": creator.get("name")})
    return ImportedFile("codspeed", cases_of(listed, "$.benchmarks", partial(_codspeed_case, about)))


def _codspeed_case(about: Mapping[str, object], entry: object, path: str) -> ImportedCase:
    result = members(entry, "a benchmark", path)
    stats = members(result.get("stats"), "the statistics of a benchmark", f"{path}.stats")
    median = number(stats.get("median_ns"), f"{path}.stats.median_ns") / 1e6
    kept = ("rounds", "iter_per_round", "min_ns", "max_ns", "mean_ns", "stdev_ns", "q1_ns", "q3_ns")
    spread = facts({name: stats.get(name) for name in kept})
    name = name_of(result.get("uri") or result.get("name"), f"{path}.uri")
    return ImportedCase(path, entry, name, [Metric(TIME, [median], spread)], about=about)


def read_hyperfine(value: Mapping[str, list[object]]) -> ImportedFile:
    """Read hyperfine's ``--export-json``, which has the seconds of every run of every command.

    A command with an exit code other than 0, which hyperfine only accepts with ``--ignore-failure``, counts as failed,
    because its time is not meaningful: a command that breaks early is fast.
    """
    commands = Counter(str(entry.get("command")) for entry in value["results"] if isinstance(entry, dict))
    case = partial(_hyperfine_case, commands)
    return ImportedFile("hyperfine", cases_of(value["results"], "$.results", case), independent=True)


def _hyperfine_case(commands: Mapping[str, int], entry: object, path: str) -> ImportedCase:
    """Read one result. Parameters that only the setup of a command uses distinguish it as on hyperfine's terminal."""
    result = members(entry, "the result of a command", path)
    name = name_of(result.get("command"), f"{path}.command")
    given = parameters(result.get("parameters"))
    if commands[name] > 1 and given:
        values = (f"{key.removeprefix('param.')} = {value}" for key, value in given.items())
        name = name_of(f"{name} ({', '.join(values)})", f"{path}.parameters")
    return ImportedCase(path, entry, name, list(_hyperfine_metrics(result, path)), about=given)


def _hyperfine_metrics(result: Mapping[str, object], path: str) -> Iterator[Metric]:
    codes = items(result.get("exit_codes") or [], "a list of exit codes", f"{path}.exit_codes")
    bad = next((code for code in codes if code != 0), 0)
    if bad != 0:
        yield status("it was killed by a signal" if bad is None else f"it ended with exit code {bad}")
        return
    about = {f"{name}_seconds": result.get(name) for name in ("user", "system")}
    yield Metric(TIME, numbers(result.get("times"), f"{path}.times", 1e3), facts(about))
    if memory := result.get("memory_usage_byte"):  # of newer versions
        yield Metric("peak_memory(bytes)", numbers(memory, f"{path}.memory_usage_byte"))
    yield status()


def read_torch_benchmark(value: object) -> ImportedFile:
    """Read ``torch.utils.benchmark``: JSON of one ``Measurement`` or a list, from ``dataclasses.asdict``.

    Several measurements of one task, as of a ``Timer`` called again, become one case. The library's own file format
    is a pickle, which is not supported, because loading one can run arbitrary code.
    """
    entries = (
        {f"$[{index}]": entry for index, entry in enumerate(value)}
        if isinstance(value, list)
        else {"$": value}
    )
    return ImportedFile("torch.utils.benchmark", _torch_cases(entries))


def _torch_cases(entries: Mapping[str, Any]) -> Iterator[ImportedCase | InvalidResult]:
    cases: dict[str, list[ImportedCase]] = defaultdict(list)
    for path, entry in entries.items():
        try:
            case = _torch_case(entry, path)
            cases[json.dumps(entry["task_spec"], sort_keys=True)].append(case)
        except InvalidResultError as error:
            yield InvalidResult(error.path or path, entry, str(error))
    for first, *more in cases.values():
        values = [value for case in (first, *more) for metric in case.metrics for value in metric.values]
        yield replace(first, metrics=[replace(first.metrics[0], values=values)])


def _torch_case(entry: object, path: str) -> ImportedCase:
    result = members(entry, "a measurement", path)
    task = members(result.get("task_spec"), "the task of a measurement", f"{path}.task_spec")
    runs = number(result.get("number_per_run"), f"{path}.number_per_run")
    if runs < 1:
        raise InvalidResultError("is not a number of runs", f"{path}.number_per_run")
    times = numbers(result.get("raw_times"), f"{path}.raw_times", 1e3 / runs)
    about = facts({"number_per_run": runs, "stmt": task.get("stmt"), "num_threads": task.get("num_threads")})
    name = name_of(_torch_name(task), f"{path}.task_spec.label")
    description = task.get("description")
    backend = name_of(str(description), f"{path}.task_spec.description") if description else ""
    return ImportedCase(path, entry, name, [Metric(TIME, times)], backend, about)


def _torch_name(task: Mapping[str, object]) -> str:
    """Return the name like ``Measurement.title``, extended by what else distinguishes two tasks."""
    named = (task.get("label") or task.get("stmt"), task.get("sub_label"))
    threads = task.get("num_threads") or 1
    parts = (
        ": ".join(str(part) for part in named if part),
        task.get("env"),
        threads != 1 and f"{threads} threads",
    )
    return ", ".join(str(part) for part in parts if part)


_BY_MEMBERS: Sequence[tuple[set[str], Callable[[Any], ImportedFile]]] = (
    ({"benchmarks", "machine_info"}, read_pytest_benchmark),
    ({"creator", "instrument", "benchmarks"}, read_codspeed),
    ({"benchmarks", "context"}, read_google_benchmark),
)


def reader_of(value: object) -> Callable[[Any], ImportedFile] | None:
    """Return the reader for a JSON document of one of these tools; None if it is of none of them."""
    if isinstance(value, dict):
        if known := next((reader for named, reader in _BY_MEMBERS if named <= value.keys()), None):
            return known
        if _any_has({"command", "mean"}, value.get("results")):
            return read_hyperfine
    is_of_torch = _any_has(
        {"number_per_run", "raw_times", "task_spec"}, value if isinstance(value, list) else [value]
    )
    return read_torch_benchmark if is_of_torch else None


def _any_has(named: set[str], listed: object) -> bool:
    return isinstance(listed, list) and any(
        isinstance(entry, dict) and named <= entry.keys() for entry in listed
    )


DIRECTIONS = {"customSmallerIsBetter": DOWN, "customBiggerIsBetter": UP}
_MAX_UNIT_LENGTH = 40


def is_for_github_action(value: object) -> bool:
    """Whether a JSON document is a list of ``{"name", "unit", "value"}``, and of no records."""
    return _any_has({"name", "unit", "value"}, value) and not _any_has({"metric"}, value)


def read_github_action(value: Sequence[object], format_name: str) -> ImportedFile:
    """Read github-action-benchmark's ``customSmallerIsBetter`` or ``customBiggerIsBetter``.

    Both look the same, so the user must say which one a file is. Raises :class:`InvalidResultError` if
    ``format_name`` does not.
    """
    if format_name not in DIRECTIONS:
        reason = (
            "looks like the input of github-action-benchmark, which does not say whether smaller or bigger is "
            f"better; give --format {' or --format '.join(DIRECTIONS)}"
        )
        raise InvalidResultError(reason)
    return ImportedFile(
        "github-action-benchmark", cases_of(value, "$", partial(_action_case, DIRECTIONS[format_name]))
    )


def _action_case(direction: str, entry: object, path: str) -> ImportedCase:
    result = members(entry, "a result", path)
    name = name_of(result.get("name"), f"{path}.name")
    value, unit = number(result.get("value"), f"{path}.value"), _action_unit(result.get("unit"), path)
    if (better := _better(unit)) not in ("", direction):
        meant = next(given for given, way in DIRECTIONS.items() if way == better)
        reason = (
            f"of {excerpt(unit)}, the other direction is usually better: give --format {meant} or, if it is not "
            "better here, records of your own"
        )
        raise InvalidResultError(reason, f"{path}.unit")
    about = {**facts({key: result.get(key) for key in ("range", "extra")}), "direction": direction}
    if unit in MILLISECONDS:
        metric = Metric(TIME, [value * MILLISECONDS[unit]], about)
    else:
        metric = Metric(f"value({unit})" if unit else "value", [value], about)
    return ImportedCase(path, entry, name, [metric])


def _action_unit(value: object, path: str) -> str:
    if not isinstance(value, str) or len(value) > _MAX_UNIT_LENGTH:
        raise InvalidResultError(f"is not a unit of at most {_MAX_UNIT_LENGTH} characters", f"{path}.unit")
    return value.strip()


def _better(unit: str) -> str:
    """Return the better direction of times, as in ``ns/iter``, and of what is per time; empty for anything else."""
    amount, _, per = unit.partition("/")
    if amount in MILLISECONDS:
        return DOWN
    return UP if per in MILLISECONDS else ""
