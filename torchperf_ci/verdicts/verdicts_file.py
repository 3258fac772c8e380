"""Write and read ``verdicts.json``, whose schema is ``verdicts.schema.json``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchperf_ci import json_files
from torchperf_ci.errors import VerdictsError
from torchperf_ci.json_files import effect_of
from torchperf_ci.series.points import Series
from torchperf_ci.verdicts.evidence import evidence_of
from torchperf_ci.verdicts.verdict import Judgement, RepeatOptions, SuiteMean, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION = 1
SIZE_LIMIT = 64 * 2**20
"""Bytes of a file that is read; 10,000 series with their evidence take less than 10 MiB."""

_FORMAT = json_files.JsonFormat(Path(__file__).with_name("verdicts.schema.json"), VERSION, VerdictsError)


def write_verdicts(path: Path, judgement: Judgement) -> None:
    """Write ``judgement`` to ``path``, whole or not at all, and make the directories that it lacks.

    Raises :class:`VerdictsError` where the directory cannot be made, :class:`OutputDirectoryError` for the file.
    """
    _FORMAT.write(path, verdicts_json(judgement))


def verdicts_json(judgement: Judgement) -> str:
    """The whole file: JSON with one verdict a line. A number that is not finite becomes null."""
    members = {"version": VERSION, **vars(judgement)}
    verdicts = [
        {**vars(verdict), "evidence": verdict.evidence.members} for verdict in members.pop("verdicts")
    ]
    return json_files.json_text({**members, "verdicts": verdicts})  # the longest comes last


def read_verdicts(path: Path) -> Judgement:
    """Read and check a file. Raises :class:`VerdictsError`, which says where in the file and what is wrong."""
    members = _FORMAT.read(path, SIZE_LIMIT)
    return Judgement(
        command=members.get("command", ""),
        base=members.get("base", ""),
        head=members.get("head", ""),
        verdicts=[_verdict(item) for item in members["verdicts"]],
        suites=[
            SuiteMean(item["metric"], effect_of(item["effect"]), item["series"])
            for item in members.get("suites", [])
        ],
        notes=list(members.get("notes", [])),
        again=_again(members.get("again")),
    )


def verdicts_schema() -> Mapping[str, Any]:
    """The JSON Schema of the file, as published in ``verdicts.schema.json``."""
    return _FORMAT.schema


def _again(item: Mapping[str, Any] | None) -> RepeatOptions | None:
    return RepeatOptions(**{**item, "options": tuple(item.get("options", ()))}) if item else None


def _verdict(item: Mapping[str, Any]) -> Verdict:
    series = Series(**{name: item["series"][name] for name in Series.__dataclass_fields__})
    effect = item.get("effect")
    numbers = {name: item.get(name) for name in ("old", "new", "noise", "detectable")}
    return Verdict(
        series,
        item["verdict"],
        item["why"],
        effect=effect_of(effect) if effect else None,
        candidate=item.get("candidate", False),
        evidence=evidence_of(item.get("evidence", {})),
        **numbers,
    )
