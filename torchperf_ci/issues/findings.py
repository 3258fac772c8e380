"""What a night found that issues are about: one finding for each cause, from verdicts and bisections."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf, log
from typing import TYPE_CHECKING, Any, Literal, TypeGuard, get_args

from torchperf_ci.metrics import bisected_as
from torchperf_ci.series.outcomes import DISTURBED_MARK
from torchperf_ci.series.points import Series
from torchperf_ci.verdicts.verdict import commit_ends_of, commit_range_of, luck_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from torchperf_ci.culprits.culprit import Bisection, Culprit, SeriesEffect
    from torchperf_ci.stats.effect import Effect
    from torchperf_ci.verdicts.verdict import Judgement, RepeatOptions, Verdict


IssueKind = Literal["culprit", "unlocated", "broken", "digest", "nightly"]
"""A proven commit; a regression without one; a benchmark that fails night after night; what found no room, in issues
that an earlier version has opened; a nightly that did not run."""
ISSUE_KINDS: tuple[IssueKind, ...] = get_args(IssueKind)
NAMED_KINDS: tuple[IssueKind, ...] = ("broken", "nightly")
"""Those that an issue is found by the fingerprint of alone, whatever series it has."""


@dataclass(frozen=True)
class IssueRow:
    """One series of an issue. ``old`` and ``new`` are levels in the metric's unit, ``effect`` is new over old.

    ``night`` (ISO date) is the last one on which it was seen so. ``proven`` says that the effect is that of pairs of
    the culprit and its parent; else it is what history shows.
    """

    series: Series
    old: float | None = None
    new: float | None = None
    effect: Effect | None = None
    night: str = ""
    proven: bool = False

    @property
    def size(self) -> float:
        """How much changed: the absolute logarithm of the ratio; 0 where there is none."""
        ratio = self.effect.ratio if self.effect else 1.0
        return abs(log(ratio)) if 0 < ratio < inf else inf


@dataclass(frozen=True)
class IssueFinding:
    """What one issue would be about. ``fingerprint`` is of the cause, never of the run that found it.

    ``why`` says in one sentence why no commit is named, or what is broken. ``again`` is how its series are measured
    again, where the file of their verdicts says so, and ``warnings`` are what was wrong while they were measured.
    ``title`` and ``text`` are what the issue says, where that is not told from the rest.
    """

    kind: IssueKind
    fingerprint: str
    rows: tuple[IssueRow, ...]
    verdicts: tuple[Verdict, ...] = ()
    culprit: Culprit | None = None
    location: Bisection | None = None
    why: str = ""
    again: RepeatOptions | None = None
    warnings: tuple[str, ...] = ()
    title: str = ""
    text: str = ""


FINGERPRINT_LENGTH = 16
"""Hexadecimal digits: two of a million causes share a name once in ten million projects."""


def cause_fingerprint(kind: IssueKind, *parts: str) -> str:
    """16 hexadecimal digits that are equal for the same cause, and hardly for another one."""
    named = "\0".join((kind, *parts)).encode("utf-8", "replace")
    return hashlib.sha256(named).hexdigest()[:FINGERPRINT_LENGTH]


_LARGEST_VALUE = 1e15


def points_of(verdict: Verdict) -> list[Mapping[str, Any]]:
    """Those that have a number, oldest first."""
    found = verdict.evidence.get("points")
    points = found if isinstance(found, list) else []
    return [point for point in points if isinstance(point, Mapping) and is_number(point.get("value"))]


def newest_level(verdict: Verdict) -> float | None:
    """What the newest run measured: ``new`` may be a mean with runs of the nights before."""
    points = points_of(verdict)
    return points[-1]["value"] if points else verdict.new


def is_number(value: Any) -> TypeGuard[float]:
    """Whether it can be drawn and reckoned with."""
    is_one = isinstance(value, int | float) and not isinstance(value, bool)
    return is_one and abs(value) < _LARGEST_VALUE


_MACHINE_WORDS = re.compile(r"(?P<arch>.*) \((?P<device>[^()]*)\)")


def bisection_of(verdict: Verdict, locations: Sequence[Bisection]) -> Bisection | None:
    """The bisection of just the range of a verdict, in either repository, on its kind of machine."""
    asked = commit_ends_of([commit_range_of(verdict)])
    return next(
        (one for one in locations if (one.good, one.bad) in asked and ran_on_machine_of(one, verdict.series)),
        None,
    )


def ran_on_machine_of(location: Bisection, series: Series) -> bool:
    """Whether the bisection ran on the kind of machine that a series is of; True where it does not say which."""
    machine = _MACHINE_WORDS.fullmatch(location.machine)
    return machine is None or (machine["arch"], machine["device"]) == (series.arch, series.device)


def bisected_machine(location: Bisection) -> tuple[str, str]:
    """The arch and the device of a bisection; its words on the machine and nothing, where they are somebody else's."""
    machine = _MACHINE_WORDS.fullmatch(location.machine)
    return (machine["arch"], machine["device"]) if machine else (location.machine, "")


_SERIES_NAME = re.compile(r"(?P<model>.+) (?P<metric>\S+) \((?P<how>[^()]*)\)")
_WAYS = ("mode", "dtype", "backend", "device")


def culprit_findings(
    worse: Sequence[Verdict], locations: Sequence[Bisection], night: str
) -> list[IssueFinding]:
    """A finding for each culprit, whichever machines proved it; the clearest of them stands for it.

    ``worse`` are the regressed series and the candidates.
    """
    found: dict[str, IssueFinding] = {}
    for location in locations:
        for culprit in location.culprits:
            one = _culprit_finding(culprit, location, worse, locations, night)
            known = found.get(one.fingerprint)
            found[one.fingerprint] = _joined(known, one) if known else one
    return list(found.values())


def bisected_name(series: Series) -> str:
    """What a bisection calls a series: the ratio to an anchor is measured as the latency that it moves with."""
    return str(replace(series, metric=bisected_as(series.metric) or series.metric))


def _culprit_finding(
    culprit: Culprit,
    location: Bisection,
    worse: Sequence[Verdict],
    locations: Sequence[Bisection],
    night: str,
) -> IssueFinding:
    verdicts = [
        one
        for one in worse
        if _names_series(culprit, one, location, locations) or _in_its_range(one, location, locations)
    ]
    shown = {
        row.series: row
        for change in culprit.series
        for row in _proven_rows(change, verdicts, location, night)
    }
    seen = [
        IssueRow(one.series, one.old, one.new, one.effect, night)
        for one in verdicts
        if one.series not in shown
    ]
    return IssueFinding(
        "culprit",
        cause_fingerprint("culprit", culprit.set[-1], "worse"),
        (*shown.values(), *seen),
        tuple(verdicts),
        culprit,
        location,
    )


def _names_series(
    culprit: Culprit, verdict: Verdict, location: Bisection, locations: Sequence[Bisection]
) -> bool:
    """Whether a culprit names a series: on its own machine, or, if it regressed, on one that nobody bisected on."""
    if all(change.name != bisected_name(verdict.series) for change in culprit.series):
        return False
    return ran_on_machine_of(location, verdict.series) or (
        verdict.is_red and bisection_of(verdict, locations) is None
    )


def _in_its_range(verdict: Verdict, location: Bisection, locations: Sequence[Bisection]) -> bool:
    """Whether a proven verdict that no culprit names can only be the work of the one culprit that its range has."""
    if not verdict.is_red or len(location.culprits) != 1 or bisection_of(verdict, [location]) is None:
        return False
    named = {change.name for one in locations for culprit in one.culprits for change in culprit.series}
    return bisected_name(verdict.series) not in named


def _proven_rows(
    change: SeriesEffect, verdicts: Sequence[Verdict], location: Bisection, night: str
) -> Iterator[IssueRow]:
    """The rows whose effect is that of the pairs: of the machine that bisected, and of no other."""
    here = [
        one
        for one in verdicts
        if bisected_name(one.series) == change.name and ran_on_machine_of(location, one.series)
    ]
    for one in here:
        yield IssueRow(
            one.series, one.old, one.new, change.effect or one.effect, night, change.effect is not None
        )
    if not here:
        near = next((one.series for one in verdicts), None)
        yield IssueRow(
            _series_named(change.name, location, near), effect=change.effect, night=night, proven=True
        )


def _series_named(name: str, location: Bisection, near: Series | None) -> Series:
    """A series of which tonight's files have no verdict, out of its name; ``near`` is one of the same culprit."""
    found = _SERIES_NAME.fullmatch(name)
    how = found["how"].split(" ") if found else []
    arch, device = bisected_machine(location)
    return Series(
        repo=near.repo if near else "",
        benchmark=near.benchmark if near else "",
        model=found["model"] if found else name,
        metric=found["metric"] if found else "",
        arch=arch,
        **dict.fromkeys(_WAYS, "")
        | {"device": device}
        | (dict(zip(_WAYS, how, strict=True)) if len(how) == len(_WAYS) else {}),
    )


def _joined(one: IssueFinding, other: IssueFinding) -> IssueFinding:
    """Both as one, of which the larger effect tells; a row that is proven goes before one that is not."""
    first, second = sorted((one, other), key=_proven_size, reverse=True)
    rows = {row.series: row for row in sorted((*second.rows, *first.rows), key=lambda row: row.proven)}
    verdicts = {verdict.series: verdict for verdict in (*second.verdicts, *first.verdicts)}
    return replace(first, rows=tuple(rows.values()), verdicts=tuple(verdicts.values()))


def _proven_size(finding: IssueFinding) -> float:
    return max((row.size for row in finding.rows if row.proven), default=0.0)


_NOT_BISECTED = "It is in the history; nobody has bisected between the two commits yet."
_NO_RANGE = "The history does not say between which commits it lies, so nobody could bisect it."
_NOT_EXPLAINED = "Between the two commits several culprits are proven, and of none of them what it did here."


def findings_of(
    judgements: Sequence[Judgement], locations: Sequence[Bisection], night: str, broken_nights: int
) -> list[IssueFinding]:
    """What there is to open issues about, the largest effect first and what is broken last.

    Each regressed series is in the findings of the culprits that are proven to have changed it; else in that of the one
    culprit in its range; else in the one that has no culprit. A candidate is in those of the culprits that are proven
    to have changed it, or in none. What has failed for ``broken_nights`` runs in a row is a finding of its own kind.
    """
    worse = _worse(judgements)
    found = culprit_findings(worse, locations, night)
    explained = {row.series for finding in found for row in finding.rows}
    left = [one for one in worse if one.verdict == "regressed" and one.series not in explained]
    found += _unlocated(left, locations, night)
    ranked = sorted(found, key=lambda one: max((row.size for row in one.rows), default=0.0), reverse=True)
    return [
        _with_facts_of_files(one, judgements) for one in (*ranked, *_broken(judgements, night, broken_nights))
    ]


def _with_facts_of_files(finding: IssueFinding, judgements: Iterable[Judgement]) -> IssueFinding:
    """With what the files of its verdicts say of all their series."""
    series = {one.series for one in finding.verdicts}
    files = [one for one in judgements if any(verdict.series in series for verdict in one.verdicts)]
    notes = [
        *(finding.location.notes if finding.location else ()),
        *(note for one in files for note in one.notes),
    ]
    return replace(
        finding,
        again=next((one.again for one in files if one.again), None),
        warnings=tuple(dict.fromkeys(note for note in notes if note.startswith(DISTURBED_MARK))),
    )


def _worse(judgements: Iterable[Judgement]) -> list[Verdict]:
    """What regressed or looks worse, one verdict for each series: several files may judge the same."""
    verdicts = (one for judgement in judgements for one in judgement.verdicts)
    found = [one for one in verdicts if one.verdict == "regressed" or one.candidate]
    return list({one.series: one for one in reversed(found)}.values())[::-1]


def _unlocated(worse: Iterable[Verdict], locations: Sequence[Bisection], night: str) -> list[IssueFinding]:
    groups: dict[tuple[str, ...], list[Verdict]] = defaultdict(list)
    for verdict in worse:
        series, turn = verdict.series, commit_range_of(verdict)
        ends = turn.range or (turn.last_old.name, turn.first_new.name)
        key = (series.repo, series.device, series.arch, *ends)
        groups[key].append(verdict)
    return [_without_culprit(key, group, locations, night) for key, group in groups.items()]


def _without_culprit(
    key: tuple[str, ...], verdicts: Sequence[Verdict], locations: Sequence[Bisection], night: str
) -> IssueFinding:
    location = bisection_of(verdicts[0], locations)
    why = _why(location, known=commit_range_of(verdicts[0]).range is not None)
    return IssueFinding(
        "unlocated",
        cause_fingerprint("unlocated", *key),
        tuple(IssueRow(one.series, one.old, one.new, one.effect, night) for one in verdicts),
        tuple(verdicts),
        location=location,
        why=" ".join(filter(None, (why, _luck(verdicts)))),
    )


def _why(location: Bisection | None, *, known: bool) -> str:
    if location is None:
        return _NOT_BISECTED if known else _NO_RANGE
    if location.culprits:
        return _NOT_EXPLAINED
    return location.why or f"The bisection ended without a culprit: {location.status}."


def _luck(verdicts: Iterable[Verdict]) -> str:
    """That it may be chance; empty where of any series that is not so, or not known."""
    told = [luck_of(one) for one in verdicts]
    return f"{str(told[0]).capitalize()}." if all(luck and luck.is_enough for luck in told) else ""


def _broken(judgements: Iterable[Judgement], night: str, nights: int) -> list[IssueFinding]:
    groups: dict[tuple[str, ...], dict[object, Verdict]] = defaultdict(dict)
    for verdict in (one for judgement in judgements for one in judgement.verdicts):
        if failed_runs(verdict) >= max(nights, 1):
            series = verdict.series
            groups[series.repo, series.benchmark, series.model].setdefault(series, verdict)
    return [
        IssueFinding(
            "broken",
            cause_fingerprint("broken", *key),
            tuple(
                IssueRow(series=one.series, old=one.old, new=one.new, night=night) for one in group.values()
            ),
            tuple(group.values()),
            why=max(group.values(), key=failed_runs).why,
        )
        for key, group in groups.items()
    ]


def failed_runs(verdict: Verdict) -> float:
    """Runs in a row that the series has failed, the newest included; 0 where that is not known."""
    runs = verdict.evidence.get("failing")
    return runs if isinstance(runs, int | float) and not isinstance(runs, bool) and runs < inf else 0
