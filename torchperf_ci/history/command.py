"""What ``torchperf history`` does with its options."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchperf_ci import actions, config
from torchperf_ci.console import say
from torchperf_ci.errors import RecordsError, RecordsRefusedError, UsageError
from torchperf_ci.history.csv_file import points_of_csv
from torchperf_ci.history.document import document
from torchperf_ci.history.segmenting import segment_all
from torchperf_ci.history.showing import headline, table
from torchperf_ci.series.policy import MetricRule, numbers, rule, suited
from torchperf_ci.series.records import points_of_records
from torchperf_ci.series.store import points_of_store
from torchperf_ci.stats.changepoints import MIN_EFFECT
from torchperf_ci.store.migrating import open_existing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchperf_ci.history.found import Name, Past
    from torchperf_ci.options import HistoryOptions
    from torchperf_ci.records.problems import Problem
    from torchperf_ci.series.records import Collected
    from torchperf_ci.series.series import Point, Points

_BEFORE = 90 * 86_400
"""Seconds before ``--since`` that are looked at as well, so that the level before a change is known."""
_SHOWN = 20


def history_command(options: HistoryOptions) -> int:
    """Print the changes of every series; raises :class:`RecordsRefusedError` where some elements are no records."""
    points, refused = _read(options)
    policy = config.find(options.config).policy
    pasts = [
        _since(past, options.since or 0)
        for past in segment_all(
            points,
            partial(_rule, policy=policy, direction=(options.direction or "both").replace("both", "")),
            options.min_effect or MIN_EFFECT,
        )
    ]
    if options.json:
        sys.stdout.write(actions.inert_json(json.dumps(document(pasts), indent=2, allow_nan=False)))
        sys.stdout.write("\n")
    else:
        with actions.literal(sys.stdout):
            table(pasts, sys.stdout)
    sys.stdout.flush()
    say(headline(pasts), *map(str, refused[:_SHOWN]))
    if refused:
        msg = "the elements named above are no good records; the rest is looked at"
        raise RecordsRefusedError(msg)
    return 0


def _read(options: HistoryOptions) -> tuple[Mapping[Name, Sequence[Point]], Sequence[Problem]]:
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


def _collected(folder: str) -> Collected:
    """What a directory or file holds: a record, or what was meant to be one."""
    found = points_of_records([Path(folder)])
    if not (found.points or found.refused):
        msg = f"{folder}: holds no record, so there is no history; give what `torchperf run` has written"
        raise RecordsError(msg)
    return found


def _of_files(options: HistoryOptions) -> Mapping[Name, Sequence[Point]]:
    if options.since or options.branch:
        msg = "a CSV file has neither times nor branches: --since and --branch do not go with --csv"
        raise UsageError(msg)
    return {path: points_of_csv(path) for path in map(Path, options.csv)}


def _chosen(points: Points, branch: str, since: int) -> Mapping[Name, Sequence[Point]]:
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


def _rule(
    name: Name, points: Sequence[Point], *, policy: Mapping[str, config.Rule], direction: str
) -> MetricRule:
    """Which way is better in a CSV file, only the caller knows. A target lies where it does from the first level."""
    if isinstance(name, Path):
        return MetricRule(direction=direction, min_effect=0.0, kind="ratio")
    first = next(iter(numbers(points)), None)
    return suited(rule(name.metric, policy, points[-1].target, first), points)


def _since(past: Past, start: int) -> Past:
    return replace(
        past,
        changes=[change for change in past.changes if change.first.timestamp >= start],
        machines=[change for change in past.machines if change.first.timestamp >= start],
    )
