"""The output of ``torchperf history``: a document for people, and JSON for programs."""

from __future__ import annotations

import datetime
from collections import Counter
from dataclasses import asdict
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from torchperf_ci.document import Column, Document, Highlighted, Note, Table, counted, short
from torchperf_ci.series.level_changes import SETTLED_RUNS
from torchperf_ci.series.outcomes import outcome_word
from torchperf_ci.stats.split_evidence import FEWEST
from torchperf_ci.verdicts.verdict_document import case_text, effect_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from torchperf_ci.document import Words
    from torchperf_ci.series.level_changes import (
        ChangeWord,
        LevelChange,
        MachineChange,
        NewestRuns,
        SeriesHistory,
        SeriesName,
    )
    from torchperf_ci.series.points import Point


_COLUMNS = (
    Column("when"),
    Column("verdict"),
    Column("series"),
    Column("metric"),
    Column("old → new", "number"),
    Column("change (95%)", "number"),
    Column("commits"),
    Column("since then"),
)
_NAME_LENGTH = 120
_TONES: Mapping[ChangeWord, Literal["bad", "warning", "good"]] = {
    "regressed": "bad",
    "improved": "good",
    "changed": "warning",
}
_WORDS: Mapping[ChangeWord, str] = {
    "regressed": "regressed",
    "improved": "improved",
    "changed": "of unknown direction",
}


def history_document(histories: Sequence[SeriesHistory]) -> Document:
    """Return the level changes, newest first, then machine changes and newest runs that may become a level."""
    changes = [(history.name, change) for history in histories for change in history.changes]
    changes.sort(key=lambda item: (-item[1].first.timestamp, -_size(item[1])))
    too_new = [_too_new(history.name, history.newest) for history in histories if history.newest]
    return Document(
        history_headline(histories),
        [
            Table(_COLUMNS, [_change_row(name, change) for name, change in changes]),
            Note(_machine_lines(histories)),
            Note(too_new),
        ],
    )


def history_headline(histories: Sequence[SeriesHistory]) -> str:
    """Summarize all changes in one sentence."""
    changes = [change for history in histories for change in history.changes]
    counts = Counter(change.word for change in changes)
    words = ", ".join(f"{counts[word]} {text}" for word, text in _WORDS.items() if counts[word])
    recovered = sum(change.recovered is not None for change in changes)
    changed = sum(bool(history.changes) for history in histories)
    return (
        f"{counted(len(changes), 'change')} in {changed} of {len(histories)} series"
        f"{f': {words}' if words else ''}"
        f"{f'; {recovered} of the regressions recovered since' if recovered else ''}"
    )


def _size(change: LevelChange) -> float:
    """Return the size of a change for sorting; changes without a ratio (outcomes, counts from zero) come first."""
    return abs(log(change.effect.ratio)) if change.effect else float("inf")


def _change_row(name: SeriesName, change: LevelChange) -> tuple[Words, ...]:
    is_file = isinstance(name, Path)
    run = f" ({change.first.run})" if is_file and change.first.run else ""
    return (
        _day(change.first) or f"point {change.index}{run}",
        Highlighted(change.word, _TONES[change.word]),
        str(name) if isinstance(name, Path) else case_text(name),
        "" if isinstance(name, Path) else short(name.metric, _NAME_LENGTH),
        _levels(change),
        effect_text(change.effect) if change.effect else "",
        _commits(change),
        f"recovered {_day(change.recovered)}".rstrip() if change.recovered else "",
    )


def _levels(change: LevelChange) -> str:
    if change.is_outcome:
        return f"{outcome_word(change.last)} → {outcome_word(change.first)}"
    return f"{change.old:.5g} → {change.new:.5g}"


def _commits(change: LevelChange) -> str:
    return "..".join(commit[:10] for commit in change.commits) if any(change.commits) else ""


def _day(point: Point) -> str:
    if not point.timestamp:
        return ""
    return f"{datetime.datetime.fromtimestamp(point.timestamp, datetime.timezone.utc):%Y-%m-%d}"


def _machine_lines(histories: Iterable[SeriesHistory]) -> list[str]:
    """Return one line for all series that had the same machine change on the same day."""
    counts = Counter(
        (_day(change.first), "; ".join(change.differs))
        for history in histories
        for change in history.machines
    )
    return [
        f"{day or 'once'}: machine changed, so nothing is compared across it in {count} series: {differs}"
        for (day, differs), count in sorted(counts.items(), reverse=True)
    ]


def _too_new(name: SeriesName, newest: NewestRuns) -> str:
    """Explain why ``check`` may be red although no change is listed."""
    series = str(name) if isinstance(name, Path) else f"{case_text(name)} {short(name.metric, _NAME_LENGTH)}"
    runs = "run differs" if newest.runs == 1 else f"{newest.runs} runs differ"
    by, fewest = (f" by {effect_text(newest.effect)}", FEWEST) if newest.effect else ("", SETTLED_RUNS)
    return (
        f"{series}: the last {runs} from those before{by}, as `check` judges; that is no change of level yet, "
        f"which takes {fewest} runs, and more where it is not clear"
    )


def history_json(histories: Iterable[SeriesHistory]) -> list[dict[str, object]]:
    """Return one element per series; unknown members are left out, and a ratio that does not exist is null."""
    return [
        {
            **(
                {"file": str(history.name)}
                if isinstance(history.name, Path)
                else {"series": asdict(history.name)}
            ),
            "n": history.n,
            "change_points": [_change_json(change) for change in history.changes],
            "machine_changes": [_machine_json(change) for change in history.machines],
            **({"newest": _newest_json(history.newest)} if history.newest else {}),
        }
        for history in histories
    ]


def _change_json(change: LevelChange) -> dict[str, object]:
    effect = change.effect
    return {
        "index": change.index,
        "ratio": effect.ratio if effect else None,
        "low": effect.low if effect else None,
        "high": effect.high if effect else None,
        "verdict": change.word,
        "old": change.old,
        "new": change.new,
        **_point_json(change.first),
        "last_old": _point_json(change.last),
        **({"recovered": _point_json(change.recovered)} if change.recovered else {}),
    }


def _newest_json(newest: NewestRuns) -> dict[str, object]:
    return {"runs": newest.runs, **({"ratio": newest.effect.ratio} if newest.effect else {})}


def _machine_json(change: MachineChange) -> dict[str, object]:
    return {"index": change.index, **_point_json(change.first), "differs": list(change.differs)}


def _point_json(point: Point) -> dict[str, object]:
    named = {"timestamp": point.timestamp, "commit": point.commit, "torch": point.torch}
    if not point.timestamp and not point.commit:
        named["run"] = point.run
    return {name: value for name, value in named.items() if value}
