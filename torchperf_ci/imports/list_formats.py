"""The formats of tools whose files are a list of results, one class for each tool."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from torchperf_ci.imports.imported_case import (
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

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


class PytestBenchmark:
    """pytest-benchmark's JSON from ``--benchmark-json``, ``--benchmark-autosave`` and ``--benchmark-save``.

    Times are in seconds per iteration. Without ``--benchmark-save-data`` a saved file has only statistics of the
    rounds; the median is then the only value.
    """

    @staticmethod
    def recognises(value: object) -> bool:
        """Whether a JSON document is a file of pytest-benchmark."""
        return isinstance(value, dict) and {"benchmarks", "machine_info"} <= value.keys()

    @staticmethod
    def read(value: Mapping[str, object]) -> ImportedFile:
        """Return the cases of a file. Raises :class:`InvalidResultError`."""
        listed = items(value["benchmarks"], "a list of benchmarks", "$.benchmarks")
        info = members(value["machine_info"], "a description of the machine", "$.machine_info")
        commit = value.get("commit_info")
        told = commit if isinstance(commit, dict) else {}
        stamp = commit_stamp(told.get("id"), told.get("branch"), unix_seconds(value.get("datetime")))
        about = {"dirty": "true"} if told.get("dirty") is True else {}
        return ImportedFile(
            "pytest-benchmark", cases_of(listed, "$.benchmarks", partial(_pytest_case, info, about)), stamp
        )


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
    return " ".join(filter(None, [*facts({"name": info.get("python_implementation")}).values(), version]))[
        :100
    ]


def _pytest_machine(info: Mapping[str, object]) -> dict[str, object]:
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


_OF_ROUNDS = re.compile(r"[0-2]\.|3\.[01]\.")
"""Versions of pytest-codspeed that wrote the time of a round, which may have several iterations."""


class CodSpeed:
    """CodSpeed's walltime results: ``.codspeed/results_*.json`` of pytest-codspeed and CodSpeed's other plugins.

    They contain statistics of the rounds in nanoseconds, but not the rounds, so the median is the only value.
    """

    @staticmethod
    def recognises(value: object) -> bool:
        """Whether a JSON document is a file of CodSpeed."""
        return isinstance(value, dict) and {"creator", "instrument", "benchmarks"} <= value.keys()

    @staticmethod
    def read(value: Mapping[str, object]) -> ImportedFile:
        """Return the cases of a file. Raises :class:`InvalidResultError`."""
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


class Hyperfine:
    """hyperfine's ``--export-json``, which has the seconds of every run of every command.

    A command with an exit code other than 0, which hyperfine only accepts with ``--ignore-failure``, counts as failed,
    because its time is not meaningful: a command that breaks early is fast.
    """

    @staticmethod
    def recognises(value: object) -> bool:
        """Whether a JSON document is a file of hyperfine."""
        if not isinstance(value, dict) or not isinstance(value.get("results"), list):
            return False
        return any(
            isinstance(entry, dict) and {"command", "mean"} <= entry.keys() for entry in value["results"]
        )

    @staticmethod
    def read(value: Mapping[str, object]) -> ImportedFile:
        """Return the cases of a file. Raises :class:`InvalidResultError`."""
        return ImportedFile(
            "hyperfine",
            cases_of(items(value["results"], "a list of results", "$.results"), "$.results", _hyperfine_case),
        )


def _hyperfine_case(entry: object, path: str) -> ImportedCase:
    result = members(entry, "the result of a command", path)
    name = name_of(result.get("command"), f"{path}.command")
    given = parameters(result.get("parameters"))
    return ImportedCase(path, entry, name, list(_hyperfine_metrics(result, path)), about=given)


def _hyperfine_metrics(result: Mapping[str, object], path: str) -> Iterator[Metric]:
    codes = items(result.get("exit_codes") or [], "a list of exit codes", f"{path}.exit_codes")
    bad = next((code for code in codes if code != 0), 0)
    if bad != 0:
        yield status("it was killed by a signal" if bad is None else f"it ended with exit code {bad}")
        return
    about = {f"{name}_seconds": result.get(name) for name in ("user", "system")}
    yield Metric(TIME, numbers(result.get("times"), f"{path}.times", 1e3), facts(about))
    yield status()


_TORCH_MEMBERS = {"number_per_run", "raw_times", "task_spec"}


class TorchBenchmark:
    """``torch.utils.benchmark``: JSON of one ``Measurement`` or a list, from ``dataclasses.asdict``.

    The library's own file format is a pickle, which is not supported, because loading one can run arbitrary code.
    """

    @staticmethod
    def recognises(value: object) -> bool:
        """Whether a JSON document is such a measurement or a list with some."""
        listed = value if isinstance(value, list) else [value]
        return any(isinstance(entry, dict) and entry.keys() >= _TORCH_MEMBERS for entry in listed)

    @staticmethod
    def read(value: object) -> ImportedFile:
        """Return the cases of a file. Several measurements of one task, as of ``Timer.repeat``, become one case."""
        listed = value if isinstance(value, list) else [value]
        paths = [f"$[{index}]" for index in range(len(listed))] if isinstance(value, list) else ["$"]
        return ImportedFile("torch.utils.benchmark", _torch_cases(dict(zip(paths, listed, strict=True))))


def _torch_cases(entries: Mapping[str, object]) -> Iterator[ImportedCase | InvalidResult]:
    cases: dict[tuple[str, str], ImportedCase] = {}
    for path, entry in entries.items():
        try:
            case = _torch_case(entry, path)
        except InvalidResultError as error:
            yield InvalidResult(error.path or path, entry, str(error))
            continue
        key = case.name, case.backend
        if key in cases:
            (before,), (again,) = cases[key].metrics, case.metrics
            together = replace(before, values=[*before.values, *again.values])
            cases[key] = replace(cases[key], metrics=[together])
        else:
            cases[key] = case
    yield from cases.values()


def _torch_case(entry: object, path: str) -> ImportedCase:
    result = members(entry, "a measurement", path)
    task = members(result.get("task_spec"), "the task of a measurement", f"{path}.task_spec")
    runs = number(result.get("number_per_run"), f"{path}.number_per_run")
    if runs < 1:
        reason = "is not a number of runs"
        raise InvalidResultError(reason, f"{path}.number_per_run")
    times = numbers(result.get("raw_times"), f"{path}.raw_times", 1e3 / runs)
    about = facts({"number_per_run": runs, "stmt": task.get("stmt"), "num_threads": task.get("num_threads")})
    name = name_of(_torch_name(task), f"{path}.task_spec.label")
    backend = facts({"description": task.get("description")}).get("description", "")
    return ImportedCase(path, entry, name, [Metric(TIME, times)], backend, about)


def _torch_name(task: Mapping[str, object]) -> str:
    """Return the name like ``Measurement.title``, extended by what else distinguishes two tasks."""
    threads = task.get("num_threads") or 1
    title = ": ".join(
        str(part) for part in (task.get("label") or task.get("stmt"), task.get("sub_label")) if part
    )
    return ", ".join(
        filter(None, [title, str(task.get("env") or ""), f"{threads} threads" if threads != 1 else ""])
    )


DIRECTIONS = {"customSmallerIsBetter": DOWN, "customBiggerIsBetter": UP}
_ACTION_MEMBERS = {"name", "unit", "value"}
_LONGEST_UNIT = 40


class GitHubActionBenchmark:
    """github-action-benchmark's custom formats, ``customSmallerIsBetter`` and ``customBiggerIsBetter``.

    Both are lists of ``{"name", "unit", "value"}`` and look the same, so the user must say which one a file is.
    """

    @staticmethod
    def recognises(value: object) -> bool:
        """Whether a JSON document is a file in one of these formats."""
        if not isinstance(value, list):
            return False
        objects = [entry for entry in value if isinstance(entry, dict)]
        return any(entry.keys() >= _ACTION_MEMBERS for entry in objects) and not any(
            "metric" in entry for entry in objects
        )

    @staticmethod
    def read(value: Sequence[object], given: str) -> ImportedFile:
        """Return the cases of a file in the format ``given``. Raises :class:`InvalidResultError` if that is empty."""
        if given not in DIRECTIONS:
            reason = (
                "looks like the input of github-action-benchmark, which does not say whether smaller or bigger is "
                f"better; give --format {' or --format '.join(DIRECTIONS)}"
            )
            raise InvalidResultError(reason)
        return ImportedFile(
            "github-action-benchmark", cases_of(value, "$", partial(_action_case, DIRECTIONS[given]))
        )


def _action_case(direction: str, entry: object, path: str) -> ImportedCase:
    result = members(entry, "a result", path)
    name = name_of(result.get("name"), f"{path}.name")
    value, unit = number(result.get("value"), f"{path}.value"), _action_unit(result.get("unit"), path)
    about = {**facts({key: result.get(key) for key in ("range", "extra")}), "direction": direction}
    if direction == DOWN and unit in MILLISECONDS:
        metric = Metric(TIME, [value * MILLISECONDS[unit]], about)
    else:
        metric = Metric(f"value({unit})" if unit else "value", [value], about)
    return ImportedCase(path, entry, name, [metric])


def _action_unit(value: object, path: str) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST_UNIT:
        reason = f"is not a unit of at most {_LONGEST_UNIT} characters"
        raise InvalidResultError(reason, f"{path}.unit")
    return value.strip()
