"""What got how much worse where, in words: plain text, not yet made safe for Markdown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from torchperf_ci import markdown
from torchperf_ci.document import short
from torchperf_ci.metrics import is_latency, name_and_unit
from torchperf_ci.verdicts.rows import difference, levels
from torchperf_ci.verdicts.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchperf_ci.report.issues.causes.finding import Row
    from torchperf_ci.series.series import Series

NAME_LENGTH = 60
TEXT_LENGTH = 300
"""Characters of a name, and of a sentence, from outside."""
_MAKER = re.compile(r"^(NVIDIA|AMD|Intel)[ _]|[ _]\d+ ?GB.*$")
_NAMED_MACHINES = 2


def largest(rows: Iterable[Row]) -> list[Row]:
    """The largest change first; of the same change told by several metrics the proven one, and the time."""
    return sorted(rows, key=lambda row: (round(row.size, 3), row.proven, _is_time(row)), reverse=True)


def what_got_worse(rows: Sequence[Row]) -> str:
    """``vision/resnet18 7.1% slower on H100``, of several the worst: ``… and 3 more, up to …``; empty without rows."""
    if not rows:
        return ""
    first = largest(rows)[0]
    others = len({row.series.model for row in rows}) - 1
    model = short(first.series.model, NAME_LENGTH)
    subject = f"{model} and {others} more, up to" if others else model
    return " ".join(part for part in (subject, moved(first), machines(rows)) if part)


def moved(row: Row) -> str:
    """``7.1% slower``, ``peak_memory +7.1%``, ``graph_breaks 0 → 2``."""
    if row.effect is None:
        return f"{metric(row.series)} {levels(verdict_of(row))}".strip()
    change = f"{row.effect.ratio - 1:+,.1%}".replace("-", "−")
    return (
        f"{change[1:]} slower" if _is_time(row) and row.effect.ratio > 1 else f"{metric(row.series)} {change}"
    )


def machines(rows: Sequence[Row]) -> str:
    """``on H100 and MI300``; of more than two kinds of machine their number."""
    named = [name for name in machine_names(rows).values() if name]
    if len(named) > _NAMED_MACHINES:
        return f"on {len(named)} kinds of machine"
    return f"on {' and '.join(named)}" if named else ""


def machine_names(rows: Iterable[Row]) -> dict[str, str]:
    """What each machine is called: without its maker and its memory, where that tells it from the others."""
    names = list(dict.fromkeys(machine(row.series) for row in rows))
    called = [_MAKER.sub("", name) for name in names]
    return {
        name: short(brief if called.count(brief) == 1 else name, NAME_LENGTH)
        for name, brief in zip(names, called, strict=True)
    }


def machine(series: Series) -> str:
    """What a series was measured on."""
    return series.arch or series.device


def benchmark(series: Series, differing: Iterable[str]) -> str:
    """The model, and the fields beside it that tell it from others."""
    parts = (getattr(series, name) for name in ("model", *differing))
    return " ".join(short(part, NAME_LENGTH) for part in parts if part)


def metric(series: Series) -> str:
    """The metric without its unit, which stands beside the numbers."""
    return short(name_and_unit(series.metric)[0], NAME_LENGTH)


def _is_time(row: Row) -> bool:
    return is_latency(row.series.metric)


def numbers(row: Row) -> tuple[str, str]:
    """``1.213 → 1.251 ms`` and ``+3.1% (+2.4…+3.9)``."""
    verdict = verdict_of(row)
    return levels(verdict), difference(verdict)


def level(row: Row, value: float | None) -> str:
    """A level of the row's series, ``1.213 ms``; empty where it was not measured."""
    if value is None:
        return ""
    return levels(Verdict(row.series, "unchanged", "", old=None, new=value)).removeprefix("– → ")


def verdict_of(row: Row) -> Verdict:
    """The row as the verdict that it shows, for whom numbers are written in one place."""
    return Verdict(row.series, "regressed", "", row.effect, row.old, row.new)


def plain(text: str, length: int = TEXT_LENGTH) -> str:
    """Text from outside as Markdown in which nothing is markup, at most ``length`` characters of it."""
    return markdown.plain(short(text, length))


def unbroken(text: str) -> str:
    """As :func:`plain`, on one line however narrow the table is."""
    return plain(text).replace(" ", "\N{NO-BREAK SPACE}").replace("…", "…\N{WORD JOINER}")
