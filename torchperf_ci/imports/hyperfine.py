"""Read hyperfine's ``--export-json``, which has the seconds of every run of every command.

A command with an exit code other than 0, which hyperfine only accepts with ``--ignore-failure``, counts as failed,
because its time is not meaningful: a command that breaks early is fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_ci.imports.imported_case import (
    TIME,
    ImportedCase,
    ImportedFile,
    cases_of,
    facts,
    items,
    members,
    name_of,
    numbers,
    parameters,
    status,
)
from torchperf_ci.records.record import Metric

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

TOOL = "hyperfine"


def recognises(value: object) -> bool:
    """Whether a JSON document is a file of hyperfine."""
    if not isinstance(value, dict) or not isinstance(value.get("results"), list):
        return False
    return any(isinstance(entry, dict) and {"command", "mean"} <= entry.keys() for entry in value["results"])


def read(value: Mapping[str, object]) -> ImportedFile:
    """Return the cases of a file. Raises :class:`UnfitResultError`."""
    return ImportedFile(
        TOOL, cases_of(items(value["results"], "a list of results", "$.results"), "$.results", _case)
    )


def _case(entry: object, path: str) -> ImportedCase:
    result = members(entry, "the result of a command", path)
    name = name_of(result.get("command"), f"{path}.command")
    given = parameters(result.get("parameters"))
    return ImportedCase(path, entry, name, list(_metrics(result, path)), about=given)


def _metrics(result: Mapping[str, object], path: str) -> Iterator[Metric]:
    codes = items(result.get("exit_codes") or [], "a list of exit codes", f"{path}.exit_codes")
    bad = next((code for code in codes if code != 0), 0)
    if bad != 0:
        yield status("it was killed by a signal" if bad is None else f"it ended with exit code {bad}")
        return
    about = {f"{name}_seconds": result.get(name) for name in ("user", "system")}
    yield Metric(TIME, numbers(result.get("times"), f"{path}.times", 1e3), facts(about))
    yield status()
