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
    from collections.abc import Iterable, Iterator, Mapping

    from torchperf_ci.culprits.culprit import Bisection, Culprit, OperatorCost
    from torchperf_ci.store.client import Store

MOST_OPERATORS = 3
"""So many of the operators that moved are named, the largest change of time first."""


@dataclass(frozen=True)
class ProvenCulprit:
    """A culprit of a bisection.

    ``tracker`` is the page of the repository that has the issues, by default the one that was bisected.
    """

    culprit: Culprit
    bisection: Bisection
    tracker: str = ""

    @property
    def commit(self) -> str:
        """Its commit; of several that could not be told apart the last."""
        return self.culprit.commit or self.culprit.set[-1]

    @property
    def sides(self) -> tuple[str, str]:
        """The commits that the bisection was between."""
        return self.bisection.good, self.bisection.bad

    @property
    def evidence(self) -> Mapping[str, object]:
        """The commit, and how sure that is. The interval of ``ratio``, new over old, may be open: ``high`` is None.

        ``url`` is the commit's page, ``issues`` a search for the issues that name it, both None where nobody knows.
        """
        culprit, effect, page = self.culprit, self.culprit.effect, self.tracker or self.bisection.repo
        search = urlencode({"q": f"is:issue {self.commit}"})
        return {
            "commit": self.commit,
            "subject": culprit.subject,
            "posterior": culprit.posterior,
            "pairs": effect.pairs,
            "ratio": effect.ratio,
            "low": effect.low,
            "high": effect.high if isfinite(effect.high) else None,
            "url": culprit.url,
            "issues": f"{page}/issues?{search}" if page.startswith("https://") else None,
        }

    @property
    def entry(self) -> Mapping[str, object]:
        """It with what its bisection tells beside: ``command`` repeats that, ``inside`` is what profiles showed."""
        culprit, bisection = self.culprit, self.bisection
        moved = culprit.inside.moved[:MOST_OPERATORS] if culprit.inside else ()
        return {
            "culprit": self.evidence,
            "author": culprit.author,
            "date": culprit.date,
            **{name: getattr(bisection, name) for name in ("repo", "good", "bad", "machine")},
            "series": [series.name for series in culprit.series],
            "inside": [_operator(one) for one in moved],
            "command": bisection.command,
        }


def proven_culprits(bisections: Iterable[Bisection], tracker: str = "") -> list[ProvenCulprit]:
    """Those of all bisections, the newest first, each commit of a range once."""
    culprits = [
        ProvenCulprit(culprit, bisection, tracker)
        for bisection in bisections
        for culprit in bisection.culprits
    ]
    found = {(*one.sides, one.commit): one for one in culprits}
    return sorted(found.values(), key=lambda one: (one.culprit.date, one.commit), reverse=True)


def bisections_of_store(store: Store) -> Iterator[Bisection]:
    """All that were taken in and can be read; none where the store has no table of them."""
    for text in judged_texts(store, CULPRITS) if store.has_table("torchperf_judged") else ():
        with suppress(CulpritsError):
            yield parse_culprits("culprits", text)


def _operator(one: OperatorCost) -> str:
    """``aten::bmm: +0.371 ms``."""
    return f"{one.name}: {(one.new_ms or 0.0) - (one.old_ms or 0.0):+.3g} ms"
