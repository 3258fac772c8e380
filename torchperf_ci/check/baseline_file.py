"""The file of baselines, whose schema is ``baseline.schema.json``: one series a line, so that a diff can be read."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchperf_ci.check.baseline import Baseline, Provenance, Row
from torchperf_ci.errors import UsageError
from torchperf_ci.records.files import read_regular, replace_file
from torchperf_ci.series.series import Series

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jsonschema.protocols import Validator

VERSION = 1
SIZE_LIMIT = 64 * 2**20
"""Bytes of a file that is read."""

_SCHEMA_FILE = Path(__file__).with_name("baseline.schema.json")


def read(path: Path) -> list[Baseline]:
    """The baselines of a file. Raises :class:`UsageError` where it cannot be read, or is no such file."""
    try:
        content = json.loads(read_regular(path, SIZE_LIMIT))
    except OSError as error:
        msg = f"{path}: the baseline cannot be read: {error.strerror}"
        raise UsageError(msg) from error
    except (ValueError, RecursionError) as error:
        msg = f"{path}: is no baseline: it is not JSON ({str(error)[:200]})"
        raise UsageError(msg) from error
    for fault in _validator().iter_errors(content):
        msg = f"{path}: is no baseline: {fault.json_path}: {fault.message[:200]}"
        raise UsageError(msg)
    return [_baseline(item) for item in content["baselines"]]


def write(path: Path, baselines: Iterable[Baseline]) -> None:
    """Write the file, whole or not at all. Raises :class:`OutputDirectoryError`."""
    body = ",\n".join(_text(one) for one in baselines)
    replace_file(path, f'{{\n "version": {VERSION},\n "baselines": [\n{body}\n ]\n}}\n')


@lru_cache(maxsize=1)
def schema() -> Mapping[str, Any]:
    """The JSON Schema of the file."""
    loaded: Mapping[str, Any] = json.loads(_SCHEMA_FILE.read_text(encoding="utf-8"))
    return loaded


def _text(one: Baseline) -> str:
    head = {
        "fingerprint": one.digest,
        "commit": one.commit,
        "torch": one.torch,
        "runs": one.runs,
        **asdict(one.provenance),
    }
    machine = {"machine": dict(sorted(one.machine.items()))}
    series = ",\n".join(f"    {_line(_as_json(row))}" for row in one.rows)
    members = "".join(f"   {_line(name)}: {_line(value)},\n" for name, value in (head | machine).items())
    return f'  {{\n{members}   "series": [\n{series}\n   ]\n  }}'


def _as_json(row: Row) -> dict[str, Any]:
    return {
        **asdict(row.series),
        **({"facts": dict(row.facts)} if row.facts else {}),
        "values": list(row.values),
    }


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _baseline(item: Mapping[str, Any]) -> Baseline:
    provenance = Provenance(**{name: item[name] for name in Provenance.__dataclass_fields__})
    return Baseline(
        item["machine"], item["commit"], item["torch"], provenance, [_row(row) for row in item["series"]]
    )


def _row(item: Mapping[str, Any]) -> Row:
    series = Series(**{name: item[name] for name in Series.__dataclass_fields__})
    return Row(series, item.get("facts", {}), [float(value) for value in item["values"]])


@lru_cache(maxsize=1)
def _validator() -> Validator:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(schema())
