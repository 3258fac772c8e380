"""What a run says at its end: the table on a terminal, the same in Markdown for a job, annotations, and JSON."""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import TYPE_CHECKING, Any, TextIO

from torchperf_ci.actions import Annotation, markdown_cell
from torchperf_ci.bench.results import CaseResult, Setting, metrics, unmeasured
from torchperf_ci.console import print_table, say
from torchperf_ci.document import Column
from torchperf_ci.machine.disturbance import MARK, disturbance, power_limit
from torchperf_ci.machine.doctor import verdict
from torchperf_ci.stats.spread import spread, wide
from torchperf_ci.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchperf_ci.bench.anchor import Anchor
    from torchperf_ci.machine.checks.finding import Finding

COLUMNS = (
    Column("workload"),
    Column("mode"),
    Column("dtype"),
    Column("backend"),
    Column("batch", "number"),
    Column("latency", "number"),
    Column("± 95%", "number"),
    Column("between processes", "number"),
    Column("peak memory", "number"),
    Column("status"),
)
"""Of every table; ``vs anchor`` stands before the memory where there is an anchor."""
LOUD = ("failed", "oom", "timeout", "crashed", "inaccurate")
"""Statuses that make a run fail; ``unsupported`` says that there was nothing to measure."""
_MEMORY = [column.head for column in COLUMNS].index("peak memory")
_STYLES = dict.fromkeys(LOUD, "bold red")


def headline(results: Sequence[CaseResult]) -> str:
    """One sentence: what was measured and what was not."""
    counts = Counter(result.status for result in results)
    passed = counts.pop("pass", 0)
    rest = "".join(f", {count} {status}" for status, count in counts.most_common())
    void = sum(bool(result.void) and not result.latencies for result in results)
    without = f", {void} without a valid time" if void else ""
    return f"{passed} of {counted(len(results), 'case')} measured{rest}{without}"


def conditions(results: Sequence[CaseResult]) -> str:
    """One sentence, with its mark: what disturbed the machine while it measured; empty if nothing is known to have."""
    disturbed = [result for result in results if result.disturbed]
    words = (
        [text] if (text := disturbance([facts for result in results for facts in result.observed])) else []
    )
    which = ""
    if disturbed and not words:
        words = [disturbance([facts for result in disturbed for facts in result.observed]) or ""]
        which = f" ({len(disturbed)} of {counted(len(results), 'case')})"
    if differ := wide(result.latencies for result in results):
        words.append(f"processes of a case differ by {differ:.0%}")
    return f"{MARK}disturbed while this was measured{which}: {'; '.join(words)}" if words else ""


def power(results: Sequence[CaseResult]) -> str:
    """One sentence, without a mark: which cases ran at the GPU's power limit; empty if none did."""
    capped = [result for result in results if power_limit(result.observed)]
    if not capped:
        return ""
    words = power_limit([facts for result in capped for facts in result.observed])
    return f"in {len(capped)} of {counted(len(results), 'case')} {words}: what it keeps up under such a load"


def failures(results: Iterable[CaseResult]) -> list[CaseResult]:
    """The cases that make the run fail."""
    return [result for result in results if result.status in LOUD]


def columns(results: Iterable[CaseResult]) -> tuple[Column, ...]:
    """The columns of :func:`rows`."""
    anchor = [Column("vs anchor", "number")] if _are_anchored(results) else []
    return (*COLUMNS[:_MEMORY], *anchor, *COLUMNS[_MEMORY:])


def rows(results: Sequence[CaseResult]) -> list[tuple[str, ...]]:
    """One row a case."""
    anchored = _are_anchored(results)
    return [_row(result, anchored=anchored) for result in results]


def table(results: Sequence[CaseResult], out: TextIO) -> None:
    """Print one row a case."""
    print_table(columns(results), rows(results), out, styles=_STYLES)


def show_findings(findings: Sequence[Finding], out: TextIO) -> None:
    """Print doctor's verdict, then each finding with what to do about it."""
    marks = {"ok": "✓", "warn": "!", "bad": "✗"}
    say(verdict(findings), "", out=out)
    for finding in findings:
        advice = [] if finding.level == "ok" else [f"    {finding.why}", f"    → {finding.do}"]
        say(f"{marks[finding.level]} {finding.check}: {finding.found}", *advice, out=out)


def markdown(results: Sequence[CaseResult], setting: Setting) -> str:
    """The job summary: the verdict, what failed and why, then the numbers, then the machine, folded."""
    bad, marked = failures(results), conditions(results)
    torch, runner, processes = setting.dependencies["pytorch"], setting.runner, setting.settings.processes
    parts = [
        f"### {'❌' if bad else '⚠️' if marked else '✅'} {markdown_cell(setting.benchmark)}: {headline(results)}",
        f"torch {markdown_cell(torch.version)} ({torch.sha[:10]}) on {markdown_cell(runner['type'])}",
        *([markdown_cell(marked)] if marked else []),
        *([markdown_cell(limited)] if (limited := power(results)) else []),
        *_failure_list(bad),
        _markdown_table([column.head for column in columns(results)], rows(results)),
        (
            f"± 95% is within a process, “between processes” how far the medians of {processes} "
            "fresh processes lie apart: what a single run would not have told."
        ),
        *(_about_anchor(results, setting.anchor, processes) if setting.anchor else ()),
        _folded("Machine", _markdown_table(("fact", "value"), sorted(runner["extra_info"].items()))),
    ]
    return "\n\n".join(parts) + "\n"


def failure_annotations(results: Iterable[CaseResult]) -> list[Annotation]:
    """One for each failed case, for the job's page."""
    return [
        Annotation("error", failure.reason, title=f"{result.case}: {failure.status}")
        for result in failures(results)
        if (failure := result.failure)
    ]


def as_json(results: Iterable[CaseResult], setting: Setting) -> list[dict[str, Any]]:
    """The table as data: a case's options, its status, and the median of each metric over the processes."""
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
            "spread": spread(result.latencies),
            "not_measured": {} if result.failure else unmeasured(result),
            "metrics": _medians(result, setting),
        }
        for result in results
    ]


def _medians(result: CaseResult, setting: Setting) -> dict[str, float]:
    return {metric.name: median(metric.values) for metric in metrics(result, setting) if metric.values}


def _are_anchored(results: Iterable[CaseResult]) -> bool:
    """Whether there is an anchor, and a case that got as far as being measured against it."""
    return any(result.pairs or result.unpaired for result in results)


def _row(result: CaseResult, *, anchored: bool) -> tuple[str, ...]:
    case = result.case
    name = (case.workload, case.mode, case.dtype, case.backend, str(case.batch_size or "auto"))
    latencies = result.latencies
    if not latencies:
        return (*name, *["void" if result.void else "", *[""] * (3 + anchored)], result.status)
    widths = [answer["half_width"] for answer in result.samples]
    peaks = [answer["device"] / 2**20 for answer in result.answers("peak")]
    return (
        *name,
        _duration(median(latencies)),
        "unknown" if None in widths else f"{median(widths):.1%}",
        "" if (apart := spread(latencies)) is None else f"{apart:.1%}",
        *([_change(result.ratios)] if anchored else []),
        f"{median(peaks):,.0f} MiB" if peaks else "not measured",
        result.status,
    )


def _change(ratios: Sequence[float]) -> str:
    return f"{median(ratios) - 1:+.1%}" if ratios else "not measured"


def _duration(seconds: float) -> str:
    ms = seconds * 1e3
    if ms < 0.1:
        return f"{ms * 1e3:.4g} µs"
    return f"{ms:.4g} ms" if ms < 1e4 else f"{ms:,.0f} ms"


def _failure_list(bad: Iterable[CaseResult]) -> list[str]:
    lines = [
        f"- **{markdown_cell(str(result.case))}** — {result.status}: {markdown_cell(failure.reason)}"
        for result in bad
        if (failure := result.failure)
    ]
    return ["\n".join(lines)] if lines else []


def _about_anchor(results: Iterable[CaseResult], anchor: Anchor, pairs: int) -> list[str]:
    """What the column means, and where it is empty and why."""
    unpaired = [
        f"- **{markdown_cell(str(result.case))}** — not measured against the anchor: {markdown_cell(result.unpaired)}"
        for result in results
        if result.unpaired and not result.failure
    ]
    meaning = (
        f"“vs anchor” is the latency over that of {markdown_cell(anchor.build)}, the median of {pairs} pairs of "
        "processes that took turns on the same CPUs: a change of the machine does not move it."
    )
    return [meaning, *(["\n".join(unpaired)] if unpaired else [])]


def _markdown_table(header: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *([markdown_cell(cell) for cell in row] for row in body)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _folded(title: str, body: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"
