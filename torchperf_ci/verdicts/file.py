"""Write and read ``verdicts.json``, whose schema is ``verdicts.schema.json``.

A file that is read may come from anywhere, also from a pull request of a stranger: nothing in it is believed before it
has been checked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import lru_cache
from math import inf, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchperf_ci.errors import VerdictsError
from torchperf_ci.records.files import replace_file
from torchperf_ci.series.series import Series
from torchperf_ci.stats.effect import Effect
from torchperf_ci.verdicts.verdict import Judgement, Suite, Verdict

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

VERSION = 1
SIZE_LIMIT = 64 * 2**20
"""Bytes of a file that is read; 10,000 series with their evidence take less than 10 MiB."""

_SCHEMA_FILE = Path(__file__).with_name("verdicts.schema.json")


def write(path: Path, judgement: Judgement) -> None:
    """Write ``judgement`` to ``path``, whole or not at all, and make the directories that it lacks.

    Raises :class:`VerdictsError` where the directory cannot be made, :class:`OutputDirectoryError` for the file.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"{path}: its directory cannot be made: {error.strerror}"
        raise VerdictsError(msg) from error
    replace_file(path, text_of(judgement))


def text_of(judgement: Judgement) -> str:
    """The whole file: JSON with one verdict a line. A number that is not finite becomes null."""
    members = _plain({"version": VERSION, **vars(judgement)})
    lines = ",\n".join(f"  {_line(verdict)}" for verdict in members.pop("verdicts"))
    head = "".join(f" {_line(name)}: {_line(value)},\n" for name, value in members.items())
    verdicts = f"[\n{lines}\n ]" if lines else "[]"
    # A name that came from a file system may hold what is no Unicode.
    text = f'{{\n{head} "verdicts": {verdicts}\n}}\n'
    return text.encode("utf-8", "replace").decode("utf-8")


def read(path: Path) -> Judgement:
    """Read and check a file. Raises :class:`VerdictsError`, which says where in the file and what is wrong."""
    members = _parsed(path)
    version = members.get("version") if isinstance(members, dict) else None
    if isinstance(version, int) and version > VERSION:
        msg = f"{path}: version {version} is newer than this torchperf, which reads {VERSION}: install a newer one"
        raise VerdictsError(msg)
    for error in _validator().iter_errors(members):
        msg = f"{path}: {error.json_path}: {error.message[:200]}"
        raise VerdictsError(msg)
    return Judgement(
        command=members.get("command", ""),
        base=members.get("base", ""),
        head=members.get("head", ""),
        verdicts=[_verdict(item) for item in members["verdicts"]],
        suites=[
            Suite(item["metric"], _effect(item["effect"]), item["series"])
            for item in members.get("suites", [])
        ],
        notes=list(members.get("notes", [])),
    )


@lru_cache(maxsize=1)
def schema() -> Mapping[str, Any]:
    """The JSON Schema of the file, as published in ``verdicts.schema.json``."""
    loaded: Mapping[str, Any] = json.loads(_SCHEMA_FILE.read_text(encoding="utf-8"))
    return loaded


def _plain(value: Any) -> Any:
    """``value`` in JSON's own types, with null in place of every number that JSON cannot hold."""
    if isinstance(value, Effect):
        return _plain({**vars(value), "low": value.low or None})  # a ratio is open below at 0
    if is_dataclass(value):
        return _plain(vars(value))
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _parsed(path: Path) -> Any:
    try:
        content = path.read_bytes() if path.stat().st_size <= SIZE_LIMIT else None
    except OSError as error:
        msg = f"{path}: cannot be read: {error.strerror}"
        raise VerdictsError(msg) from error
    if content is None:
        msg = f"{path}: is larger than {SIZE_LIMIT // 2**20} MiB"
        raise VerdictsError(msg)
    try:
        members = json.loads(content, parse_constant=_finite, parse_float=_finite, parse_int=_whole)
        json.dumps(members, ensure_ascii=False).encode()  # half a surrogate pair is no text
    except (ValueError, RecursionError) as error:
        msg = f"{path}: is no JSON that can be used: {str(error)[:200] or 'it is nested too deeply'}"
        raise VerdictsError(msg) from error
    return members


def _finite(literal: str) -> float:
    if not isfinite(number := float(literal)):
        msg = f"{literal[:20]} is no finite number"
        raise ValueError(msg)
    return number


def _whole(literal: str) -> int:
    _finite(literal)
    return int(literal)


def _verdict(item: Mapping[str, Any]) -> Verdict:
    series = Series(**{name: item["series"][name] for name in Series.__dataclass_fields__})
    effect = item.get("effect")
    numbers = {name: item.get(name) for name in ("old", "new", "noise", "detectable")}
    return Verdict(
        series,
        item["verdict"],
        item["why"],
        effect=_effect(effect) if effect else None,
        candidate=item.get("candidate", False),
        evidence=item.get("evidence", {}),
        **numbers,
    )


def _effect(item: Mapping[str, Any]) -> Effect:
    high = item["high"]
    return Effect(item["ratio"], item["low"] or 0.0, inf if high is None else high, item.get("pairs", 0))


@lru_cache(maxsize=1)
def _validator() -> Validator:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(schema())
