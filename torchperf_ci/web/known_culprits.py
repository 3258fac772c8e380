"""Commits that bisections have proven to be behind a change: whose, how sure that is, and what moved inside."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from torchperf_ci.culprits.culprit import parse_culprits
from torchperf_ci.errors import CulpritsError
from torchperf_ci.store.judged import CULPRITS, judged_texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from torchperf_ci.culprits.culprit import Bisection, Culprit, OperatorCost
    from torchperf_ci.store.client import Store

MOST_OPERATORS = 3
"""So many of the operators that moved are named, the largest change of time first."""


@dataclass(frozen=True)
class KnownCulprit:
    """A commit and its evidence. ``ratio`` is new over old, whose interval may be open: then ``high`` is None.

    ``url`` is the commit's page, ``issues`` a search for the issues that name it, both None where nobody knows.
    """

    commit: str
    subject: str
    posterior: float
    pairs: int
    ratio: float
    low: float
    high: float | None
    url: str | None
    issues: str | None


@dataclass(frozen=True)
class CulpritEntry:
    """A culprit with what its bisection tells beside: ``command`` repeats it, ``inside`` is what profiles showed."""

    culprit: KnownCulprit
    author: str
    date: str
    repo: str
    good: str
    bad: str
    machine: str
    series: Sequence[str]
    inside: Sequence[str]
    command: str


def culprit_entries(bisections: Iterable[Bisection], tracker: str = "") -> list[CulpritEntry]:
    """Those of all bisections, the newest first, each commit of a range once.

    ``tracker`` is the page of the repository that has the issues, by default the one that was bisected.
    """
    found = {
        (bisection.good, bisection.bad, commit_of_culprit(culprit)): _entry(bisection, culprit, tracker)
        for bisection in bisections
        for culprit in bisection.culprits
    }
    return sorted(found.values(), key=lambda entry: (entry.date, entry.culprit.commit), reverse=True)


def bisections_of_store(store: Store) -> Iterator[Bisection]:
    """All that were taken in and can be read; none where the store has no table of them."""
    there = "SELECT 1 FROM system.tables WHERE database = currentDatabase() AND name = 'torchperf_judged'"
    for text in judged_texts(store, CULPRITS) if store.rows(there) else ():
        with suppress(CulpritsError):
            yield parse_culprits("culprits", text)


def commit_of_culprit(culprit: Culprit) -> str:
    """Its commit; of several that could not be told apart the last."""
    return culprit.commit or culprit.set[-1]


def _entry(bisection: Bisection, culprit: Culprit, tracker: str) -> CulpritEntry:
    commit, effect = commit_of_culprit(culprit), culprit.effect
    page = tracker or bisection.repo
    search = urlencode({"q": f"is:issue {commit}"})
    return CulpritEntry(
        KnownCulprit(
            commit,
            culprit.subject,
            culprit.posterior,
            effect.pairs,
            effect.ratio,
            effect.low,
            effect.high if isfinite(effect.high) else None,
            culprit.url,
            f"{page}/issues?{search}" if page.startswith("https://") else None,
        ),
        culprit.author,
        culprit.date,
        bisection.repo,
        bisection.good,
        bisection.bad,
        bisection.machine,
        [series.name for series in culprit.series],
        [_operator(one) for one in culprit.inside.moved[:MOST_OPERATORS]] if culprit.inside else [],
        bisection.command,
    )


def _operator(one: OperatorCost) -> str:
    """``aten::bmm: +0.371 ms``."""
    return f"{one.name}: {(one.new_ms or 0.0) - (one.old_ms or 0.0):+.3g} ms"
