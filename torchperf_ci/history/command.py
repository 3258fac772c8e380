"""What ``torchperf history`` does with its options: what it reads, and what it prints."""

from __future__ import annotations

import csv
import datetime
import json
import sys
from collections import Counter
from dataclasses import asdict, replace
from functools import partial
from math import isnan, log
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from torchperf_ci import actions, config
from torchperf_ci.console import print_line, print_table, say
from torchperf_ci.document import Column, short
from torchperf_ci.errors import RecordsError, RecordsRefusedError, UsageError
from torchperf_ci.history.level_changes import SETTLED_RUNS
from torchperf_ci.history.segmenting import segment_all
from torchperf_ci.series.from_records import points_of_records
from torchperf_ci.series.from_store import points_of_store
from torchperf_ci.series.outcomes import outcome_word
from torchperf_ci.series.points import Point
from torchperf_ci.series.policy import MetricRule, numbers, rule_of_metric, suited
from torchperf_ci.stats.segmentation import MIN_EFFECT
from torchperf_ci.stats.split_evidence import FEWEST
from torchperf_ci.store.migrations import open_existing
from torchperf_ci.verdicts.verdict_document import case_text
from torchperf_ci.verdicts.verdict_document import effect_text as ratio

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from torchperf_ci.history.level_changes import (
        ChangeWord,
        LevelChange,
        MachineChange,
        NewestRuns,
        SeriesHistory,
        SeriesName,
    )
    from torchperf_ci.options import HistoryOptions
    from torchperf_ci.records.schema import Problem
    from torchperf_ci.series.from_records import RecordedPoints
    from torchperf_ci.series.points import Points


def points_of_csv(path: Path) -> list[Point]:
    """One point a line, whose ``run`` is what the first column says. An empty value or NaN is a run without a number.

    Raises :class:`RecordsError`, with the line, for whatever is no positive number, and for a file without a line.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            found = list(_csv_points(path, file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        msg = f"{path}: cannot be read as CSV: {error}"
        raise RecordsError(msg) from error
    if not found:
        msg = f"{path}: has no line with a value; give one line a run, `index,value`"
        raise RecordsError(msg)
    return found


def _csv_points(path: Path, file: Iterable[str]) -> Iterator[Point]:
    lines = csv.reader(file, strict=True, skipinitialspace=True)
    first = True
    for cells in lines:
        number = lines.line_num
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != 2:
            msg = f"{path}:{number}: {len(cells)} columns where `index,value` are expected"
            raise RecordsError(msg)
        index, value = (cell.strip() for cell in cells)
        if not (first and _is_header(value)):
            yield Point(_csv_number(path, number, value), run=index)
        first = False


def _is_header(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return value != ""
    return False


def _csv_number(path: Path, line: int, value: str) -> float | None:
    try:
        number = float(value) if value else float("nan")
    except ValueError:
        number = 0.0
    if isnan(number):
        return None
    if not 0 < number < float("inf"):
        msg = f"{path}:{line}: {value!r} is no positive number; leave the value empty where a run has none"
        raise RecordsError(msg)
    return number


def history_json(pasts: Iterable[SeriesHistory]) -> list[dict[str, Any]]:
    """One element a series; what is not known is left out, a ratio that does not exist is null."""
    return [
        {
            **({"file": str(past.name)} if isinstance(past.name, Path) else {"series": asdict(past.name)}),
            "n": past.n,
            "change_points": [_change_json(change) for change in past.changes],
            "machine_changes": [_machine_json(change) for change in past.machines],
            **({"newest": _newest_json(past.newest)} if past.newest else {}),
        }
        for past in pasts
    ]


def _change_json(change: LevelChange) -> dict[str, Any]:
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


def _newest_json(newest: NewestRuns) -> dict[str, Any]:
    return {"runs": newest.runs, **({"ratio": newest.effect.ratio} if newest.effect else {})}


def _machine_json(change: MachineChange) -> dict[str, Any]:
    return {"index": change.index, **_point_json(change.first), "differs": list(change.differs)}


def _point_json(point: Point) -> dict[str, Any]:
    named = {"timestamp": point.timestamp, "commit": point.commit, "torch": point.info.get("torch", "")}
    if not point.timestamp and not point.commit:
        named["run"] = point.run
    return {name: value for name, value in named.items() if value}


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
_WORDS: Mapping[ChangeWord, str] = {
    "regressed": "regressed",
    "improved": "improved",
    "changed": "where nobody knows which way is better",
}


def print_history(pasts: Sequence[SeriesHistory], out: TextIO) -> None:
    """Print a line for each change of level, for each change of machine, and for what is too new to be a level."""
    found = _ordered(pasts)
    print_table(
        _COLUMNS, [_change_row(name, change) for name, change in found[:_LISTED]], out, styles=_STYLES
    )
    if len(found) > _LISTED:
        print_line(f"and {len(found) - _LISTED} more, all of them with --json", out)
    for line in _machines(pasts):
        print_line(line, out)
    too_new = [_too_new(past.name, past.newest) for past in pasts if past.newest]
    for line in too_new[:_LISTED]:
        print_line(line, out)
    if len(too_new) > _LISTED:
        print_line(f"and the newest runs of {len(too_new) - _LISTED} more, all of them with --json", out)


def headline(pasts: Sequence[SeriesHistory]) -> str:
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


def _ordered(pasts: Sequence[SeriesHistory]) -> list[tuple[SeriesName, LevelChange]]:
    found = [(past.name, change) for past in pasts for change in past.changes]
    return sorted(found, key=lambda one: (-one[1].first.timestamp, -_size(one[1])))


def _size(change: LevelChange) -> float:
    """What has no ratio comes first: outcomes, and counts that were zero."""
    return abs(log(change.effect.ratio)) if change.effect else float("inf")


def _change_row(name: SeriesName, change: LevelChange) -> tuple[str, ...]:
    first = change.first
    return (
        _when(first)
        or f"point {change.index}{f' ({first.run})' if isinstance(name, Path) and first.run else ''}",
        change.word,
        str(name) if isinstance(name, Path) else case_text(name),
        "" if isinstance(name, Path) else short(name.metric, _NAME_LENGTH),
        _levels(change),
        ratio(change.effect) if change.effect else "",
        _commits(change),
        _recovered_since(change),
    )


def _levels(change: LevelChange) -> str:
    if change.is_outcome:
        return f"{outcome_word(change.last)} → {outcome_word(change.first)}"
    return f"{change.old:.5g} → {change.new:.5g}"


def _commits(change: LevelChange) -> str:
    commits = [_commit(point) for point in (change.last, change.first)]
    return "..".join(commits) if any(commits) else ""


def _commit(point: Point) -> str:
    """That of PyTorch where the record says it, since it is PyTorch that is measured."""
    return (point.info.get("torch") or point.commit)[:10]


def _recovered_since(change: LevelChange) -> str:
    if change.recovered is None:
        return ""
    when = _when(change.recovered)
    return f"recovered {when}" if when else "recovered"


def _when(point: Point) -> str:
    if not point.timestamp:
        return ""
    return f"{datetime.datetime.fromtimestamp(point.timestamp, datetime.timezone.utc):%Y-%m-%d}"


def _too_new(name: SeriesName, newest: NewestRuns) -> str:
    """Why ``check`` may be red where no change is listed."""
    series = str(name) if isinstance(name, Path) else f"{case_text(name)} {short(name.metric, _NAME_LENGTH)}"
    runs = "run differs" if newest.runs == 1 else f"{newest.runs} runs differ"
    by, fewest = (f" by {ratio(newest.effect)}", FEWEST) if newest.effect else ("", SETTLED_RUNS)
    return (
        f"{series}: the last {runs} from those before{by}, as `check` judges; that is no change of level yet, "
        f"which takes {fewest} runs, and more where it is not clear"
    )


def _machines(pasts: Iterable[SeriesHistory]) -> list[str]:
    """One line for all series that changed machines alike on the same day."""
    counts = Counter(
        (_when(change.first), "; ".join(change.differs)) for past in pasts for change in past.machines
    )
    return [
        f"{when or 'once'}: machine changed, so nothing is compared across it in {count} series: {differs}"
        for (when, differs), count in sorted(counts.items(), reverse=True)
    ]


_BEFORE = 90 * 86_400
"""Seconds before ``--since`` that are looked at as well, so that the level before a change is known."""
_SHOWN = 20


def history_command(options: HistoryOptions) -> int:
    """Print the changes of every series; raises :class:`RecordsRefusedError` where some elements are no records."""
    points, refused = _read(options)
    policy = config.find(options.config).policy
    pasts = [
        _changed_since(past, options.since or 0)
        for past in segment_all(
            points,
            partial(
                _rule_of_series, policy=policy, direction=(options.direction or "both").replace("both", "")
            ),
            options.min_effect or MIN_EFFECT,
        )
    ]
    if options.json:
        sys.stdout.write(actions.inert_json(json.dumps(history_json(pasts), indent=2, allow_nan=False)))
        sys.stdout.write("\n")
    else:
        with actions.literal(sys.stdout):
            print_history(pasts, sys.stdout)
    sys.stdout.flush()
    say(headline(pasts), *map(str, refused[:_SHOWN]))
    if refused:
        msg = "the elements named above are no good records; the rest is looked at"
        raise RecordsRefusedError(msg)
    return 0


def _read(options: HistoryOptions) -> tuple[Mapping[SeriesName, Sequence[Point]], Sequence[Problem]]:
    if options.records and options.csv:
        msg = "--records and --csv: give one of them"
        raise UsageError(msg)
    if options.csv:
        return _of_files(options), ()
    if options.direction:
        msg = "--direction goes with --csv; of records the policy in torchperf.yml says it, else the metric's name"
        raise UsageError(msg)
    since = max(0, (options.since or 0) - _BEFORE)
    branch = (options.branch or "").removeprefix("refs/heads/")
    if options.records:
        collected = _collected(options.records)
        return _chosen(collected.points, branch, since), collected.refused
    with open_existing(options.store or config.find(options.config).store) as store:
        found: Mapping[Any, Sequence[Point]] = points_of_store(store, branch=branch, since=since)
        return found, ()


def _collected(folder: str) -> RecordedPoints:
    """What a directory or file holds: a record, or what was meant to be one."""
    found = points_of_records([Path(folder)])
    if not (found.points or found.refused):
        msg = f"{folder}: holds no record, so there is no history; give what `torchperf run` has written"
        raise RecordsError(msg)
    return found


def _of_files(options: HistoryOptions) -> Mapping[SeriesName, Sequence[Point]]:
    if options.since or options.branch:
        msg = "a CSV file has neither times nor branches: --since and --branch do not go with --csv"
        raise UsageError(msg)
    return {path: points_of_csv(path) for path in map(Path, options.csv)}


def _chosen(points: Points, branch: str, since: int) -> Mapping[SeriesName, Sequence[Point]]:
    """What the store's query leaves out as well: what is known to be of another branch, and what is older."""
    chosen = {
        series: [
            point
            for point in row
            if point.timestamp >= since and not (branch and point.branch and point.branch != branch)
        ]
        for series, row in points.items()
    }
    return {series: row for series, row in chosen.items() if row}


def _rule_of_series(
    name: SeriesName, points: Sequence[Point], *, policy: Mapping[str, config.Rule], direction: str
) -> MetricRule:
    """Which way is better in a CSV file, only the caller knows. A target lies where it does from the first level."""
    if isinstance(name, Path):
        return MetricRule(direction=direction, min_effect=0.0, kind="ratio")
    first = next(iter(numbers(points)), None)
    return suited(rule_of_metric(name.metric, policy, points[-1].target, first), points)


def _changed_since(past: SeriesHistory, start: int) -> SeriesHistory:
    return replace(
        past,
        changes=[change for change in past.changes if change.first.timestamp >= start],
        machines=[change for change in past.machines if change.first.timestamp >= start],
    )
