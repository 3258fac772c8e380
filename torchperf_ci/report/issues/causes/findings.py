"""From what a night judged and bisected to what issues are about."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from torchperf_ci.report.issues.causes.bisections import bisected
from torchperf_ci.report.issues.causes.blaming import blamed
from torchperf_ci.report.issues.causes.finding import Finding, Row
from torchperf_ci.report.issues.causes.fingerprint import fingerprint
from torchperf_ci.series.disturbance import MARK
from torchperf_ci.verdicts.luck import luck_of
from torchperf_ci.verdicts.turn import turn_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchperf_ci.culprits.culprit import Location
    from torchperf_ci.verdicts.verdict import Judgement, Verdict

_NOT_BISECTED = "It is in the history; nobody has bisected between the two commits yet."
_NO_RANGE = "The history does not say between which commits it lies, so nobody could bisect it."
_NOT_EXPLAINED = "Between the two commits several culprits are proven, and of none of them what it did here."


def findings_of(
    judgements: Sequence[Judgement], locations: Sequence[Location], night: str, broken_nights: int
) -> list[Finding]:
    """What there is to open issues about, the largest effect first and what is broken last.

    Each regressed series is in the findings of the culprits that are proven to have changed it; else in that of the one
    culprit in its range; else in the one that has no culprit. A candidate is in those of the culprits that are proven
    to have changed it, or in none. What has failed for ``broken_nights`` runs in a row is a finding of its own kind.
    """
    worse = _worse(judgements)
    found = blamed(worse, locations, night)
    explained = {row.series for finding in found for row in finding.rows}
    left = [one for one in worse if one.verdict == "regressed" and one.series not in explained]
    found += _unlocated(left, locations, night)
    ranked = sorted(found, key=lambda one: max((row.size for row in one.rows), default=0.0), reverse=True)
    return [_told(one, judgements) for one in (*ranked, *_broken(judgements, night, broken_nights))]


def _told(finding: Finding, judgements: Iterable[Judgement]) -> Finding:
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
        warnings=tuple(dict.fromkeys(note for note in notes if note.startswith(MARK))),
    )


def _worse(judgements: Iterable[Judgement]) -> list[Verdict]:
    """What regressed or looks worse, one verdict for each series: several files may judge the same."""
    verdicts = (one for judgement in judgements for one in judgement.verdicts)
    found = [one for one in verdicts if one.verdict == "regressed" or one.candidate]
    return list({one.series: one for one in reversed(found)}.values())[::-1]


def _unlocated(worse: Iterable[Verdict], locations: Sequence[Location], night: str) -> list[Finding]:
    groups: dict[tuple[str, ...], list[Verdict]] = defaultdict(list)
    for verdict in worse:
        series, turn = verdict.series, turn_of(verdict)
        ends = turn.range or (turn.last_old.name, turn.first_new.name)
        key = (series.repo, series.device, series.arch, *ends)
        groups[key].append(verdict)
    return [_without_culprit(key, group, locations, night) for key, group in groups.items()]


def _without_culprit(
    key: tuple[str, ...], verdicts: Sequence[Verdict], locations: Sequence[Location], night: str
) -> Finding:
    location = bisected(verdicts[0], locations)
    why = _why(location, known=turn_of(verdicts[0]).range is not None)
    return Finding(
        "unlocated",
        fingerprint("unlocated", *key),
        tuple(Row(one.series, one.old, one.new, one.effect, night) for one in verdicts),
        tuple(verdicts),
        location=location,
        why=" ".join(filter(None, (why, _luck(verdicts)))),
    )


def _why(location: Location | None, *, known: bool) -> str:
    if location is None:
        return _NOT_BISECTED if known else _NO_RANGE
    if location.culprits:
        return _NOT_EXPLAINED
    return location.why or f"The bisection ended without a culprit: {location.status}."


def _luck(verdicts: Iterable[Verdict]) -> str:
    """That it may be chance; empty where of any series that is not so, or not known."""
    told = [luck_of(one) for one in verdicts]
    return f"{str(told[0]).capitalize()}." if all(luck and luck.is_enough for luck in told) else ""


def _broken(judgements: Iterable[Judgement], night: str, nights: int) -> list[Finding]:
    groups: dict[tuple[str, ...], dict[object, Verdict]] = defaultdict(dict)
    for verdict in (one for judgement in judgements for one in judgement.verdicts):
        if failing(verdict) >= max(nights, 1):
            series = verdict.series
            groups[series.repo, series.benchmark, series.model].setdefault(series, verdict)
    return [
        Finding(
            "broken",
            fingerprint("broken", *key),
            tuple(Row(series=one.series, old=one.old, new=one.new, night=night) for one in group.values()),
            tuple(group.values()),
            why=max(group.values(), key=failing).why,
        )
        for key, group in groups.items()
    ]


def failing(verdict: Verdict) -> float:
    """Runs in a row that the series has failed, the newest included; 0 where that is not known."""
    runs = verdict.evidence.get("failing")
    return runs if isinstance(runs, int | float) and not isinstance(runs, bool) and runs < inf else 0
