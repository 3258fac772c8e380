"""The command ``torchperf history``: reads the points, finds the level changes, and prints them."""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import replace
from functools import partial
from math import inf, isnan, nan
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci import actions, config
from torchperf_ci.console import print_document, say
from torchperf_ci.errors import RecordsError, RecordsRefusedError, UsageError
from torchperf_ci.history.history_document import history_document, history_headline, history_json
from torchperf_ci.options import is_given
from torchperf_ci.series.from_records import points_of_records
from torchperf_ci.series.from_store import points_of_store
from torchperf_ci.series.points import Point, without_restating
from torchperf_ci.series.policy import MetricRule, rule_of_points
from torchperf_ci.series.segmenting import segment_all
from torchperf_ci.store.migrations import open_existing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from torchperf_ci.options.analysis_commands import HistoryOptions
    from torchperf_ci.records.schema import Problem
    from torchperf_ci.series.level_changes import SeriesHistory, SeriesName
    from torchperf_ci.series.points import Points


_BEFORE = 90 * 86_400
"""Seconds before ``--since`` that are read as well, so that the level before a change is known."""
_SHOWN_PROBLEMS = 20


def history_command(options: HistoryOptions) -> int:
    """Print the changes of every series. Raises :class:`RecordsRefusedError` if some elements were refused."""
    points, refused = _read(options)
    rule_of_series = partial(
        _rule_of_series,
        policy=config.find(options.config).policy,
        direction=options.direction.replace("both", ""),
    )
    histories = [
        _changed_since(history, options.since or 0)
        for history in segment_all(points, rule_of_series, options.min_effect)
    ]
    if options.json:
        text = json.dumps(history_json(histories), indent=2, allow_nan=False)
        sys.stdout.write(f"{actions.inert_json(text)}\n")
    else:
        print_document(history_document(histories), sys.stdout, rest="all of them with --json")
    sys.stdout.flush()
    say(history_headline(histories), *map(str, refused[:_SHOWN_PROBLEMS]))
    if refused:
        msg = "the elements listed above are not valid records; the rest was analyzed"
        raise RecordsRefusedError(msg)
    return 0


def _read(options: HistoryOptions) -> tuple[Mapping[SeriesName, Sequence[Point]], Sequence[Problem]]:
    """Read the points from CSV files, records or the store, and the reasons why some elements were refused."""
    if options.records and options.csv:
        msg = "--records and --csv exclude each other: give only one"
        raise UsageError(msg)
    if options.csv:
        if options.since or options.branch:
            msg = "a CSV file has neither times nor branches: remove --since and --branch"
            raise UsageError(msg)
        return {path: points_of_csv(path) for path in map(Path, options.csv)}, ()
    if is_given(options, "direction"):
        msg = "--direction is only for --csv: for records, the policy in torchperf.yml or the metric's name decides"
        raise UsageError(msg)
    points, refused = _recorded(options)
    return dict(without_restating(points).items()), refused


def _recorded(options: HistoryOptions) -> tuple[Points, Sequence[Problem]]:
    since = max(0, (options.since or 0) - _BEFORE)
    branch = (options.branch or "").removeprefix("refs/heads/")
    if not options.records:
        with open_existing(options.store or config.find(options.config).store) as store:
            return points_of_store(store, branch=branch, since=since), ()
    collected = points_of_records([Path(options.records)], options.format or "")
    if not (collected.points or collected.refused):
        msg = f"{options.records}: contains no records: give a directory that `torchperf run` has written"
        raise RecordsError(msg)
    return _chosen(collected.points, branch, since), collected.refused


def _chosen(points: Points, branch: str, since: int) -> Points:
    """Drop what the store's query drops, too: points known to be of another branch, and older ones."""
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
    """Return the rule of a series; for a CSV file only the caller knows which direction is better."""
    if isinstance(name, Path):
        return MetricRule(direction=direction, min_effect=0.0, kind="ratio")
    return rule_of_points(name.metric, points, policy)


def _changed_since(history: SeriesHistory, start: int) -> SeriesHistory:
    return replace(
        history,
        changes=[change for change in history.changes if change.first.timestamp >= start],
        machines=[change for change in history.machines if change.first.timestamp >= start],
    )


def points_of_csv(path: Path) -> list[Point]:
    """Read one point per line; the first column names the run, and an empty value or NaN is a run without a number.

    Raises :class:`RecordsError`, with the line, for a value that is not a positive number, and for an empty file.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            points = list(_csv_points(path, file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        msg = f"{path}: cannot be read as CSV: {error}"
        raise RecordsError(msg) from error
    if not points:
        msg = f"{path}: no line has a value: write one line per run, `index,value`"
        raise RecordsError(msg)
    return points


def _csv_points(path: Path, file: Iterable[str]) -> Iterator[Point]:
    lines = csv.reader(file, strict=True, skipinitialspace=True)
    first = True
    for cells in lines:
        line = lines.line_num
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != 2:
            msg = f"{path}:{line}: {len(cells)} columns where `index,value` are expected"
            raise RecordsError(msg)
        index, value = (cell.strip() for cell in cells)
        if not (first and _is_header(value)):
            yield Point(_csv_number(path, line, value), run=index)
        first = False


def _is_header(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return value != ""
    return False


def _csv_number(path: Path, line: int, value: str) -> float | None:
    try:
        number = float(value) if value else nan
    except ValueError:
        number = 0.0
    if isnan(number):
        return None
    if not 0 < number < inf:
        msg = f"{path}:{line}: {value!r} is not a positive number: leave the value empty if a run has none"
        raise RecordsError(msg)
    return number
