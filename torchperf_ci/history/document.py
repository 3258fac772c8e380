"""What ``torchperf history --json`` prints."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchperf_ci.history.found import Change, MachineChange, Newest, Past
    from torchperf_ci.series.series import Point


def document(pasts: Iterable[Past]) -> list[dict[str, Any]]:
    """One element a series; what is not known is left out, a ratio that does not exist is null."""
    return [
        {
            **({"file": str(past.name)} if isinstance(past.name, Path) else {"series": asdict(past.name)}),
            "n": past.n,
            "change_points": [_change(change) for change in past.changes],
            "machine_changes": [_machine(change) for change in past.machines],
            **({"newest": _newest(past.newest)} if past.newest else {}),
        }
        for past in pasts
    ]


def _change(change: Change) -> dict[str, Any]:
    effect = change.effect
    return {
        "index": change.index,
        "ratio": effect.ratio if effect else None,
        "low": effect.low if effect else None,
        "high": effect.high if effect else None,
        "verdict": change.word,
        "old": change.old,
        "new": change.new,
        **_named(change.first),
        "last_old": _named(change.last),
        **({"recovered": _named(change.recovered)} if change.recovered else {}),
    }


def _newest(newest: Newest) -> dict[str, Any]:
    return {"runs": newest.runs, **({"ratio": newest.effect.ratio} if newest.effect else {})}


def _machine(change: MachineChange) -> dict[str, Any]:
    return {"index": change.index, **_named(change.first), "differs": list(change.differs)}


def _named(point: Point) -> dict[str, Any]:
    named = {"timestamp": point.timestamp, "commit": point.commit, "torch": point.info.get("torch", "")}
    if not point.timestamp and not point.commit:
        named["run"] = point.run
    return {name: value for name, value in named.items() if value}
