"""Turn verdicts and bisections of a night into findings, one for each cause that deserves an issue."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING

from torchperf_ci.document import Document, short
from torchperf_ci.issues.memory import IssueKind, IssueRow
from torchperf_ci.metrics import bisected_as, kind_of
from torchperf_ci.series.outcomes import DISTURBED_MARK
from torchperf_ci.series.points import Series, SeriesGroup
from torchperf_ci.verdicts.headline import suspect_machines, with_ranges_of_machines
from torchperf_ci.verdicts.verdict import Judgement, RepeatOptions, Verdict, all_verdicts, commit_ends_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from torchperf_ci.culprits.culprit import Bisection, Culprit, SeriesEffect


@dataclass(frozen=True)
class IssueFinding:
    """The subject of one issue. ``fingerprint`` identifies the cause, independent of the run that found it.

    ``why`` says in one sentence why no commit is named, or what is broken. ``reproduction`` says how to measure its
    series again, if the verdicts file does. ``warnings`` report disturbances of the measurement. ``document`` is the
    text of the issue, if it is not composed from the other fields.
    """

    kind: IssueKind
    fingerprint: str
    rows: tuple[IssueRow, ...]
    verdicts: tuple[Verdict, ...] = ()
    culprit: Culprit | None = None
    bisection: Bisection | None = None
    why: str = ""
    reproduction: RepeatOptions | None = None
    warnings: tuple[str, ...] = ()
    document: Document | None = None

    @property
    def suspects(self) -> tuple[str, ...]:
        """The fingerprints of the commits of a set, of which one is the culprit; empty if one commit is proven."""
        commits = self.culprit.set if self.culprit else ()
        return tuple(map(culprit_fingerprint, commits)) if len(commits) > 1 else ()

    @property
    def names(self) -> set[str]:
        """Its fingerprint, and those of its suspects."""
        return {self.fingerprint, *self.suspects}

    @property
    def rank(self) -> tuple[bool, float]:
        """What decides which findings get an issue if there are too many; the largest comes first.

        Changes without a ratio to rank by, such as those of counts, come before all others.
        """
        largest = max((row.size for row in self.rows), default=0.0)
        return any(verdict.effect is None for verdict in self.verdicts), largest


FINGERPRINT_LENGTH = 16
"""Hexadecimal digits; the probability of any collision among a million causes is 3e-8."""


def cause_fingerprint(kind: IssueKind, *parts: str) -> str:
    """16 hexadecimal digits that identify a cause."""
    named = "\0".join((kind, *parts)).encode("utf-8", "replace")
    return hashlib.sha256(named).hexdigest()[:FINGERPRINT_LENGTH]


def culprit_fingerprint(*commits: str) -> str:
    """The fingerprint of a proven commit, or of a set of commits."""
    return cause_fingerprint("culprit", *commits, "worse")


def findings_of(
    judgements: Sequence[Judgement], bisections: Sequence[Bisection], night: str, broken_nights: int
) -> list[IssueFinding]:
    """The findings of a night, by :attr:`IssueFinding.rank` and broken benchmarks last.

    A regressed series belongs to the culprits proven to have changed it, else to a finding without a culprit. A
    candidate belongs to the culprits proven to have changed it, or to no finding.
    Benchmarks that failed in ``broken_nights`` runs in a row are findings of their own kind.
    """
    worse = _worse(judgements)
    slow = _culprit_findings(worse, bisections, night)
    explained = {row.series for finding in slow for row in finding.rows}
    unexplained = [
        verdict for verdict in worse if verdict.verdict == "regressed" and verdict.series not in explained
    ]
    suspect = suspect_machines(all_verdicts(judgements))
    slow += _unlocated_findings(with_ranges_of_machines(unexplained, suspect), bisections, suspect, night)
    slow.sort(key=attrgetter("rank"), reverse=True)
    findings = (*slow, *_broken_findings(judgements, night, broken_nights))
    return [_with_facts_of_files(finding, judgements) for finding in findings]


def _worse(judgements: Iterable[Judgement]) -> list[Verdict]:
    """Regressions and candidates, one verdict per series, because several files may judge it: a regression if any."""
    verdicts = all_verdicts(judgements)
    regressed = [verdict for verdict in verdicts if verdict.verdict == "regressed"]
    worse = [*regressed, *(verdict for verdict in verdicts if verdict.candidate)]
    return list({verdict.series: verdict for verdict in reversed(worse)}.values())[::-1]


def _with_facts_of_files(finding: IssueFinding, judgements: Iterable[Judgement]) -> IssueFinding:
    """The finding with the repeat options and warnings from the files of its verdicts."""
    series = {verdict.series for verdict in finding.verdicts}
    files = [file for file in judgements if any(verdict.series in series for verdict in file.verdicts)]
    notes = [
        *(finding.bisection.notes if finding.bisection else ()),
        *(note for file in files for note in file.notes),
    ]
    return replace(
        finding,
        reproduction=next((file.reproduction for file in files if file.reproduction), None),
        warnings=tuple(dict.fromkeys(note for note in notes if note.startswith(DISTURBED_MARK))),
    )


def _culprit_findings(
    worse: Sequence[Verdict], bisections: Sequence[Bisection], night: str
) -> list[IssueFinding]:
    """One finding per culprit, whichever machines proved it, presented by the clearest of them.

    A set of commits belongs to one of them that is proven, else to another set that shares a commit with it.
    """
    findings = [
        _culprit_finding(culprit, bisection, worse, bisections, night)
        for bisection in bisections
        for culprit in bisection.culprits
    ]
    distinct: dict[str, IssueFinding] = {}
    for finding in sorted(findings, key=lambda finding: bool(finding.suspects)):
        known = next((earlier for earlier in distinct.values() if earlier.names & finding.names), finding)
        distinct[known.fingerprint] = finding if known is finding else _merged(known, finding)
    return list(distinct.values())


def _culprit_finding(
    culprit: Culprit,
    bisection: Bisection,
    worse: Sequence[Verdict],
    bisections: Sequence[Bisection],
    night: str,
) -> IssueFinding:
    of_range = [verdict for verdict in worse if _bisections_of_range(verdict, [bisection])]
    verdicts = [
        verdict
        for verdict in worse
        if _names_series(culprit, verdict, bisection, bisections, of_range)
        or _is_of_unnamed(culprit, verdict, bisection)
    ]
    here: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        if bisection.ran_on(verdict.series.device, verdict.series.arch):
            here.setdefault(_bisected_name(verdict.series), []).append(verdict)
    alike = verdicts[0].series if verdicts else None
    proven = {
        row.series: row
        for change in culprit.series
        for row in _rows_of_change(change, here.get(change.name, []), alike, bisection, night)
    }
    seen = [_seen_row(verdict, night) for verdict in verdicts if verdict.series not in proven]
    return IssueFinding(
        "culprit",
        culprit_fingerprint(*culprit.set),
        (*proven.values(), *seen),
        tuple(verdicts),
        culprit,
        bisection,
    )


def _seen_row(verdict: Verdict, night: str) -> IssueRow:
    """The row of a verdict, with numbers from history."""
    machine = verdict.evidence.machine
    return IssueRow(verdict.series, verdict.old, verdict.new, verdict.effect, night, machine=machine)


def _merged(known: IssueFinding, other: IssueFinding) -> IssueFinding:
    """The two findings as one, presented by the proven commit with the larger effect; proven rows replace others."""
    first, second = sorted((known, other), key=lambda it: (not it.suspects, _proven_size(it)), reverse=True)
    rows = {row.series: row for row in sorted((*second.rows, *first.rows), key=lambda row: row.proven)}
    verdicts = {verdict.series: verdict for verdict in (*second.verdicts, *first.verdicts)}
    return replace(first, rows=tuple(rows.values()), verdicts=tuple(verdicts.values()))


def _proven_size(finding: IssueFinding) -> float:
    return max((row.size for row in finding.rows if row.proven), default=0.0)


def _names_series(
    culprit: Culprit,
    verdict: Verdict,
    bisection: Bisection,
    bisections: Sequence[Bisection],
    of_range: Sequence[Verdict],
) -> bool:
    """Whether a culprit names a series on its machine, or a regressed series on a machine without a bisection.

    The latter must not have been at its old level after the bisected range, of which are the verdicts ``of_range``.
    Series of other repositories have the same names.
    """
    name = _bisected_name(verdict.series)
    is_foreign = of_range and all(it.series.repo != verdict.series.repo for it in of_range)
    if is_foreign or all(change.name != name for change in culprit.series):
        return False
    if bisection.ran_on(verdict.series.device, verdict.series.arch):
        return True
    ends = [it.evidence.commits.first_new.timestamp for it in of_range]
    is_later = 0 < max(ends, default=0) <= verdict.evidence.commits.last_old.timestamp
    return verdict.is_red and _bisection_of(verdict, bisections) is None and not is_later


def _is_of_unnamed(culprit: Culprit, verdict: Verdict, bisection: Bisection) -> bool:
    """Whether a regression is of the range of a culprit, the only one there, whose file does not name its series."""
    is_only = len(bisection.culprits) == 1 and not culprit.series
    return is_only and verdict.is_red and _bisection_of(verdict, [bisection]) is not None


def _rows_of_change(
    change: SeriesEffect, here: Sequence[Verdict], alike: Series | None, bisection: Bisection, night: str
) -> Iterator[IssueRow]:
    """The rows with the effect from pairs: those ``here``, on the machine that bisected, and no others.

    Pairs tell the ratio of counts plus 1, of which a reader makes nothing: history has the counts themselves.
    ``alike`` is any series of the same culprit.
    """
    series = here[0].series if here else _series_named(change.name, bisection, alike)
    effect = None if kind_of(series.metric) == "count" else change.effect
    for row in [_seen_row(verdict, night) for verdict in here] or [IssueRow(series, night=night)]:
        yield replace(row, effect=effect, proven=True) if change.effect or not here else row


def _bisected_name(series: Series) -> str:
    """The name of the series in a bisection, which measures the ratio to an anchor as the underlying latency."""
    return str(replace(series, metric=bisected_as(series.metric) or series.metric))


_SERIES_NAME = re.compile(r"(?P<model>.+) (?P<metric>\S+) \((?P<case>[^()]*)\)")
_CASE_FIELDS = ("mode", "dtype", "backend", "device")


def _series_named(name: str, bisection: Bisection, alike: Series | None) -> Series:
    """Parse the name of a series without a verdict tonight; ``alike`` is a series of the same culprit."""
    parts = _SERIES_NAME.fullmatch(name)
    words = parts["case"].split(" ") if parts else []
    machine = bisection.kind_of_machine
    case = dict.fromkeys(_CASE_FIELDS, "") | {"device": machine["device"] if machine else ""}
    if len(words) == len(_CASE_FIELDS):
        case = dict(zip(_CASE_FIELDS, words, strict=True))
    return Series(
        repo=alike.repo if alike else "",
        benchmark=alike.benchmark if alike else "",
        model=parts["model"] if parts else name,
        metric=parts["metric"] if parts else "",
        arch=machine["arch"] if machine else bisection.machine,
        **case,
    )


def _bisection_of(verdict: Verdict, bisections: Sequence[Bisection]) -> Bisection | None:
    """The bisection of exactly the verdict's range, on its kind of machine."""
    fitting, series = _bisections_of_range(verdict, bisections), verdict.series
    return next((bisection for bisection in fitting if bisection.ran_on(series.device, series.arch)), None)


def _bisections_of_range(verdict: Verdict, bisections: Sequence[Bisection]) -> list[Bisection]:
    """The bisections of exactly the verdict's range, in either repository, on any machine."""
    ranges = commit_ends_of([verdict.evidence.commits])
    return [bisection for bisection in bisections if (bisection.good, bisection.bad) in ranges]


def _unlocated_findings(
    regressed: Iterable[Verdict],
    bisections: Sequence[Bisection],
    suspect: Mapping[SeriesGroup, str],
    night: str,
) -> list[IssueFinding]:
    """Regressions without a culprit, one finding per commit range and kind of device.

    A machine has a finding of its own if its range was bisected anywhere or is not known, or if it is ``suspect``. A
    cause whose range is not known is identified by its series, too, and what the culprits of a range do not explain by
    these.
    """
    machines: dict[tuple[str, ...], list[Verdict]] = defaultdict(list)
    for verdict in regressed:
        series, commits = verdict.series, verdict.evidence.commits
        old, new = commits.range or (commits.last_old.name, commits.first_new.name)
        machines[series.repo, series.device, series.arch, old, new].append(verdict)
    groups: dict[tuple[str, ...], list[Verdict]] = defaultdict(list)
    for (repo, device, arch, old, new), verdicts in machines.items():
        rangeless = sorted(str(it.series) for it in verdicts if not it.evidence.commits.range)
        is_own = rangeless or any(
            it.series.group in suspect or _bisections_of_range(it, bisections) for it in verdicts
        )
        groups[(repo, device, arch if is_own else "", old, new, *rangeless)] += verdicts
    return [
        IssueFinding(
            kind="unlocated",
            bisection=(bisection := _bisection_of(verdicts[0], bisections)),
            fingerprint=cause_fingerprint(
                "unlocated",
                *(repo, device, *sorted({it.series.arch for it in verdicts}), *ends),
                *(commit for culprit in (bisection.culprits if bisection else ()) for commit in culprit.set),
            ),
            rows=tuple(_seen_row(verdict, night) for verdict in verdicts),
            verdicts=tuple(verdicts),
            why=" ".join(filter(None, _whys(verdicts, bisection, bisections, suspect))),
        )
        for (repo, device, _, *ends), verdicts in groups.items()
    ]


def _whys(
    verdicts: Sequence[Verdict],
    bisection: Bisection | None,
    bisections: Sequence[Bisection],
    suspect: Mapping[SeriesGroup, str],
) -> Iterator[str]:
    """Sentences on why no commit is named, and on what else may be the cause."""
    yield _answer(bisection) if bisection else _why_not_bisected(verdicts[0], bisections)
    if not bisection:
        parts = dict.fromkeys(verdict.series.group for verdict in verdicts)
        yield from (f"{suspect[part]}." for part in parts if part in suspect)
    yield _build_variance(verdicts)


def _why_not_bisected(verdict: Verdict, bisections: Sequence[Bisection]) -> str:
    if verdict.evidence.commits.is_one_commit:
        return "Both levels are of the same commit, so something else has changed, such as the machine."
    if verdict.evidence.commits.range is None:
        return "The history does not say between which commits it changed, so it could not be bisected."
    known = "The change is in the history; the range between the two commits has"
    for elsewhere in _bisections_of_range(verdict, bisections):
        return f"{known} only been bisected on {elsewhere.machine}. {_answer(elsewhere)}"
    return f"{known} not been bisected yet."


def _answer(bisection: Bisection) -> str:
    if bisection.culprits:
        one = "One commit in this range is a proven culprit"
        several = "Several commits in this range are proven culprits"
        return f"{several if len(bisection.culprits) > 1 else one}, but for other series."
    why = bisection.why or f"the bisection ended without a culprit: {bisection.status}"
    return f"{why[0].upper()}{why[1:].removesuffix('.')}."


def _build_variance(verdicts: Iterable[Verdict]) -> str:
    """A sentence that the change may be build luck; empty unless that is known for every series."""
    lucks = [verdict.evidence.luck for verdict in verdicts]
    return f"{str(lucks[0]).capitalize()}." if all(luck and luck.explains_change for luck in lucks) else ""


_MAX_ERROR_LENGTH = 2000


def _broken_findings(judgements: Iterable[Judgement], night: str, nights: int) -> list[IssueFinding]:
    """The benchmarks that have failed in at least ``nights`` runs in a row, each with all its variants."""
    groups: dict[tuple[str, ...], dict[Series, Verdict]] = defaultdict(dict)
    for verdict in all_verdicts(judgements):
        if verdict.evidence.failing >= max(nights, 1):
            series = verdict.series
            groups[series.repo, series.benchmark, series.model].setdefault(series, verdict)
    return [
        IssueFinding(
            "broken",
            cause_fingerprint("broken", *key),
            tuple(
                IssueRow(verdict.series, verdict.old, verdict.new, night=night)
                for verdict in verdicts.values()
            ),
            tuple(verdicts.values()),
            why=short(max(verdicts.values(), key=lambda it: it.evidence.failing).why, _MAX_ERROR_LENGTH),
        )
        for key, verdicts in groups.items()
    ]
