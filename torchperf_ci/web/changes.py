"""Changes of level, and the culprits that bisections have proven for them, with their evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from torchperf_ci.culprits.culprit import Bisection, Culprit, OperatorCost, parse_culprits
from torchperf_ci.document import signed
from torchperf_ci.errors import CulpritsError
from torchperf_ci.metrics import rounded
from torchperf_ci.store.judged_files import CULPRITS, judged_texts

if TYPE_CHECKING:
    from torchperf_ci.series.level_changes import LevelChange
    from torchperf_ci.series.policy import MetricRule
    from torchperf_ci.stats.effect import Effect
    from torchperf_ci.store.client import Store

MAX_OPERATORS = 3
"""Most operators that are named for a culprit, the largest change of time first."""


@dataclass(frozen=True)
class ChangeEntry:
    """A change of level. ``ratio``, new over old, and its 95% interval are None if the change has no ratio.

    ``last_commit`` is the last that was measured at the old level, ``first_commit`` the first at the new one;
    ``recovered`` is when a regression ended, None while it lasts. If the two commits are PyTorch's, ``own_commits`` are
    those of the repository whose jobs measured.
    """

    time: int
    word: str
    old: float | None
    new: float | None
    ratio: float | None
    low: float | None
    high: float | None
    last_commit: str
    first_commit: str
    recovered: int | None
    own_commits: Sequence[str] | None = None

    @property
    def is_open(self) -> bool:
        """Whether it is a regression that lasts."""
        return self.word == "regressed" and self.recovered is None


@dataclass(frozen=True)
class ProvenCulprit:
    """A culprit of a bisection.

    ``tracker`` is the URL of the repository that has the issues, by default the one that was bisected.
    """

    culprit: Culprit
    bisection: Bisection
    tracker: str = ""

    @property
    def commit(self) -> str:
        """The commit of the culprit; the last one of several that could not be told apart."""
        return self.culprit.commit or self.culprit.set[-1]

    @property
    def sides(self) -> tuple[str, str]:
        """The good and the bad commit between which the bisection searched."""
        return self.bisection.good, self.bisection.bad

    @property
    def evidence(self) -> Mapping[str, object]:
        """The commit and the evidence against it. ``high`` is None if the interval of ``ratio``, new/old, is open.

        ``url`` is the commit's page, ``issues`` a search for the issues that name it; both are None if unknown.
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
        """The culprit with facts of its bisection: ``command`` repeats it, ``inside`` are operators that changed."""
        culprit, bisection = self.culprit, self.bisection
        moved = culprit.inside.moved[:MAX_OPERATORS] if culprit.inside else ()
        return {
            "culprit": self.evidence,
            "author": culprit.author,
            "date": culprit.date,
            **{name: getattr(bisection, name) for name in ("repo", "good", "bad", "machine")},
            "series": [series.name for series in culprit.series],
            "inside": [_operator(operator) for operator in moved],
            "command": bisection.command,
        }


def change_entry(change: LevelChange, rule: MetricRule) -> ChangeEntry:
    """Return the entry of a change of level, without its culprits."""
    own = (change.last.commit, change.first.commit)
    return ChangeEntry(
        change.first.timestamp,
        change.word,
        rounded(change.old),
        rounded(change.new),
        *rounded_effect(change.effect if rule.kind == "ratio" else None),
        *change.commits,
        change.recovered.timestamp if change.recovered else None,
        own if own != change.commits else None,
    )


def rounded_effect(effect: Effect | None) -> tuple[float | None, float | None, float | None]:
    """Return the ratio and its interval, rounded; None where there is no ratio, or an end is open."""
    if not effect:
        return None, None, None
    ratio, low, high = (rounded(end) for end in (effect.ratio, effect.low, effect.high))
    return ratio, low or None, high if isfinite(high) else None


def with_culprits(change: ChangeEntry, culprits: Iterable[ProvenCulprit]) -> Mapping[str, object]:
    """Return a change with the culprits that a bisection found between the commits around it."""
    ranges = {(change.last_commit, change.first_commit), tuple(change.own_commits or ())}
    return vars(change) | {
        "culprits": [entry.evidence for entry in culprits if all(entry.sides) and entry.sides in ranges]
    }


def proven_culprits(bisections: Iterable[Bisection], tracker: str = "") -> list[ProvenCulprit]:
    """Return the culprits of all bisections, newest first, each commit once per range."""
    culprits = [
        ProvenCulprit(culprit, bisection, tracker)
        for bisection in bisections
        for culprit in bisection.culprits
    ]
    distinct = {(*entry.sides, entry.commit): entry for entry in culprits}
    return sorted(distinct.values(), key=lambda entry: (entry.culprit.date, entry.commit), reverse=True)


def bisections_of_store(store: Store) -> Iterator[Bisection]:
    """Yield all ingested bisections that can be read; none if the store has no table for them."""
    for text in judged_texts(store, CULPRITS) if store.has_table("torchperf_judged") else ():
        with suppress(CulpritsError):
            yield parse_culprits("culprits", text)


def _operator(operator: OperatorCost) -> str:
    """Return the change of an operator's time in words, such as ``aten::bmm: +0.371 ms``."""
    return f"{operator.name}: {signed((operator.new_ms or 0.0) - (operator.old_ms or 0.0), '.3g')} ms"
