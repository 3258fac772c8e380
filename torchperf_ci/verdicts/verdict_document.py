"""Present judgements: as a document with tables, a chart and a next step, and as annotations and outputs of a job."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from math import inf, isfinite
from typing import TYPE_CHECKING, Literal

from torchperf_ci import document as doc
from torchperf_ci.actions import Annotation, Level
from torchperf_ci.command_output import publish_result
from torchperf_ci.metrics import ANCHORED, kind_of, name_and_unit, rounded
from torchperf_ci.verdicts import headline
from torchperf_ci.verdicts.reproduction import case_options, compare_lines, run_lines, setup_needed
from torchperf_ci.verdicts.verdict import MAX_NUMBER, Verdict, all_verdicts, verdicts_json, write_verdicts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from torchperf_ci.series.points import Series
    from torchperf_ci.stats.effect import Effect
    from torchperf_ci.verdicts.verdict import (
        Judgement,
        MeasuredPoint,
        RangeEnd,
        RepeatOptions,
        SuiteMean,
        VerdictWord,
    )


_COLUMNS = (
    *map(doc.Column, ("verdict", "case", "metric")),
    *doc.number_columns("old → new", "change (95%)", "detectable"),
    doc.Column("why", "prose"),
)
_CASE = ("model", "mode", "dtype", "backend", "device", "arch", "benchmark", "repo")
_NAME_LENGTH = 120
_SENTENCE_LENGTH = 300
"""Maximum lengths of names, and of sentences, that come from outside."""
_TONES: Mapping[str, Literal["bad", "warning", "good"]] = {
    "regressed": "bad",
    "broken": "bad",
    "candidate": "warning",
    "improved": "good",
    "fixed": "good",
}
_STEPS: Mapping[headline.VerdictGroup, tuple[str, str]] = {
    "regressed": ("reproduce the worst one on your machine", " If the change is intended, say why."),
    "broken": ("run it by itself and read its error", ""),
    "candidate": ("measure it again to see whether the change is real", ""),
}


def verdicts_document(judgements: Sequence[Judgement]) -> doc.Document:
    """The full document about one or more verdicts files."""
    blocks: list[doc.Block] = [doc.OnlyOn("page", _next_step(judgements))]
    for judgement in judgements:
        if len(judgements) > 1:
            blocks.append(doc.Heading(f"{headline.sign([judgement])} {headline.headline([judgement])}"))
        blocks += _judgement_blocks(judgement)
    return doc.Document(f"{headline.sign(judgements)} Performance: {headline.headline(judgements)}", blocks)


def verdict_annotations(judgement: Judgement) -> list[Annotation]:
    """An error for each red series, a warning for each candidate, a notice for each note."""
    groups = headline.grouped(judgement.verdicts)
    return [
        *(_annotation("error", verdict) for verdict in (*groups["regressed"], *groups["broken"])),
        *(_annotation("warning", verdict) for verdict in groups["candidate"]),
        *(Annotation("notice", note, title="torchperf") for note in judgement.notes),
    ]


def publish_verdicts(judgement: Judgement, out: Path, *, json_output: bool) -> None:
    """Write ``verdicts.json`` to ``out``, print the document or the file, and set summary, annotations and outputs.

    Raises :class:`OutputDirectoryError` if ``out`` cannot be written, once all else is told:
    what it says may have taken an hour to measure.
    """
    found, covered = headline.grouped(judgement.verdicts), headline.coverage(judgement)
    written = ""
    try:
        write_verdicts(out, judgement)
        written = str(out.absolute())
    finally:
        publish_result(
            verdicts_document([judgement]),
            headline.headline([judgement]) + (f"; verdicts in {out}" if written else ""),
            as_json=verdicts_json(judgement) if json_output else None,
            annotations=verdict_annotations(judgement),
            outputs={
                "verdicts": written,
                **{
                    "candidates" if group == "candidate" else group: len(found[group])
                    for group in headline.LOUD
                },
                "judged": covered.judged,
                "unjudged": covered.unjudged,
            },
        )


def shared_fields(verdicts: Sequence[Verdict]) -> dict[str, str]:
    """The fields, other than the model, that all series have in common; they are shown once, and not in each row."""
    found = {name: {getattr(verdict.series, name) for verdict in verdicts} for name in _CASE[1:]}
    return {name: value for name, values in found.items() if len(values) == 1 for value in values if value}


def verdict_cells(verdict: Verdict, shared: Iterable[str]) -> tuple[str, ...]:
    """The cells of the verdict's row, without the fields in ``shared``, which are shown elsewhere."""
    return (
        "candidate" if headline.group_of(verdict) == "candidate" else verdict.verdict,
        case_text(verdict.series, shared),
        doc.short(verdict.series.metric, _NAME_LENGTH),
        levels_text(verdict),
        difference_text(verdict),
        f"±{verdict.detectable:,.1%}" if verdict.detectable is not None else "",
        doc.short(verdict.why, _SENTENCE_LENGTH),
    )


def case_text(series: Series, shared: Iterable[str] = ()) -> str:
    """The fields that identify the series, without the metric and the ``shared`` fields, which are shown elsewhere."""
    parts = (getattr(series, name) for name in _CASE if name not in shared)
    return doc.short(" ".join(part for part in parts if part), _NAME_LENGTH)


def levels_text(verdict: Verdict) -> str:
    """The two levels with their unit, such as ``1.21 → 1.25 ms``; empty if both are unknown."""
    if verdict.old is None and verdict.new is None:
        return ""
    _, unit = name_and_unit(verdict.series.metric)
    levels = old_and_new(verdict.old, verdict.new, verdict.effect)
    return f"{levels}{doc.short(f' {unit}', _NAME_LENGTH) if unit else ''}"


def old_and_new(old: float | None, new: float | None, effect: Effect | None) -> str:
    """Two levels, such as ``1.21 → 1.25``, with a dash for a side without a number.

    If there is an effect, the new level is the old one times the effect. The median of each side also contains drift
    of the machine, which pairs cancel, and two different answers side by side would confuse.
    """
    if old and new and effect:
        old = rounded(old)
        new = old * rounded(effect.ratio)
    return f"{_number_text(old)} → {_number_text(new)}"


def difference_text(verdict: Verdict) -> str:
    """The effect, or else the difference of two counts; empty for pass and fail."""
    if verdict.effect:
        return effect_text(verdict.effect)
    moved = verdict.difference
    if not moved or (kind_of(verdict.series.metric) == "outcome" and abs(moved) == 1):
        return ""
    return f"{'−' if moved < 0 else '+'}{_number_text(abs(moved))}"


def effect_text(effect: Effect) -> str:
    """The ratio new/old minus 1 and its interval, such as ``+3.1% (+2.4…+3.9)``."""
    if effect.low <= 0 and effect.high == float("inf"):
        return f"{_percent(effect.ratio)}% (no interval)"
    high = "∞" if effect.high == float("inf") else _percent(effect.high)
    return f"{_percent(effect.ratio)}% ({_percent(effect.low)}…{high})"


def _number_text(value: float | None) -> str:
    if value is None or not isfinite(value):
        return "–"
    if value < 0:
        return f"−{_number_text(-value)}"
    if value >= 1e15 or 0 < value < 1e-4:
        return f"{value:.3e}"
    return f"{abs(value):,.0f}" if value >= 999.95 or value == int(value) else f"{value:.4g}"


def _percent(ratio: float) -> str:
    percent = (rounded(ratio) - 1) * 100  # as an issue remembers it, so that both say the same
    return doc.signed(percent, ",.1f" if abs(percent) < 1e15 else ".1e")


def _judgement_blocks(judgement: Judgement) -> list[doc.Block]:
    """The blocks of one file. Important parts come first on a page, but last on a terminal, which scrolls."""
    groups, shared = headline.grouped(judgement.verdicts), shared_fields(judgement.verdicts)
    loud = [verdict for group in headline.LOUD for verdict in groups[group]]
    quiet = [
        verdict
        for group in headline.QUIET
        for verdict in groups[group]
        if not (headline.is_only_new(verdict, judgement) or verdict.evidence.too_few_runs)
    ]
    loud_rows, quiet_rows = ([_row(it, shared) for it in some] for some in (loud, _by_reason(quiet)))
    suites = [_suite_text(suite) for suite in judgement.suites]
    little, young = headline.shortfall(judgement), headline.young_series(judgement)
    takes = f"Judging the rest takes {headline.what_it_takes(judgement)}." if little else ""
    sides = {"base": judgement.base, "head": judgement.head}
    above = " → ".join(doc.short(side, _SENTENCE_LENGTH) for side in sides.values() if side)
    known = {**sides, "judged by": judgement.command, **shared}
    return [
        doc.Paragraph(above),
        doc.OnlyOn(
            "page",
            [
                doc.Note([doc.short(note, _SENTENCE_LENGTH) for note in judgement.notes]),
                *(
                    doc.Paragraph(doc.short(sentence, _SENTENCE_LENGTH))
                    for sentence in filter(None, (little, *young))
                ),
                doc.Table(_COLUMNS, loud_rows),
                doc.Bullets(suites),
                doc.Folded(headline.count_verdicts(quiet), [doc.Table(_COLUMNS, quiet_rows)]),
                doc.Folded(
                    "Measured on",
                    [doc.facts({name: doc.short(fact, _SENTENCE_LENGTH) for name, fact in known.items()})],
                ),
            ],
        ),
        doc.OnlyOn(
            "terminal",
            [
                doc.Paragraph(" ".join(shared.values())),
                doc.Table(_COLUMNS, [*loud_rows, *quiet_rows]),
                doc.Note([*suites, *filter(None, (little, takes)), *young, *judgement.notes]),
            ],
        ),
    ]


def _by_reason(verdicts: Iterable[Verdict]) -> Iterator[Verdict]:
    """One verdict for each reason of a case: if a case failed, all of its metrics are missing for the same one.

    A verdict on a change stays by itself, because its numbers would be lost.
    """
    alike: dict[tuple[Series, VerdictWord, str], list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        changed = bool(difference_text(verdict))
        series = verdict.series if changed else verdict.series.case
        alike[series, verdict.verdict, verdict.why].append(verdict)
    for (case, word, why), group in alike.items():
        names = [verdict.series.metric for verdict in group]
        together = replace(case, metric=f"{len(names)} metrics")
        reason = f"{doc.short(why, _SENTENCE_LENGTH // 2)} ({', '.join(names)})"
        yield Verdict(together, word, reason) if len(names) > 1 else group[0]


def _row(verdict: Verdict, shared: Iterable[str]) -> tuple[doc.Words, ...]:
    word, *others = verdict_cells(verdict, shared)
    return (doc.Highlighted(word, _TONES[word]) if word in _TONES else word, *others)


def _suite_text(suite: SuiteMean) -> str:
    return f"{suite.metric}: {effect_text(suite.effect)} over {suite.series} series, geometric mean"


def _annotation(level: Level, verdict: Verdict) -> Annotation:
    word, _, _, levels, moved, *_ = verdict_cells(verdict, ())
    numbers = ": ".join(part for part in (levels, moved) if part)
    message = f"{numbers}; {verdict.why}" if numbers else verdict.why
    return Annotation(level, message, title=f"{word}: {verdict.series}")


def _next_step(judgements: Sequence[Judgement]) -> list[doc.Block]:
    """The recommended next step, or nothing; only if the sign is green does it say that there is nothing to do."""
    groups = headline.grouped(all_verdicts(judgements))
    for group, (what, then) in _STEPS.items():
        if groups[group]:
            worst = groups[group][0]
            judgement = next(one for one in judgements if any(verdict is worst for verdict in one.verdicts))
            reproduction = judgement.reproduction
            lines = _commands(worst, reproduction) if reproduction else []
            there = (", ", *setup_needed(reproduction.torch)) if lines and reproduction else ()
            return [
                doc.Paragraph((doc.Bold("Next step:"), f" {what}", *there, f".{then}")),
                doc.Commands(lines),
            ]
    if little := [judgement for judgement in judgements if headline.shortfall(judgement)]:
        rest = "; ".join(dict.fromkeys(map(headline.what_it_takes, little)))
        return [doc.Paragraph((doc.Bold("Next step:"), f" to judge the rest, provide {rest}."))]
    are_noisy = any(verdict.verdict == "noisy" for verdict in groups["unjudged"])
    if are_noisy and headline.sign(judgements) == headline.GREEN:
        seen = "“detectable” is the smallest change that would have been seen"
        none = f"none; {seen}, and torchperf doctor shows what adds noise."
        return [doc.Paragraph((doc.Bold("Next step:"), f" {none}"))]
    return []


def _commands(verdict: Verdict, reproduction: RepeatOptions) -> list[str]:
    """The commands that measure the series again; empty if the commits are unknown."""
    case = case_options(verdict.series, verdict.evidence)
    if reproduction.base and reproduction.head:
        return compare_lines(reproduction, reproduction.base, reproduction.head, case)
    if verdict.verdict == "broken":
        return run_lines(reproduction, case)
    ends = verdict.evidence.commits.in_measuring_repository
    return compare_lines(reproduction, *ends, case) if ends else []


MAX_POINTS = 40
_MIN_POINTS = 4
_MIN_NOISE = 0.001


def clearest_chart(verdicts: Iterable[Verdict]) -> doc.Chart | None:
    """The chart of the series that shows its change most clearly; None if no series has enough history.

    It is that of the ratio to an anchor rather than that of the latency which follows it, with the speed of each host.
    """
    clearest_first = sorted(
        verdicts, key=lambda verdict: (_clearness(verdict), verdict.series.metric == ANCHORED), reverse=True
    )
    return next(filter(None, map(_chart_of, clearest_first)), None)


def _clearness(verdict: Verdict) -> float:
    """The size of the change in units of its noise."""
    return round(verdict.size / max(verdict.noise or 0.0, _MIN_NOISE), 3) if verdict.size < inf else 0.0


def _chart_of(verdict: Verdict) -> doc.Chart | None:
    points = verdict.evidence.points[-MAX_POINTS:]
    if len(points) < _MIN_POINTS:
        return None
    series = verdict.series
    name, unit = name_and_unit(series.metric)
    title = f"{series.model} {name} on {series.arch or series.device}"
    values = [point.value for point in points]
    return doc.Chart(title, unit or name, values, _levels(verdict, points), _days(points))


def _levels(verdict: Verdict, points: Sequence[MeasuredPoint]) -> Sequence[float]:
    """The old level at each point before the change, then the new level.

    Empty if it is unknown when it changed, or if a level cannot be drawn.
    """
    old, new = verdict.old, verdict.new
    if old is None or new is None or max(abs(old), abs(new)) >= MAX_NUMBER:
        return ()
    for index, point in enumerate(points):
        if _is_since(point, verdict.evidence.commits.first_new):
            return [*[old] * index, *[new] * (len(points) - index)]
    return ()


def _is_since(point: MeasuredPoint, first_new: RangeEnd) -> bool:
    if point.timestamp and first_new.timestamp:
        return point.timestamp >= first_new.timestamp
    return point.commit != "" and point.commit in (first_new.commit, first_new.torch)


def _days(points: Sequence[MeasuredPoint]) -> str:
    first, last = doc.day_of(points[0].timestamp), doc.day_of(points[-1].timestamp)
    return f"from {first} to {last}" if first and last else ""
