"""What a bisection came to, as tables: plain text, not yet made safe for Markdown or a terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchperf_ci.culprits.words import NAME_LENGTH, TEXT_LENGTH, likely, sha, versions
from torchperf_ci.document import short
from torchperf_ci.verdicts.rows import change

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchperf_ci.culprits.culprit import Culprit, Location, Measurement, Operator
    from torchperf_ci.stats.effect import Effect


@dataclass(frozen=True)
class Table:
    """Rows under ``columns``, of which the last one holds the longest texts."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def changes(culprit: Culprit) -> Table:
    """What the culprit did to which series; the whole effect where nobody says to which."""
    return _effects([(one.name, one.effect) for one in culprit.series] or [("", culprit.effect)])


def inside(culprit: Culprit) -> Table:
    """What moved inside a step of the probe; no rows where nobody has looked, or nothing stands out."""
    rows = culprit.inside.moved if culprit.inside else ()
    return Table(("change (ms)", "ms a step", "times a step", "kind", "name"), tuple(map(_operator, rows)))


def shown(location: Location) -> dict[str, Table]:
    """By title, what everybody must see beside the culprits; nothing is empty."""
    tables = {
        "Bad against good": _effects([] if location.culprits else location.confirmed.items()),
        "Suspects that are left": _suspects(location),
        "Changed beside the code": _dependencies(location),
    }
    return _filled(tables)


def folded(location: Location) -> dict[str, Table]:
    """By title, what those want who ask how it is known; nothing is empty."""
    tables = {
        "Bad against good": _effects(location.confirmed.items() if location.culprits else []),
        f"Commits that could not be measured: {len(location.skipped)}": _skipped(location),
        f"Measurements: {len(location.readings)}": _measurements(location),
    }
    return _filled(tables)


def _filled(tables: dict[str, Table]) -> dict[str, Table]:
    return {title: table for title, table in tables.items() if table.rows}


def _effects(effects: Iterable[tuple[str, Effect | None]]) -> Table:
    rows = ((*_numbers(effect), short(series, NAME_LENGTH)) for series, effect in effects)
    return Table(("change (95%)", "pairs", "series"), tuple(rows))


def _numbers(effect: Effect | None) -> tuple[str, str]:
    return (change(effect), str(effect.pairs or "")) if effect else ("", "")


def _operator(one: Operator) -> tuple[str, ...]:
    change_ms = (one.new_ms or 0) - (one.old_ms or 0)
    sign = "−" if change_ms < 0 else "+" if change_ms else ""
    same = one.old_count == one.new_count
    return (
        f"{sign}{_short(abs(change_ms))}",
        f"{_short(one.old_ms)} → {_short(one.new_ms)}",
        _short(one.new_count) if same else f"{_short(one.old_count)} → {_short(one.new_count)}",
        one.kind,
        short(one.name, NAME_LENGTH),
    )


def _short(number: float | None) -> str:
    """Three digits, and a dash where there is nothing."""
    if number is None:
        return "–"
    return f"{number:.3g}" if number < 1000 else f"{number:,.0f}"


def _suspects(location: Location) -> Table:
    ranked = sorted(location.credible, key=lambda suspect: suspect.posterior, reverse=True)
    rows = ((sha(one.commit), likely(one.posterior), short(one.subject, NAME_LENGTH)) for one in ranked)
    return Table(("commit", "likely", "subject"), tuple(rows))


def _dependencies(location: Location) -> Table:
    rows = ((short(one.name, NAME_LENGTH), short(versions(one), NAME_LENGTH)) for one in location.moved)
    return Table(("dependency", "old → new"), tuple(rows))


def _skipped(location: Location) -> Table:
    rows = ((sha(one.commit), short(one.why, TEXT_LENGTH)) for one in location.skipped)
    return Table(("commit", "why"), tuple(rows))


def _measurements(location: Location) -> Table:
    columns = ("purpose", "base", "head", "seconds", "what", "ln(head/base), positive is worse")
    return Table(columns, tuple(map(_measurement, location.readings)))


def _drawn(commit: str, draw: int) -> str:
    """The commit, and which of the builds of it that were made anew."""
    return f"{sha(commit)} #{draw}" if draw else sha(commit)


def _measurement(one: Measurement) -> tuple[str, ...]:
    ratios = ", ".join(f"{series} {ratio:+.4f}" for series, ratio in one.log_ratios.items())
    return (
        short(one.purpose, NAME_LENGTH),
        _drawn(one.base, one.draws[0]),
        _drawn(one.head, one.draws[1]),
        f"{one.seconds:.0f}",
        short(one.probe, NAME_LENGTH),
        short(ratios, TEXT_LENGTH),
    )
