"""What changed when, on a terminal: the newest first, and of one run the largest first."""

from __future__ import annotations

import datetime
from collections import Counter
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from torchperf_ci.console import print_line, print_table
from torchperf_ci.document import Column, short
from torchperf_ci.history.settled import STAYS
from torchperf_ci.series.outcome import word
from torchperf_ci.stats.splits import FEWEST
from torchperf_ci.verdicts.rows import case
from torchperf_ci.verdicts.rows import change as ratio

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from torchperf_ci.history.found import Change, Name, Newest, Past, Word
    from torchperf_ci.series.series import Point

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
_LISTED = 100
"""Rows on a terminal; ``--json`` has all of them."""
_NAME_LENGTH = 120
_STYLES: Mapping[str, str] = {"regressed": "bold red", "improved": "green", "changed": "yellow"}
_WORDS: Mapping[Word, str] = {
    "regressed": "regressed",
    "improved": "improved",
    "changed": "where nobody knows which way is better",
}


def table(pasts: Sequence[Past], out: TextIO) -> None:
    """Print a line for each change of level, for each change of machine, and for what is too new to be a level."""
    found = _ordered(pasts)
    print_table(_COLUMNS, [_row(name, change) for name, change in found[:_LISTED]], out, styles=_STYLES)
    if len(found) > _LISTED:
        print_line(f"and {len(found) - _LISTED} more, all of them with --json", out)
    for line in _machines(pasts):
        print_line(line, out)
    too_new = [_too_new(past.name, past.newest) for past in pasts if past.newest]
    for line in too_new[:_LISTED]:
        print_line(line, out)
    if len(too_new) > _LISTED:
        print_line(f"and the newest runs of {len(too_new) - _LISTED} more, all of them with --json", out)


def headline(pasts: Sequence[Past]) -> str:
    """All of it in a sentence."""
    changes = [change for past in pasts for change in past.changes]
    counts = Counter(change.word for change in changes)
    recovered = sum(change.recovered is not None for change in changes)
    changed = sum(bool(past.changes) for past in pasts)
    told = [f"{count} {text}" for word, text in _WORDS.items() if (count := counts[word])]
    since = f"; {recovered} of the regressions recovered since" if recovered else ""
    return (
        f"{len(changes)} change{'' if len(changes) == 1 else 's'} in {changed} of {len(pasts)} series"
        f"{': ' if told else ''}{', '.join(told)}{since}"
    )


def _ordered(pasts: Sequence[Past]) -> list[tuple[Name, Change]]:
    found = [(past.name, change) for past in pasts for change in past.changes]
    return sorted(found, key=lambda one: (-one[1].first.timestamp, -_size(one[1])))


def _size(change: Change) -> float:
    """What has no ratio comes first: outcomes, and counts that were zero."""
    return abs(log(change.effect.ratio)) if change.effect else float("inf")


def _row(name: Name, change: Change) -> tuple[str, ...]:
    first = change.first
    return (
        _when(first)
        or f"point {change.index}{f' ({first.run})' if isinstance(name, Path) and first.run else ''}",
        change.word,
        str(name) if isinstance(name, Path) else case(name),
        "" if isinstance(name, Path) else short(name.metric, _NAME_LENGTH),
        _levels(change),
        ratio(change.effect) if change.effect else "",
        _commits(change),
        _since(change),
    )


def _levels(change: Change) -> str:
    if change.is_outcome:
        return f"{word(change.last)} → {word(change.first)}"
    return f"{change.old:.5g} → {change.new:.5g}"


def _commits(change: Change) -> str:
    commits = [_commit(point) for point in (change.last, change.first)]
    return "..".join(commits) if any(commits) else ""


def _commit(point: Point) -> str:
    """That of PyTorch where the record says it, since it is PyTorch that is measured."""
    return (point.info.get("torch") or point.commit)[:10]


def _since(change: Change) -> str:
    if change.recovered is None:
        return ""
    when = _when(change.recovered)
    return f"recovered {when}" if when else "recovered"


def _when(point: Point) -> str:
    if not point.timestamp:
        return ""
    return f"{datetime.datetime.fromtimestamp(point.timestamp, datetime.timezone.utc):%Y-%m-%d}"


def _too_new(name: Name, newest: Newest) -> str:
    """Why ``check`` may be red where no change is listed."""
    series = str(name) if isinstance(name, Path) else f"{case(name)} {short(name.metric, _NAME_LENGTH)}"
    runs = "run differs" if newest.runs == 1 else f"{newest.runs} runs differ"
    by, fewest = (f" by {ratio(newest.effect)}", FEWEST) if newest.effect else ("", STAYS)
    return (
        f"{series}: the last {runs} from those before{by}, as `check` judges; that is no change of level yet, "
        f"which takes {fewest} runs, and more where it is not clear"
    )


def _machines(pasts: Iterable[Past]) -> list[str]:
    """One line for all series that changed machines alike on the same day."""
    counts = Counter(
        (_when(change.first), "; ".join(change.differs)) for past in pasts for change in past.machines
    )
    return [
        f"{when or 'once'}: machine changed, so nothing is compared across it in {count} series: {differs}"
        for (when, differs), count in sorted(counts.items(), reverse=True)
    ]
