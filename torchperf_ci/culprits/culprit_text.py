"""Describe a bisection in sentences and tables of plain text, not yet escaped for Markdown or a terminal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from torchperf_ci.document import MOST, Column, Table, counted, short, signed
from torchperf_ci.verdicts.verdict_document import effect_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchperf_ci.culprits.culprit import (
        Bisection,
        Culprit,
        DependencyChange,
        OperatorCost,
        PairMeasurement,
    )
    from torchperf_ci.stats.effect import Effect


NAME_LENGTH = 120
TEXT_LENGTH = 300
"""Maximum lengths of names, and of sentences, that come from outside."""
_LIST_LENGTH = 2000
_SHA_LENGTH = 10
_SHA = re.compile(r"[0-9a-f]{40,64}")
_DAY_LENGTH = len("2026-11-01")
_MAX_MOVED = 10
"""Maximum rows of a table of profile changes; the largest matter most, and the profiles have the rest."""


def culprit_name(culprit: Culprit) -> str:
    """The commit and its subject, or the range of commits that the culprit is one of."""
    if culprit.commit is None:
        ends = f"{short_sha(culprit.set[0])} to {short_sha(culprit.set[-1])}"
        return f"one of {counted(len(culprit.set), 'commit')}, {ends}"
    return f"{short_sha(culprit.commit)} {short(culprit.subject, NAME_LENGTH)}".rstrip()


def byline(culprit: Culprit) -> str:
    """The author, date and pull request of the culprit, and how certain it is."""
    pull_request = f"pull request {culprit.pull_request}" if culprit.pull_request else ""
    author = f"by {short(culprit.author, NAME_LENGTH)}" if culprit.author else ""
    who = (author, culprit.date[:_DAY_LENGTH], pull_request)
    return ", ".join(part for part in (*who, f"{probability(culprit.posterior)} sure") if part)


def details(culprit: Culprit) -> list[str]:
    """Sentences on the commits the culprit is one of, the builds that prove it, and the dependencies that changed."""
    one_of = ", ".join(map(short_sha, culprit.set)) if culprit.commit is None else ""
    moves = ", ".join(f"{moved.name} {versions(moved)}" for moved in culprit.moved)
    sentences = (
        f"Only the last of them could be measured, so it is one of {one_of}" if one_of else "",
        _proven_on(*culprit.builds) if culprit.builds else "",
        f"Dependencies that changed with it: {moves}" if moves else "",
    )
    return [short(sentence, _LIST_LENGTH) for sentence in sentences if sentence]


def largest_effect(culprit: Culprit) -> str:
    """The effect, and the name of the series that shows it, if known."""
    names = [series.name for series in culprit.series if series.effect == culprit.effect][:1]
    return " ".join([effect_text(culprit.effect), *(short(name, NAME_LENGTH) for name in names)])


def question(bisection: Bisection) -> str:
    """The bisected range, the repository, and the machine."""
    of = f" of {short(bisection.repo, TEXT_LENGTH)}" if bisection.repo else ""
    on = f" on {short(bisection.machine, TEXT_LENGTH)}" if bisection.machine else ""
    return f"Between {short_sha(bisection.good)} and {short_sha(bisection.bad)}{of}{on}"


def cost(bisection: Bisection) -> str:
    """The runs, builds and time that the bisection took."""
    cost = f"{counted(bisection.runs, 'run')}, {counted(bisection.builds, 'build')}"
    measuring, building = bisection.seconds.measuring, bisection.seconds.building
    if not (measuring or building):
        return cost
    return f"{cost}; {_took(measuring)} of measuring, {_took(building)} of building"


def build_variance(bisection: Bisection) -> str:
    """How much builds of the same code differ, and how that is known; empty if nothing is built."""
    if bisection.luck is None:
        return ""
    known = {
        "rebuilds": "measured here",
        "history": "known from history",
        "expected": "expected, not measured",
    }
    source = known.get(bisection.luck.source, short(bisection.luck.source, NAME_LENGTH))
    return f"Builds of the same code differ by {bisection.luck.spread:.2%} (standard deviation, {source})"


def _proven_on(before: int, of_it: int) -> str:
    if before == of_it == 1:
        return "Proven for these two builds only: neither was rebuilt, so part of it may be build luck"
    return f"Proven on {counted(of_it, 'build')} of it and {before} of its predecessor"


def versions(moved: DependencyChange) -> str:
    """The old and the new version, ``3.5.0 → 3.6.0``, with a dash for a side on which it is not installed."""
    return f"{moved.old or '–'} → {moved.new or '–'}"


def probability(posterior: float) -> str:
    """A percentage such as ``99.7%``, but never 0% or 100%."""
    if posterior > 0.999:
        return ">99.9%"
    return f"{posterior:.1%}" if posterior >= 0.001 else "<0.1%"


def short_sha(commit: str) -> str:
    """The first digits of a SHA; versions are not shortened so, because they differ at their ends."""
    return commit[:_SHA_LENGTH] if _SHA.fullmatch(commit) else short(commit, NAME_LENGTH)


def _took(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:,.0f} min"


def effects_table(culprit: Culprit) -> Table:
    """The culprit's effect on each series, or its overall effect if no series are named."""
    return _effects_table([(row.name, row.effect) for row in culprit.series] or [("", culprit.effect)])


def profile_table(culprit: Culprit) -> Table:
    """What changed inside a step of the probe; without rows if there are no profiles or nothing stands out."""
    rows = [_operator_row(operator) for operator in culprit.inside.moved] if culprit.inside else []
    return _table(("change (ms)", "ms per step", "times per step", "kind", "name"), rows, most=_MAX_MOVED)


def result_tables(bisection: Bisection) -> list[Table]:
    """The tables that everybody should see along with the culprits, without empty ones."""
    confirmed = () if bisection.culprits else bisection.confirmed.items()
    ranked = sorted(bisection.credible, key=lambda suspect: suspect.posterior, reverse=True)
    suspects = [
        (short_sha(row.commit), probability(row.posterior), short(row.subject, NAME_LENGTH)) for row in ranked
    ]
    return _filled(
        _effects_table(confirmed, "Bad against good"),
        _table(("commit", "likely", "subject"), suspects, "Remaining suspects"),
    )


def evidence_tables(bisection: Bisection) -> list[Table]:
    """The tables for readers who want to check the result, without empty ones."""
    confirmed = bisection.confirmed.items() if bisection.culprits else ()
    skipped = [(short_sha(item.commit), short(item.why, TEXT_LENGTH)) for item in bisection.skipped]
    return _filled(
        _effects_table(confirmed, "Bad against good"),
        _table(("commit", "why"), skipped, f"Commits that could not be measured: {len(skipped):,}"),
        _table(
            ("purpose", "base", "head", "seconds", "what", "ln(head/base), positive is worse"),
            [_measurement_row(item) for item in bisection.readings],
            f"Measurements: {len(bisection.readings):,}",
        ),
    )


def _filled(*tables: Table) -> list[Table]:
    return [table for table in tables if table.rows]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], title: str = "", most: int = MOST) -> Table:
    """A table whose last column holds the longest texts."""
    *names, last = heads
    return Table([*map(Column, names), Column(last, "prose")], rows, title, most)


def _effects_table(effects: Iterable[tuple[str, Effect | None]], title: str = "") -> Table:
    rows = [(*_numbers(effect), short(series, NAME_LENGTH)) for series, effect in effects]
    return _table(("change (95%)", "pairs", "series"), rows, title)


def _numbers(effect: Effect | None) -> tuple[str, str]:
    return (effect_text(effect), str(effect.pairs or "")) if effect else ("", "")


def _operator_row(operator: OperatorCost) -> tuple[str, ...]:
    change_ms = (operator.new_ms or 0) - (operator.old_ms or 0)
    sign = "−" if change_ms < 0 else "+" if change_ms else ""
    counts = dict.fromkeys(map(_three_digits, (operator.old_count, operator.new_count)))
    return (
        f"{sign}{_three_digits(abs(change_ms))}",
        f"{_three_digits(operator.old_ms)} → {_three_digits(operator.new_ms)}",
        " → ".join(counts),
        operator.kind,
        short(operator.name, NAME_LENGTH),
    )


def _three_digits(number: float | None) -> str:
    """The number with three significant digits; a dash for None."""
    if number is None:
        return "–"
    return f"{number:.3g}" if number < 999.5 else f"{number:,.0f}"


def _measurement_row(pairs: PairMeasurement) -> tuple[str, ...]:
    ratios = ", ".join(f"{series} {signed(ratio, '.4f')}" for series, ratio in pairs.log_ratios.items())
    return (
        short(pairs.purpose, NAME_LENGTH),
        _build_name(pairs.base, pairs.draws[0]),
        _build_name(pairs.head, pairs.draws[1]),
        f"{pairs.seconds:.0f}",
        short(pairs.probe, NAME_LENGTH),
        short(ratios, TEXT_LENGTH),
    )


def _build_name(commit: str, draw: int) -> str:
    """The commit, with the number of its rebuild if it is one."""
    return f"{short_sha(commit)} #{draw}" if draw else short_sha(commit)
