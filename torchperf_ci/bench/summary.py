"""What people see of a run: its progress, and at its end the table, the job summary, annotations and JSON."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections import Counter
from statistics import median
from typing import TYPE_CHECKING, Any, TextIO

from torchperf_ci.actions import Annotation, in_actions, markdown_cell, one_line
from torchperf_ci.bench.results import CaseResult, RunSetting, metrics, unmeasured
from torchperf_ci.console import print_table, progress_bar, say
from torchperf_ci.document import Column, counted
from torchperf_ci.machine.doctor import verdict
from torchperf_ci.machine.interference import WARNING_MARK, describe_interference, describe_power_limit
from torchperf_ci.stats.noise import relative_spread, wide_spread

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchperf_ci.bench.pairs import Anchor
    from torchperf_ci.bench.process import ProcessOutcome
    from torchperf_ci.machine.examination import DoctorFinding


class RunProgress(ABC):
    """Told of each process and pair before and after; ``total`` is the number of both of the run."""

    def __init__(self, total: int) -> None:
        self._total = total

    @abstractmethod
    def starts(self, step: object) -> None:
        """It begins; ``step`` is shown as a string."""

    @abstractmethod
    def ends(self, step: object, outcome: ProcessOutcome, done: int) -> None:
        """It has ended; ``done`` of them, skipped ones included, are behind the run."""

    @abstractmethod
    def close(self) -> None:
        """Leave the terminal as it was."""


class PlainRunProgress(RunProgress):
    """One line a process or pair, with the time left, for a job's log."""

    def __init__(self, total: int, out: TextIO) -> None:
        super().__init__(total)
        self._out = out
        self._start = time.monotonic()

    def starts(self, step: object) -> None:
        """Nothing: the line that says how it ended says more."""

    def ends(self, step: object, outcome: ProcessOutcome, done: int) -> None:
        left = (time.monotonic() - self._start) / done * (self._total - done)
        say(f"[{done}/{self._total}, {_clock(left)} left] {step}: {_outcome_text(outcome)}", out=self._out)

    def close(self) -> None:
        """Nothing: every line is out."""


class RunProgressBar(RunProgress):
    """A bar with the time left, for a terminal."""

    def __init__(self, total: int) -> None:
        super().__init__(total)
        self._bar = progress_bar(counted=True)
        self._task = self._bar.add_task("", total=total)
        self._bar.start()

    def starts(self, step: object) -> None:
        self._bar.update(self._task, description=one_line(step))

    def ends(self, step: object, outcome: ProcessOutcome, done: int) -> None:
        self._bar.update(self._task, completed=done)
        if not outcome.passed:
            self._bar.console.print(
                one_line(f"{step}: {_outcome_text(outcome)}"), markup=False, highlight=False
            )

    def close(self) -> None:
        self._bar.stop()


def run_progress(total: int) -> RunProgress:
    """The one that fits where standard error goes; a job's log is no terminal even where it looks like one."""
    return (
        RunProgressBar(total)
        if sys.stderr.isatty() and not in_actions()
        else PlainRunProgress(total, sys.stderr)
    )


def _outcome_text(outcome: ProcessOutcome) -> str:
    if not outcome.passed:
        return f"{outcome.status}: {outcome.reason}"
    return f"pass in {outcome.seconds:.1f} s"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"


RESULT_COLUMNS = (
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
_MEMORY = [column.head for column in RESULT_COLUMNS].index("peak memory")
_STYLES = dict.fromkeys(LOUD, "bold red")


def headline(results: Sequence[CaseResult]) -> str:
    """One sentence: what was measured and what was not."""
    counts = Counter(result.status for result in results)
    passed = counts.pop("pass", 0)
    rest = "".join(f", {count} {status}" for status, count in counts.most_common())
    void = sum(bool(result.void) and not result.latencies for result in results)
    without = f", {void} without a valid time" if void else ""
    return f"{passed} of {counted(len(results), 'case')} measured{rest}{without}"


def disturbance_note(results: Sequence[CaseResult]) -> str:
    """One sentence, with its mark: what disturbed the machine while it measured; empty if nothing is known to have."""
    disturbed = [result for result in results if result.disturbed]
    words = (
        [text]
        if (text := describe_interference([facts for result in results for facts in result.observed]))
        else []
    )
    which = ""
    if disturbed and not words:
        words = [describe_interference([facts for result in disturbed for facts in result.observed]) or ""]
        which = f" ({len(disturbed)} of {counted(len(results), 'case')})"
    if differ := wide_spread(result.latencies for result in results):
        words.append(f"processes of a case differ by {differ:.0%}")
    return f"{WARNING_MARK}disturbed while this was measured{which}: {'; '.join(words)}" if words else ""


def power_limit_note(results: Sequence[CaseResult]) -> str:
    """One sentence, without a mark: which cases ran at the GPU's power limit; empty if none did."""
    capped = [result for result in results if describe_power_limit(result.observed)]
    if not capped:
        return ""
    words = describe_power_limit([facts for result in capped for facts in result.observed])
    return f"in {len(capped)} of {counted(len(results), 'case')} {words}: what it keeps up under such a load"


def failed_cases(results: Iterable[CaseResult]) -> list[CaseResult]:
    """The cases that make the run fail."""
    return [result for result in results if result.status in LOUD]


def result_columns(results: Iterable[CaseResult]) -> tuple[Column, ...]:
    """The columns of :func:`result_rows`."""
    anchor = [Column("vs anchor", "number")] if _are_anchored(results) else []
    return (*RESULT_COLUMNS[:_MEMORY], *anchor, *RESULT_COLUMNS[_MEMORY:])


def result_rows(results: Sequence[CaseResult]) -> list[tuple[str, ...]]:
    """One row a case."""
    anchored = _are_anchored(results)
    return [_row(result, anchored=anchored) for result in results]


def print_results(results: Sequence[CaseResult], out: TextIO) -> None:
    """Print one row a case."""
    print_table(result_columns(results), result_rows(results), out, styles=_STYLES)


def print_findings(findings: Sequence[DoctorFinding], out: TextIO) -> None:
    """Print doctor's verdict, then each finding with what to do about it."""
    marks = {"ok": "✓", "warn": "!", "bad": "✗"}
    say(verdict(findings), "", out=out)
    for finding in findings:
        advice = [] if finding.level == "ok" else [f"    {finding.why}", f"    → {finding.do}"]
        say(f"{marks[finding.level]} {finding.check}: {finding.found}", *advice, out=out)


def job_summary(results: Sequence[CaseResult], setting: RunSetting) -> str:
    """The job summary: the verdict, what failed and why, then the numbers, then the machine, folded."""
    bad, marked = failed_cases(results), disturbance_note(results)
    torch, runner, processes = setting.dependencies["pytorch"], setting.runner, setting.settings.processes
    parts = [
        f"### {'❌' if bad else '⚠️' if marked else '✅'} {markdown_cell(setting.benchmark)}: {headline(results)}",
        f"torch {markdown_cell(torch.version)} ({torch.sha[:10]}) on {markdown_cell(runner['type'])}",
        *([markdown_cell(marked)] if marked else []),
        *([markdown_cell(limited)] if (limited := power_limit_note(results)) else []),
        *_failure_list(bad),
        _markdown_table([column.head for column in result_columns(results)], result_rows(results)),
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
        for result in failed_cases(results)
        if (failure := result.failure)
    ]


def results_as_json(results: Iterable[CaseResult], setting: RunSetting) -> list[dict[str, Any]]:
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
            "spread": relative_spread(result.latencies),
            "not_measured": {} if result.failure else unmeasured(result),
            "metrics": _medians(result, setting),
        }
        for result in results
    ]


def _medians(result: CaseResult, setting: RunSetting) -> dict[str, float]:
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
        "" if (apart := relative_spread(latencies)) is None else f"{apart:.1%}",
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
