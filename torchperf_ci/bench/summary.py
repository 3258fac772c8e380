"""Reports at the end of a run (document, annotations and JSON), and the document of the doctor's findings."""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import TYPE_CHECKING

from torchperf_ci import document as doc
from torchperf_ci.actions import Annotation
from torchperf_ci.bench.results import CaseResult, RunSetting, metrics_of, unmeasured
from torchperf_ci.bench.worker.protocol import LONG_STEP, MIN_SAMPLES
from torchperf_ci.machine.doctor import verdict
from torchperf_ci.machine.interference import WARNING_MARK, describe_interference, power_limit_note
from torchperf_ci.metrics import ANCHORED, FLOPS
from torchperf_ci.stats.effect import relative_spread, wide_spread

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchperf_ci.bench.pairs import Anchor
    from torchperf_ci.machine.examination import DoctorFinding


LOUD = ("failed", "oom", "timeout", "crashed", "inaccurate")
"""Statuses that make a run fail. ``unsupported`` does not: there was nothing to measure."""
_REASONS = 6
"""Most reasons of a kind that are listed: a few more than a nightly build can lack libraries."""


def run_document(results: Sequence[CaseResult], setting: RunSetting) -> doc.Document:
    """One row per case. A page also shows what failed and why, the meaning of the columns, and the machine, folded."""
    bad, notes = failed_cases(results), run_notes(results)
    mark = "❌" if bad else "⚠️" if disturbance_note(results) else "✅"
    torch, runner = setting.dependencies["pytorch"], setting.runner
    failures = [(str(case.case), f" — {case.status}: {case.failure.reason}") for case in bad if case.failure]
    above: list[doc.Block] = [
        doc.Paragraph(f"torch {torch.version} ({torch.sha[:10]}) on {runner['type']}"),
        doc.Note(notes),
        doc.Bullets([(doc.Bold(case), why) for case, why in failures]),
    ]
    below: list[doc.Block] = [
        doc.Paragraph(
            "± 95% is the uncertainty within a process, “between processes” the difference between the medians of "
            f"{setting.settings.processes} fresh processes, which a single process would not show."
        ),
        *(_about_anchor(results, setting.anchor, setting.settings.processes) if setting.anchor else ()),
        doc.Folded("Machine", [doc.facts(dict(sorted(runner["extra_info"].items())))]),
    ]
    blocks: list[doc.Block] = [doc.OnlyOn("page", above), results_table(results), doc.OnlyOn("page", below)]
    return doc.Document(f"{mark} {setting.benchmark}: {headline(results)}", blocks)


def headline(results: Sequence[CaseResult]) -> str:
    """Return one sentence that counts what was measured and what was not."""
    counts = Counter(result.status for result in results)
    passed = counts.pop("pass", 0)
    rest = "".join(f", {count} {status}" for status, count in counts.most_common())
    void = sum(bool(result.void) and not result.latencies for result in results)
    without = f", {void} without a valid time" if void else ""
    return f"{passed} of {doc.counted(len(results), 'case')} measured{rest}{without}"


def disturbance_note(results: Sequence[CaseResult]) -> str:
    """Return a sentence, with a warning mark, on what disturbed the machine during the run; empty if nothing did."""
    text, which = describe_interference([seen for result in results for seen in result.observed]), ""
    disturbed = [result for result in results if result.disturbed]
    if disturbed and not text:
        text = describe_interference([seen for result in disturbed for seen in result.observed])
        which = f" ({len(disturbed):,} of {doc.counted(len(results), 'case')})"
    differ = wide_spread(result.latencies for result in results)
    words = [text, f"processes of a case differ by {differ:.0%}" if differ else None]
    notes = "; ".join(filter(None, words))
    return f"{WARNING_MARK}disturbed during the measurement{which}: {notes}" if notes else ""


def run_notes(results: Sequence[CaseResult]) -> list[str]:
    """Return what a reader must know before trusting the numbers, one sentence each."""
    limited = power_limit_note([result.observed for result in results])
    above = (disturbance_note(results), limited, _long_step_note(results))
    return [note for note in (*above, *_what_is_missing(results)) if note]


def _long_step_note(results: Iterable[CaseResult]) -> str:
    """Say how long the longest steps are whose processes took fewer samples than usual, and what they cost."""
    few = [
        result
        for result in results
        if max(result.latencies, default=0.0) >= LONG_STEP
        and min(len(answer.seconds) for answer in result.samples) < MIN_SAMPLES
    ]
    if not few:
        return ""
    longest = max(few, key=lambda result: median(result.latencies))
    samples = min(len(answer.seconds) for answer in longest.samples)
    seconds, cost = median(longest.latencies), sum(outcome.seconds for outcome in longest.outcomes)
    others = f" (and {doc.counted(len(few) - 1, 'other case')} with long steps)" if len(few) > 1 else ""
    return (
        f"a step of {longest.case} takes {doc.duration(seconds)}{others}: each process took "
        f"{doc.counted(samples, 'sample')} instead of at least {MIN_SAMPLES}, and the case took {doc.duration(cost)}. "
        f"For more samples, raise --budget to {MIN_SAMPLES * seconds:.0f}"
    )


def _what_is_missing(results: Sequence[CaseResult]) -> list[str]:
    """Count the cases without a metric and the unsupported ones, by reason.

    The reason names the command that installs a missing library. What the anchor lacks has a column of its own, and an
    unknown FLOP count no remedy.
    """
    unsupported = [
        ("unsupported", result.failure.reason)
        for result in results
        if result.failure and result.status == "unsupported"
    ]
    lacking = [
        (f"without {metric}", why)
        for result in results
        if not result.failure
        for metric, why in unmeasured(result).items()
        if metric not in (ANCHORED, FLOPS)
    ]
    return [*_by_reason(lacking), *_by_reason(unsupported)]


def _by_reason(lacks: Sequence[tuple[str, str]]) -> list[str]:
    listed = Counter(lacks).most_common(_REASONS)
    notes = [f"{doc.counted(count, 'case')} {what}: {why}" for (what, why), count in listed]
    more = len(lacks) - sum(count for _, count in listed)
    return [*notes, f"and {more} more, each for a reason of its own: see the records"] if more else notes


def failed_cases(results: Iterable[CaseResult]) -> list[CaseResult]:
    """Return the cases that make the run fail."""
    return [result for result in results if result.status in LOUD]


def results_table(results: Sequence[CaseResult]) -> doc.Table:
    """One row per case. There is a column ``vs anchor`` if any case was compared with an anchor, or could not be."""
    anchored = any(result.pairs or result.unpaired for result in results)
    columns = (
        *map(doc.Column, ("workload", "mode", "dtype", "backend")),
        *doc.number_columns("batch", "latency", "± 95%", "between processes"),
        *doc.number_columns(*(["vs anchor"] if anchored else []), "peak memory"),
        doc.Column("status"),
    )
    return doc.Table(columns, [_row(result, anchored=anchored) for result in results])


def _row(result: CaseResult, *, anchored: bool) -> tuple[doc.Words, ...]:
    case, latencies = result.case, result.latencies
    name = (case.workload, case.mode, case.dtype, case.backend, str(case.batch_size or "auto"))
    status = doc.Highlighted(result.status, "bad") if result.status in LOUD else result.status
    if not latencies:
        return (*name, "void" if result.void else "", *[""] * (3 + anchored), status)
    widths = [answer.half_width for answer in result.samples if answer.half_width is not None]
    peaks = [peak.device / 2**20 for peak in result.answers(lambda answers: answers.peak)]
    change = doc.change_text(median(result.ratios) - 1) if result.ratios else "not measured"
    return (
        *name,
        _duration(median(latencies)),
        "unknown" if len(widths) < len(result.samples) else f"{median(widths):.1%}",
        "" if (apart := relative_spread(latencies)) is None else f"{apart:.1%}",
        *([change] if anchored else []),
        f"{median(peaks):,.0f} MiB" if peaks else "not measured",
        status,
    )


def _about_anchor(results: Iterable[CaseResult], anchor: Anchor, pairs: int) -> list[doc.Block]:
    """Explain the column ``vs anchor``, and why cases without a value have none."""
    meaning = (
        f"“vs anchor” is the latency over that of {anchor.build}, the median of {pairs} pairs of processes that took "
        "turns on the same CPUs: a change of the machine does not move it."
    )
    unpaired = [
        (doc.Bold(str(result.case)), f" — not measured against the anchor: {result.unpaired}")
        for result in results
        if result.unpaired and not result.failure
    ]
    return [doc.Paragraph(meaning), doc.Bullets(unpaired)]


def failure_annotations(results: Iterable[CaseResult]) -> list[Annotation]:
    """Return an annotation for each failed case, for the job's page."""
    return [
        Annotation("error", failure.reason, title=f"{result.case}: {failure.status}")
        for result in failed_cases(results)
        if (failure := result.failure)
    ]


def results_as_json(results: Iterable[CaseResult], setting: RunSetting) -> list[dict[str, object]]:
    """Return the table as data: options and status of each case, and the median of each metric over its processes."""
    return [
        {
            "workload": result.case.workload,
            "mode": result.case.mode,
            "dtype": result.case.dtype,
            "backend": result.case.backend,
            "batch_size": result.case.batch_size,
            "status": result.status,
            "reason": result.failure.reason if result.failure else None,
            "disturbed": result.disturbed,
            "void": result.void or None,
            "spread": relative_spread(result.latencies),
            "not_measured": {} if result.failure else unmeasured(result),
            "metrics": {metric.name: median(metric.values) for metric in metrics_of(result, setting)},
        }
        for result in results
    ]


def _duration(seconds: float) -> str:
    ms = seconds * 1e3
    if ms < 0.1:
        return f"{ms * 1e3:.4g} µs"
    return f"{ms:.4g} ms" if ms < 1e4 else f"{ms:,.0f} ms"


def findings_document(findings: Sequence[DoctorFinding]) -> doc.Document:
    """Show the doctor's verdict, then each finding and what to do about it."""
    marks = {"ok": "✓", "warn": "!", "bad": "✗"}
    lines = [
        line
        for finding in findings
        for line in (
            f"{marks[finding.level]} {finding.check}: {finding.state}",
            *([] if finding.level == "ok" else [f"    {finding.why}", f"    → {finding.do}"]),
        )
    ]
    return doc.Document(verdict(findings), [doc.Note(lines)])
