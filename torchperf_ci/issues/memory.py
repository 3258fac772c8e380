"""An issue that torchperf keeps, and what it remembers of earlier nights, hidden in its body.

Its JSON holds no ``--``, ``<`` or ``>`` literally, so that it cannot end the comment, and no ``@`` or ``#``. What is
read back was open to everybody who may edit the issue: only what ``memory.schema.json`` allows is taken for ours.
"""

from __future__ import annotations

import json
import re
from dataclasses import astuple, dataclass, replace
from functools import lru_cache, partial
from math import inf
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchperf_ci.issues.findings import IssueRow
from torchperf_ci.markdown import fitted
from torchperf_ci.series.points import Series
from torchperf_ci.stats.effect import Effect

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from github.Issue import Issue
    from jsonschema.protocols import Validator

    from torchperf_ci.issues.findings import IssueFinding, IssueKind


@dataclass(frozen=True)
class IssueMemory:
    """What it is about, and since when.

    ``fingerprints`` are those of all findings that it was about, ``opened`` and ``reported`` the first and the last
    night (ISO dates) that it tells of, ``recovered`` the nights in a row on which everything was back, ``accepted``
    that somebody who may has said that it is meant to be so.
    """

    kind: IssueKind
    fingerprints: tuple[str, ...]
    rows: tuple[IssueRow, ...]
    opened: str
    reported: str
    recovered: tuple[str, ...] = ()
    accepted: bool = False


def remember_finding(memory: IssueMemory | None, finding: IssueFinding, night: str) -> IssueMemory:
    """What is remembered of a finding beside what was known; ``None`` where nothing was, and the issue is new.

    A row that is known keeps its numbers, which are the evidence of its first night, until pairs have proven them.
    """
    if memory is None:
        return IssueMemory(finding.kind, (finding.fingerprint,), _last_of_each(finding.rows), night, night)
    return replace(
        memory,
        kind=finding.kind,
        fingerprints=tuple(dict.fromkeys((*memory.fingerprints, finding.fingerprint))),
        rows=_last_of_each((*memory.rows, *finding.rows)),
        reported=max(memory.reported, night),
    )


def _last_of_each(rows: Sequence[IssueRow]) -> tuple[IssueRow, ...]:
    known: dict[Series, IssueRow] = {}
    for row in rows:
        before = known.get(row.series)
        kept = row if before is None or row.proven else before
        known[row.series] = replace(kept, night=max(row.night, before.night if before else ""))
    return tuple(known.values())


MEMORY_VERSION = 1
_LARGEST = 1e300
_MOST_PAIRS = 1_000_000
"""The largest numbers that the schema allows."""


def memory_to_json(memory: IssueMemory) -> dict[str, Any]:
    """The memory, with each name once: its rows, which must be :func:`rounded_row`, tell of them by position."""
    names = list(dict.fromkeys(name for row in memory.rows for name in astuple(row.series)))
    positions = {name: position for position, name in enumerate(names)}
    return {
        "version": MEMORY_VERSION,
        **{name: value for name, value in vars(memory).items() if name != "rows"},
        "names": names,
        "rows": [_row_to_json(row, positions) for row in memory.rows],
    }


def rounded_row(row: IssueRow) -> IssueRow:
    """The row with six digits, which are more than anybody measures, and without numbers that nobody measures."""
    return replace(row, old=_digits(row.old), new=_digits(row.new), effect=_rounded_effect(row.effect))


def memory_from_json(members: Any) -> IssueMemory | None:
    """The memory that was stored so; None where it is none. Raises :class:`IndexError` for a name that is not there."""
    if not _validator().is_valid(members):
        return None
    return IssueMemory(
        kind=members["kind"],
        fingerprints=tuple(members["fingerprints"]),
        rows=tuple(_row_from_json(item, members["names"]) for item in members["rows"]),
        opened=members["opened"],
        reported=members["reported"],
        recovered=tuple(members["recovered"]),
        accepted=members["accepted"],
    )


def _row_to_json(row: IssueRow, positions: Mapping[str, int]) -> dict[str, Any]:
    effect = row.effect
    return {
        "series": [positions[name] for name in astuple(row.series)],
        "levels": [row.old, row.new],
        "effect": [effect.ratio, effect.low, _none_for_infinity(effect.high), effect.pairs]
        if effect
        else None,
        "night": row.night,
        "proven": row.proven,
    }


def _rounded_effect(effect: Effect | None) -> Effect | None:
    ratio = _digits(effect.ratio) if effect else None
    if effect is None or ratio is None:
        return None
    low, high = _digits(effect.low), _digits(effect.high)
    return Effect(ratio, low or 0.0, high or inf, min(effect.pairs, _MOST_PAIRS))


def _digits(value: float | None) -> float | None:
    rounded = float(f"{value:.6g}") if value is not None else inf
    return rounded if abs(rounded) <= _LARGEST else None


def _none_for_infinity(end: float) -> float | None:
    """JSON has no infinity."""
    return end if end < inf else None


def _row_from_json(item: dict[str, Any], names: Sequence[str]) -> IssueRow:
    series = Series(*(names[position] for position in item["series"]))
    old, new = item["levels"]
    return IssueRow(series, old, new, _effect_from_json(item["effect"]), item["night"], item["proven"])


def _effect_from_json(item: Sequence[Any] | None) -> Effect | None:
    if item is None:
        return None
    ratio, low, high, pairs = item
    return Effect(ratio, low or 0.0, inf if high is None else high, pairs)


@lru_cache(maxsize=1)
def _validator() -> Validator:
    from jsonschema import Draft202012Validator

    schema = Path(__file__).with_name("memory.schema.json")
    return Draft202012Validator(json.loads(schema.read_text(encoding="utf-8")))


MEMORY_ROOM = 30_000
"""Bytes that it may take of an issue's 65,536: some 200 rows. Of more, those with the largest effects are kept."""
MEMORY_MARKER = re.compile(r"^<!-- torchperf:memory (\{[^\r\n]*?\}) -->(?=\r?$)", re.MULTILINE)

_ESCAPED = {"--": r"\u002d\u002d", "<": r"\u003c", ">": r"\u003e", "@": r"\u0040", "#": r"\u0023"}


def embed(memory: IssueMemory) -> str:
    """One line of Markdown that shows nothing."""
    rows = sorted(map(rounded_row, memory.rows), key=attrgetter("size"), reverse=True)
    ranked = replace(memory, rows=tuple(rows))
    return fitted(partial(_hidden_line, ranked), MEMORY_ROOM, len(ranked.rows)) or _hidden_line(ranked, 0)


def recall(body: str) -> IssueMemory | None:
    """The memory in an issue's body; None where there is not exactly one, or it is none of ours."""
    found = MEMORY_MARKER.findall(body)
    if len(found) != 1:
        return None
    try:
        members = json.loads(found[0], parse_constant=_refuse_constant)
        json.dumps(members, ensure_ascii=False).encode()  # half a surrogate pair is no text
        return memory_from_json(members)
    except (ValueError, IndexError, RecursionError):
        return None


def _hidden_line(memory: IssueMemory, rows: int) -> str:
    kept = replace(memory, rows=memory.rows[:rows])
    text = json.dumps(memory_to_json(kept), separators=(",", ":"), allow_nan=False)
    for literal, escaped in _ESCAPED.items():
        text = text.replace(literal, escaped)
    return f"<!-- torchperf:memory {text} -->"


def _refuse_constant(constant: str) -> float:
    raise ValueError(constant)


TORCHPERF_LABEL = "torchperf"
"""What all issues of ours have; without it none is found again."""
EXPECTED_LABEL = "torchperf: expected"
"""The label that says of an issue that it is meant to be so."""


@dataclass(frozen=True)
class TrackedIssue:
    """An issue that we wrote: its label, its author and its hidden memory say so, whatever its title has become.

    ``expected`` says that it has the label by which people say that it is meant to be so.
    """

    number: int
    url: str
    title: str
    body: str
    memory: IssueMemory
    is_open: bool = True
    labels: tuple[str, ...] = ()
    expected: bool = False


def read_tracked_issue(issue: Issue, login: str) -> TrackedIssue | None:
    """An issue of GitHub's if it is ours, where ``login`` is who we are. Asks nothing: lists hold all of this."""
    labels = tuple(label.name for label in issue.labels)
    if TORCHPERF_LABEL not in labels or not issue.user or issue.user.login != login:
        return None
    body = issue.body or ""
    memory = recall(body)
    if memory is None or issue.html_url.endswith(f"/pull/{issue.number}"):
        return None
    return TrackedIssue(
        issue.number,
        issue.html_url,
        issue.title,
        body,
        memory,
        is_open=issue.state == "open",
        labels=labels,
        expected=EXPECTED_LABEL in labels,
    )
