"""Build v3 records from typed parts, and write them to a file.

The parts are those of the table ``benchmark.oss_ci_benchmark_v3``. Parts that are not given are left out, and the
database fills in its default. Every ``extra_info`` is a ``Map(String, String)`` there, so its values are converted
to strings here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torchperf_ci.records.files import replace_file

ExtraInfo = Mapping[str, object]


def parsed_json(text: str | bytes, otherwise: object = None) -> Any:
    """Return the value of a text that may not be JSON; ``otherwise`` if it is not."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return otherwise


@dataclass(frozen=True)
class Benchmark:
    """The benchmark, its mode (``inference`` or ``training``) and dtype."""

    name: str
    mode: str = ""
    dtype: str = ""
    extra_info: ExtraInfo = field(default_factory=dict)


@dataclass(frozen=True)
class Model:
    """The model that was run. ``origins`` are the collections it comes from, such as ``torchbench``."""

    name: str
    type: str = ""
    backend: str = ""
    origins: Sequence[str] = ()
    extra_info: ExtraInfo = field(default_factory=dict)


@dataclass(frozen=True)
class Metric:
    """The metric that was measured; its name ends with the unit in parentheses, as in ``latency(ms)``.

    ``values`` are finite numbers, one per repetition.
    """

    name: str
    values: Sequence[float]
    extra_info: ExtraInfo = field(default_factory=dict)


@dataclass(frozen=True)
class Dependency:
    """One library that the result depends on."""

    repo: str = ""
    sha: str = ""
    version: str = ""


def build_record(
    *,
    benchmark: Benchmark,
    model: Model,
    metric: Metric,
    dependencies: Mapping[str, Dependency] | None = None,
    runners: Sequence[Mapping[str, object]] | None = None,
) -> dict[str, object]:
    """Return the v3 record of one metric of one model, ready for :func:`torchperf_ci.records.record.write_records`.

    ``runners=None`` leaves the key out, and the uploader describes the machine; an empty sequence is kept and means
    that there is no machine to describe.
    """
    built: dict[str, object] = {
        "benchmark": _part(benchmark),
        "model": _part(model),
        "metric": _metric(metric),
    }
    if dependencies:
        built["dependencies"] = {name: _part(value) for name, value in dependencies.items()}
    if runners is not None:
        built["runners"] = [_runner(runner) for runner in runners]
    return built


def extra_info_strings(extra_info: ExtraInfo) -> dict[str, str]:
    """Return ``extra_info`` as the database stores it: every value a string, nested ones as compact JSON.

    A value of ``None`` is left out, since the database reads an absent key as the empty string.
    """
    return {utf8_text(key): _string(value) for key, value in extra_info.items() if value is not None}


def _part(part: Benchmark | Model | Dependency) -> dict[str, object]:
    """Return the nonempty members; to the database an absent member and an empty one are the same."""
    return {key: _member(value) for key, value in vars(part).items() if value}


def _member(value: Any) -> Any:
    if isinstance(value, Mapping):
        return extra_info_strings(value)
    return value if isinstance(value, str) else list(value)


def _metric(metric: Metric) -> dict[str, object]:
    values = [_number(value) for value in metric.values]
    built: dict[str, object] = {"name": metric.name, "benchmark_values": values}
    if metric.extra_info:
        built["extra_info"] = extra_info_strings(metric.extra_info)
    return built


def _runner(runner: Mapping[str, object]) -> dict[str, object]:
    return {key: _member(value) if isinstance(value, Mapping) else value for key, value in runner.items()}


def _number(value: float) -> float:
    """Convert numbers of other libraries (NumPy, torch) to Python's, which JSON can hold."""
    return value if isinstance(value, int) else float(value)


def _string(value: object) -> str:
    return utf8_text(value) if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def utf8_text(text: str) -> str:
    """Escape lone surrogates, which UTF-8 cannot encode: Python decodes invalid bytes of a process's output to them."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


SYNTHETIC = "torchperf_job_id"
"""Key in ``benchmark.extra_info``: the value ``synthetic`` means that ``job_id`` was not assigned by GitHub."""
SYNTHETIC_FROM = 2**52
"""Synthetic ids lie from here to 2**53: exact in JavaScript, and far above any id of GitHub's."""


def synthetic_id(*parts: str) -> int:
    """Return an id for what has none at GitHub: always the same for the same ``parts``, and never one of GitHub's."""
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).digest()
    return SYNTHETIC_FROM + int.from_bytes(digest[:8], "big") % SYNTHETIC_FROM


def write_records(path: Path, records: Iterable[Mapping[str, object]]) -> None:
    """Write ``records`` to ``path`` atomically.

    Raises ``ValueError`` for a non-finite number, which is the caller's mistake, and :class:`OutputDirectoryError` if
    the file cannot be written.
    """
    lines = [json.dumps(record, ensure_ascii=False, allow_nan=False) for record in records]
    replace_file(path, "[\n" + ",\n".join(lines) + "\n]\n" if lines else "[]\n")
