"""Changes of level, and the culprits that bisections have proven for them, with their evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import isfinite, log1p
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlencode

from torchperf_ci.culprits.culprit import Bisection, Culprit, OperatorCost, parse_culprits
from torchperf_ci.document import signed
from torchperf_ci.errors import JsonFileError
from torchperf_ci.metrics import name_and_unit, rounded
from torchperf_ci.store.judged_files import CULPRITS, judged_texts

if TYPE_CHECKING:
    from torchperf_ci.series.level_changes import LevelChange
    from torchperf_ci.series.points import Series
    from torchperf_ci.series.policy import MetricRule
    from torchperf_ci.stats.effect import Effect
    from torchperf_ci.store.client import Store

OUT_OF_SIGHT = 35 * 86_400
"""Seconds without a result on one machine until a series counts as no longer measured there; a monthly benchmark has
one in between."""
MAX_OPERATORS = 3
"""Most operators that are named for a culprit, the largest change of time first."""
Entry: TypeAlias = dict[str, object]
"""A part of a document."""


@dataclass(frozen=True)
class ChangeEntry:
    """A change of level of a series, which has this ID and this name; ``old`` and ``new`` are in ``unit``.

    ``ratio``, new over old, and its 95% interval are None if the change has no ratio. ``last_commit`` is the last that
    was measured at the old level, ``first_commit`` the first at the new one; ``recovered`` is when a regression ended,
    None while it lasts; ``ended`` is when the series was last measured, None if it still is. If the two commits are
    PyTorch's, ``own_commits`` are those of the repository whose jobs measured.
    """

    series: str
    name: Mapping[str, str]
    unit: str
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
    ended: int | None
    own_commits: Sequence[str] | None = None

    @property
    def is_open(self) -> bool:
        """Whether it is a regression that lasts, as far as its series is still measured."""
        return self.word == "regressed" and self.recovered is None and self.ended is None


def change_entry(series: Series, change: LevelChange, rule: MetricRule, newest: int) -> ChangeEntry:
    """Return the entry of a change of level, without its culprits. One that does not matter is just a change.

    ``newest`` is the time of the newest run on its kind of machine.
    """
    last = change.newest.timestamp
    own = (change.last.commit, change.first.commit)
    effect = change.effect if rule.kind == "ratio" else None
    is_small = effect is not None and effect.size < log1p(rule.min_effect)
    return ChangeEntry(
        series.id,
        vars(series),
        name_and_unit(series.metric)[1],
        change.first.timestamp,
        "changed" if is_small else change.word,
        rounded(change.old),
        rounded(change.new),
        *rounded_effect(effect),
        *change.commits,
        change.recovered.timestamp if change.recovered else None,
        last if last < newest - OUT_OF_SIGHT else None,
        own if own != change.commits else None,
    )


def rounded_effect(effect: Effect | None) -> tuple[float | None, float | None, float | None]:
    """Return the ratio and its interval, rounded; None where there is no ratio, or an end is open."""
    if not effect:
        return None, None, None
    ratio, low, high = (rounded(end) for end in (effect.ratio, effect.low, effect.high))
    return ratio, low or None, high if isfinite(high) else None


def with_culprits(change: ChangeEntry, culprits: Iterable[Entry]) -> Entry:
    """Return a change with the evidence against ``culprits`` that a bisection found between the commits around it."""
    ranges = {(change.last_commit, change.first_commit), tuple(change.own_commits or ())}
    found = [entry["culprit"] for entry in culprits if (entry["good"], entry["bad"]) in ranges]
    return vars(change) | {"culprits": found}


def proven_culprits(store: Store, tracker: str = "") -> list[Entry]:
    """Return the culprits of all ingested bisections with the facts of these, newest first, each commit once per range.

    ``tracker`` is the URL of the repository that has the issues, by default the one that was bisected. The commit of a
    culprit is the last one of several that could not be told apart. ``inside`` are operators that changed, ``command``
    repeats the bisection.
    """
    found: dict[tuple[str, ...], Entry] = {}
    for bisection in _bisections(store):
        for culprit in bisection.culprits:
            commit = culprit.commit or culprit.set[-1]
            moved = culprit.inside.moved[:MAX_OPERATORS] if culprit.inside else ()
            found[commit, bisection.good, bisection.bad] = {
                "culprit": _evidence(commit, culprit, tracker or bisection.repo),
                "author": culprit.author,
                "date": culprit.date,
                **{name: getattr(bisection, name) for name in ("repo", "good", "bad", "machine")},
                "series": [series.name for series in culprit.series],
                "inside": [_operator(operator) for operator in moved],
                "command": bisection.command,
            }
    return sorted(found.values(), key=lambda entry: str(entry["date"]), reverse=True)


def _evidence(commit: str, culprit: Culprit, repository: str) -> Entry:
    """Return the commit and the evidence against it. ``high`` is None if the interval of ``ratio``, new/old, is open.

    ``url`` is the commit's page, ``issues`` a search for the issues that name it; both are None if unknown.
    """
    effect, search = culprit.effect, urlencode({"q": f"is:issue {commit}"})
    return {
        "commit": commit,
        "subject": culprit.subject,
        "posterior": culprit.posterior,
        "pairs": effect.pairs,
        "ratio": effect.ratio,
        "low": effect.low,
        "high": effect.high if isfinite(effect.high) else None,
        "url": culprit.url,
        "issues": f"{repository}/issues?{search}" if repository.startswith("https://") else None,
    }


def _bisections(store: Store) -> Iterator[Bisection]:
    """Yield all ingested bisections that can be read."""
    for text in judged_texts(store, CULPRITS):
        with suppress(JsonFileError):
            yield parse_culprits("culprits", text)


def _operator(operator: OperatorCost) -> str:
    """Return the change of an operator's time in words, such as ``aten::bmm: +0.371 ms``."""
    return f"{operator.name}: {signed((operator.new_ms or 0.0) - (operator.old_ms or 0.0), '.3g')} ms"
