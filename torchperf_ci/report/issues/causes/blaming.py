"""Which regressed series a proven culprit is to blame for."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from torchperf_ci.metrics import bisected_as
from torchperf_ci.report.issues.causes.bisections import bisected, machine_of, was_measured
from torchperf_ci.report.issues.causes.finding import Finding, Row
from torchperf_ci.report.issues.causes.fingerprint import fingerprint
from torchperf_ci.series.series import Series

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchperf_ci.culprits.culprit import Change, Culprit, Location
    from torchperf_ci.verdicts.verdict import Verdict

_NAME = re.compile(r"(?P<model>.+) (?P<metric>\S+) \((?P<how>[^()]*)\)")
_WAYS = ("mode", "dtype", "backend", "device")


def blamed(worse: Sequence[Verdict], locations: Sequence[Location], night: str) -> list[Finding]:
    """A finding for each culprit, whichever machines proved it; the clearest of them stands for it.

    ``worse`` are the regressed series and the candidates.
    """
    found: dict[str, Finding] = {}
    for location in locations:
        for culprit in location.culprits:
            one = _finding(culprit, location, worse, locations, night)
            known = found.get(one.fingerprint)
            found[one.fingerprint] = _joined(known, one) if known else one
    return list(found.values())


def name_of(series: Series) -> str:
    """What a bisection calls a series: the ratio to an anchor is measured as the latency that it moves with."""
    return str(replace(series, metric=bisected_as(series.metric) or series.metric))


def _finding(
    culprit: Culprit, location: Location, worse: Sequence[Verdict], locations: Sequence[Location], night: str
) -> Finding:
    verdicts = [
        one
        for one in worse
        if _names(culprit, one, location, locations) or _in_its_range(one, location, locations)
    ]
    shown = {
        row.series: row for change in culprit.series for row in _proven(change, verdicts, location, night)
    }
    seen = [
        Row(one.series, one.old, one.new, one.effect, night) for one in verdicts if one.series not in shown
    ]
    return Finding(
        "culprit",
        fingerprint("culprit", culprit.set[-1], "worse"),
        (*shown.values(), *seen),
        tuple(verdicts),
        culprit,
        location,
    )


def _names(culprit: Culprit, verdict: Verdict, location: Location, locations: Sequence[Location]) -> bool:
    """Whether a culprit names a series: on its own machine, or, if it regressed, on one that nobody bisected on."""
    if all(change.name != name_of(verdict.series) for change in culprit.series):
        return False
    return was_measured(location, verdict.series) or (verdict.is_red and bisected(verdict, locations) is None)


def _in_its_range(verdict: Verdict, location: Location, locations: Sequence[Location]) -> bool:
    """Whether a proven verdict that no culprit names can only be the work of the one culprit that its range has."""
    if not verdict.is_red or len(location.culprits) != 1 or bisected(verdict, [location]) is None:
        return False
    named = {change.name for one in locations for culprit in one.culprits for change in culprit.series}
    return name_of(verdict.series) not in named


def _proven(change: Change, verdicts: Sequence[Verdict], location: Location, night: str) -> Iterator[Row]:
    """The rows whose effect is that of the pairs: of the machine that bisected, and of no other."""
    here = [
        one for one in verdicts if name_of(one.series) == change.name and was_measured(location, one.series)
    ]
    for one in here:
        yield Row(one.series, one.old, one.new, change.effect or one.effect, night, change.effect is not None)
    if not here:
        near = next((one.series for one in verdicts), None)
        yield Row(_series(change.name, location, near), effect=change.effect, night=night, proven=True)


def _series(name: str, location: Location, near: Series | None) -> Series:
    """A series of which tonight's files have no verdict, out of its name; ``near`` is one of the same culprit."""
    found = _NAME.fullmatch(name)
    how = found["how"].split(" ") if found else []
    arch, device = machine_of(location)
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


def _joined(one: Finding, other: Finding) -> Finding:
    """Both as one, of which the larger effect tells; a row that is proven goes before one that is not."""
    first, second = sorted((one, other), key=_clearness, reverse=True)
    rows = {row.series: row for row in sorted((*second.rows, *first.rows), key=lambda row: row.proven)}
    verdicts = {verdict.series: verdict for verdict in (*second.verdicts, *first.verdicts)}
    return replace(first, rows=tuple(rows.values()), verdicts=tuple(verdicts.values()))


def _clearness(finding: Finding) -> float:
    return max((row.size for row in finding.rows if row.proven), default=0.0)
