"""Read Google Benchmark's JSON (``--benchmark_format=json`` or ``--benchmark_out``).

Repetitions are separate entries with the same ``run_name`` and indices. Aggregates are used only if there are no
repetitions, as with ``--benchmark_report_aggregates_only``: the median, or else the mean, is then the only value.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from torchperf_ci.imports import imported_case
from torchperf_ci.metrics import UP
from torchperf_ci.records.record import Metric

TOOL = "google-benchmark"
_CPU_TIME = "cpu_time(ms)"
_AGGREGATES = ("median", "mean")
_OLD_AGGREGATE = re.compile(r"(.+)_(mean|median|stddev)", re.DOTALL)
"""The name of an aggregate before Google Benchmark 1.5, which wrote neither ``run_type`` nor ``run_name``."""
_RATES = ("items_per_second", "bytes_per_second")
"""Built-in counters of Google Benchmark, for which larger is better."""
_INDICES = ("family_index", "per_family_instance_index")
"""What distinguishes two benchmarks of the same name; old versions do not write it."""
_NO_COUNTERS = frozenset(
    {
        *(*_INDICES, "repetitions", "repetition_index", "threads"),
        *("iterations", "real_time", "cpu_time", "time_unit", "name", "run_name", "run_type", "label"),
        *("aggregate_name", "aggregate_unit", "error_occurred", "error_message", "skipped", "skip_message"),
    }
)


def read_google_benchmark(value: Mapping[str, object]) -> imported_case.ImportedFile:
    """Return the cases of a file. Raises :class:`InvalidResultError`."""
    context = imported_case.members(value["context"], "a context", "$.context")
    listed = imported_case.items(value["benchmarks"], "a list of benchmarks", "$.benchmarks")
    seconds = imported_case.unix_seconds(context.get("date"))
    names = ("num_cpus", "mhz_per_cpu", "cpu_scaling_enabled", "library_version", "library_build_type")
    about = imported_case.facts({name: context.get(name) for name in names})
    return imported_case.ImportedFile(TOOL, _cases(listed, about), {"timestamp": seconds} if seconds else {})


def _cases(
    listed: Sequence[object], about: Mapping[str, object]
) -> Iterator[imported_case.ImportedCase | imported_case.InvalidResult]:
    entries: dict[tuple[str, str, str], dict[str, Mapping[str, object]]] = defaultdict(dict)
    names = {str(entry.get("name")) for entry in listed if isinstance(entry, dict)}
    for index, entry in enumerate(listed):
        path = f"$.benchmarks[{index}]"
        try:
            result = imported_case.members(entry, "a benchmark", path)
            name = imported_case.name_of(result.get("run_name") or result.get("name"), f"{path}.name")
            old = _OLD_AGGREGATE.fullmatch(name)
            if old and "run_type" not in result and names >= {f"{old[1]}_mean", f"{old[1]}_stddev"}:
                name, result = old[1], {**result, "run_type": "aggregate", "aggregate_name": old[2]}
            family, instance = (str(result.get(index)) for index in _INDICES)
            entries[name, family, instance][path] = result
        except imported_case.InvalidResultError as error:
            yield imported_case.InvalidResult(error.path or path, entry, str(error))
    for (name, *_), runs in entries.items():
        first = next(iter(runs))
        try:
            metrics = list(_metrics(_measured(runs)))
            if metrics:
                label = imported_case.facts({"label": runs[first].get("label")})
                yield imported_case.ImportedCase(
                    first, [*runs.values()], name, metrics, about={**about, **label}
                )
        except imported_case.InvalidResultError as error:
            yield imported_case.InvalidResult(error.path or first, [*runs.values()], str(error))


def _measured(runs: Mapping[str, Mapping[str, object]]) -> Mapping[str, Mapping[str, object]]:
    """Return the repetitions or, if there are none, the best aggregate."""
    own = {path: run for path, run in runs.items() if run.get("run_type", "iteration") == "iteration"}
    if own:
        return own
    named = {str(run.get("aggregate_name")): {path: run} for path, run in runs.items()}
    return next((named[name] for name in _AGGREGATES if name in named), {})


def _metrics(runs: Mapping[str, Mapping[str, object]]) -> Iterator[Metric]:
    for run in runs.values():
        skipped = run.get("skipped") is True and not run.get("error_occurred")
        if skipped or run.get("error_occurred"):
            why = str(run.get("error_message") or run.get("skip_message") or "it says no reason")
            yield imported_case.status(why, "skipped" if skipped else "failed")
            return
    values: dict[str, list[float]] = defaultdict(list)
    for path, run in runs.items():
        unit = run.get("time_unit")
        if not isinstance(unit, str) or unit not in imported_case.MILLISECONDS:
            raise imported_case.InvalidResultError("is not a unit of time", f"{path}.time_unit")
        for metric, member in ((imported_case.TIME, "real_time"), (_CPU_TIME, "cpu_time")):
            values[metric].append(
                imported_case.number(run.get(member), f"{path}.{member}") * imported_case.MILLISECONDS[unit]
            )
        for counter, value in run.items():
            is_left_out = isinstance(value, str) or (isinstance(value, float) and not math.isfinite(value))
            if counter not in _NO_COUNTERS and not is_left_out:
                values[imported_case.name_of(counter, path)].append(
                    imported_case.number(value, f"{path}.{counter}")
                )
    for metric, found in values.items():
        yield Metric(metric, found, {"direction": UP} if metric in _RATES else {})
    if runs:
        yield imported_case.status()
