"""The command ``torchperf history``: reads the points, finds the level changes, and prints them or writes JSON."""

from __future__ import annotations

import csv
import sys
from collections import Counter, defaultdict
from dataclasses import asdict, replace
from math import inf, isnan, nan
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from torchperf_ci.command_output import print_json
from torchperf_ci.config import find_config
from torchperf_ci.console import print_document, say
from torchperf_ci.document import Column, Document, Highlighted, Note, Table, Words, counted, day_of, short
from torchperf_ci.errors import RecordsError, RecordsRefusedError, UsageError, failing_as
from torchperf_ci.options import is_given
from torchperf_ci.series.from_records import points_of_records
from torchperf_ci.series.from_store import points_of_store
from torchperf_ci.series.outcomes import outcome_word
from torchperf_ci.series.points import Point, Points, of_trunk, points_where, trunk_of, without_restating
from torchperf_ci.series.policy import MetricRule, rule_of_points
from torchperf_ci.series.segmenting import segment_all
from torchperf_ci.stats.split_evidence import FEWEST
from torchperf_ci.store.migrations import open_existing
from torchperf_ci.verdicts.verdict_document import case_text, effect_text, old_and_new

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from torchperf_ci.options.analysis_commands import HistoryOptions
    from torchperf_ci.records.schema import Problem
    from torchperf_ci.series import level_changes as levels


_BEFORE = 90 * 86_400
"""Seconds before ``--since`` that are read as well, so that the level before a change is known."""
_SHOWN_PROBLEMS = 20


def history_command(options: HistoryOptions) -> int:
    """Print the changes of every series. Raises :class:`RecordsRefusedError` if some elements were refused."""
    points, refused = _read(options)
    policy = find_config(options.config).policy

    def rule_of(name: levels.SeriesName, points: Sequence[Point]) -> MetricRule:
        if isinstance(name, Path):
            return MetricRule(options.direction.replace("both", ""), min_effect=0.0, kind="ratio")
        return rule_of_points(name.metric, points, policy)

    changes = segment_all(points, rule_of, options.min_effect)
    histories = [_changed_since(history, options.since or 0) for history in changes]
    if options.json:
        print_json(history_json(histories))
    else:
        print_document(history_document(histories), sys.stdout, rest="all of them with --json")
    sys.stdout.flush()
    say(history_headline(histories), *map(str, refused[:_SHOWN_PROBLEMS]))
    if refused:
        raise RecordsRefusedError("the elements listed above are not valid records; the rest was analyzed")
    return 0


def _read(options: HistoryOptions) -> tuple[Mapping[levels.SeriesName, Sequence[Point]], Sequence[Problem]]:
    """Read the points from CSV files, records or the store, and the reasons why some elements were refused."""
    if options.records and options.csv:
        raise UsageError("--records and --csv exclude each other: give only one")
    if options.csv:
        if options.since or options.branch:
            raise UsageError("a CSV file has neither times nor branches: remove --since and --branch")
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
        with open_existing(options.store or find_config(options.config).store) as store:
            points = points_of_store(store, branch=branch, since=since)
        return points if branch else _of_trunks(points), ()
    collected = points_of_records([Path(options.records)], options.format or "")
    if not (collected.points or collected.refused):
        msg = f"{options.records}: contains no records: give a directory that `torchperf run` has written"
        raise RecordsError(msg)
    points = points_where(
        collected.points,  # as the store's query does
        lambda point: point.timestamp >= since and (not branch or point.branch in ("", branch)),
    )
    return points if branch else _of_trunks(points), collected.refused


def _of_trunks(points: Points) -> Points:
    """Return the points of each benchmark's trunk, and say how many others there are."""
    branches: dict[tuple[str, str], set[tuple[str, int]]] = defaultdict(set)
    for series, row in points.items():
        branches[series.repo, series.benchmark] |= {(point.branch, point.timestamp) for point in row}
    trunk = {benchmark: trunk_of(some) for benchmark, some in branches.items()}
    trunks = {series: of_trunk(row, trunk[series.repo, series.benchmark]) for series, row in points.items()}
    if others := sum(len(row) - len(trunks[series]) for series, row in points.items()):
        names = " and ".join(sorted({*trunk.values()} - {""}))
        say(
            f"{counted(others, 'result')} of other branches than {names} left out, which --branch NAME analyzes"
        )
    return trunks


def _changed_since(history: levels.SeriesHistory, start: int) -> levels.SeriesHistory:
    return replace(
        history,
        changes=[change for change in history.changes if change.first.timestamp >= start],
        machines=[change for change in history.machines if change.first.timestamp >= start],
    )


def points_of_csv(path: Path) -> list[Point]:
    """Read one point per line; the first column names the run, and an empty value or NaN is a run without a number.

    Raises :class:`RecordsError`, with the line, for a value that is not a positive number, and for an empty file.
    """
    unreadable = (OSError, UnicodeDecodeError, csv.Error)
    with (
        failing_as(RecordsError, f"{path}: cannot be read as CSV: ", of=unreadable),
        path.open(encoding="utf-8-sig", newline="") as file,
    ):
        points = list(_csv_points(path, file))
    if not points:
        raise RecordsError(f"{path}: no line has a value: write one line per run, `index,value`")
    return points


def _csv_points(path: Path, file: Iterable[str]) -> Iterator[Point]:
    lines = csv.reader(file, strict=True, skipinitialspace=True)
    is_first = True
    for cells in lines:
        where = f"{path}:{lines.line_num}"
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != 2 or {";", "\t"} & {*cells[0]}:  # as of a spreadsheet where 1,5 is a number
            raise RecordsError(f"{where}: is not `index,value`, two columns with a comma between them")
        index, value = (cell.strip() for cell in cells)
        number = _csv_number(value)
        if number is not None and (isnan(number) or 0 < number < inf):
            yield Point(None if isnan(number) else number, run=index)
        elif number is not None or not is_first:  # words in the first line are its header
            msg = f"{where}: {value!r} is not a positive number: leave the value empty if a run has none"
            raise RecordsError(msg)
        is_first = False


def _csv_number(value: str) -> float | None:
    """Return the number, NaN for an empty value, and None for words."""
    try:
        return float(value or nan)
    except ValueError:
        return None


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
_TONES: Mapping[levels.ChangeWord, Literal["bad", "warning", "good"]] = {
    "regressed": "bad",
    "improved": "good",
    "changed": "warning",
}


def history_document(histories: Sequence[levels.SeriesHistory]) -> Document:
    """Return the level changes, newest first, then machine changes and newest runs that may become a level."""
    changes = [(history, change) for history in histories for change in history.changes]
    changes.sort(key=lambda item: item[1].effect.size if item[1].effect else inf, reverse=True)
    changes.sort(key=lambda item: item[1].first.timestamp, reverse=True)
    too_new = [_too_new(history.name, history.newest) for history in histories if history.newest]
    return Document(
        history_headline(histories),
        [
            Table(_COLUMNS, [_change_row(history, change) for history, change in changes]),
            Note(_machine_lines(histories)),
            Note(too_new),
        ],
    )


def history_headline(histories: Sequence[levels.SeriesHistory]) -> str:
    """Summarize all changes in one sentence."""
    if not histories:
        return "there are no results to analyze: see --branch and --since"
    changes = [change for history in histories for change in history.changes]
    counts = Counter(change.word for change in changes)
    words = ", ".join(
        f"{counts[word]:,} {word.replace('changed', 'of unknown direction')}"
        for word in _TONES
        if counts[word]
    )
    recovered = sum(change.recovered is not None for change in changes)
    changed = sum(bool(history.changes) for history in histories)
    short_ones = sum(history.is_too_short for history in histories)
    return (
        f"{counted(len(changes), 'change')} in {changed:,} of {len(histories):,} series"
        f"{f': {words}' if words else ''}"
        f"{f'; {recovered:,} of the regressions recovered since' if recovered else ''}"
        f"{f'; {short_ones:,} series of fewer than {2 * FEWEST} runs could not show any' if short_ones else ''}"
    )


def _change_row(history: levels.SeriesHistory, change: levels.LevelChange) -> tuple[Words, ...]:
    run = f" ({change.first.run})" if isinstance(history.name, Path) and change.first.run else ""
    old_to_new = old_and_new(change.old, change.new, change.effect)
    if history.rule.kind == "outcome":
        old_to_new = f"{outcome_word(change.last)} → {outcome_word(change.first)}"
    return (
        day_of(change.first.timestamp) or f"point {change.index}{run}",
        Highlighted(change.word, _TONES[change.word]),
        *_case_and_metric(history.name),
        old_to_new,
        effect_text(change.effect) if change.effect else "",
        _commits(change),
        f"recovered {day_of(change.recovered.timestamp)}".rstrip() if change.recovered else "",
    )


def _case_and_metric(name: levels.SeriesName) -> tuple[str, str]:
    return (str(name), "") if isinstance(name, Path) else (case_text(name), short(name.metric, _NAME_LENGTH))


def _commits(change: levels.LevelChange) -> str:
    """Name the commits around a change of the repository that measured, as ``check`` does, and then of PyTorch.

    These are the same in PyTorch's own repository.
    """
    last, first = change.last, change.first
    ends = {(last.torch, first.torch): "PyTorch ", (last.commit, first.commit): ""}
    ranges = [f"{of}{old[:10]}..{new[:10]}" for (old, new), of in reversed(ends.items()) if old != new]
    return ", ".join(ranges) or (f"both {first.commit[:10]}" if first.commit else "")


def _machine_lines(histories: Iterable[levels.SeriesHistory]) -> list[str]:
    """Return one line for all series that were measured under other conditions from the same day on."""
    counts = Counter(
        (day_of(change.first.timestamp), "; ".join(change.differs))
        for history in histories
        for change in history.machines
    )
    return [
        f"{day or 'once'}: other conditions, so nothing is compared across it in {count:,} series: {differs}"
        for (day, differs), count in sorted(counts.items(), reverse=True)
    ]


def _too_new(name: levels.SeriesName, newest: levels.NewestRuns) -> str:
    """Explain why ``check`` may be red although no change is listed."""
    series = " ".join(_case_and_metric(name)).rstrip()
    runs = "run differs" if newest.runs == 1 else f"{newest.runs} runs differ"
    by = f" by {effect_text(newest.effect)}" if newest.effect else ""
    return (
        f"{series}: the last {runs} from those before{by}, as `check` judges; that is no change of level yet, "
        f"which takes {newest.level} runs, and more where it is not clear"
    )


def history_json(histories: Iterable[levels.SeriesHistory]) -> list[dict[str, object]]:
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
            "machine_changes": [
                {"index": change.index, **_point_json(change.first), "differs": list(change.differs)}
                for change in history.machines
            ],
            **({"newest": _newest_json(history.newest)} if history.newest else {}),
        }
        for history in histories
    ]


def _change_json(change: levels.LevelChange) -> dict[str, object]:
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


def _newest_json(newest: levels.NewestRuns) -> dict[str, object]:
    return {"runs": newest.runs, **({"ratio": newest.effect.ratio} if newest.effect else {})}


def _point_json(point: Point) -> dict[str, object]:
    named = {"timestamp": point.timestamp, "commit": point.commit, "torch": point.torch}
    if not point.timestamp and not point.commit:
        named["run"] = point.run
    return {name: value for name, value in named.items() if value}
