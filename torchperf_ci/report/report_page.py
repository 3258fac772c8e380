"""Write a report as a page in a directory, in Markdown and HTML, with charts of the changes."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from torchperf_ci.console import say
from torchperf_ci.document import Chart, Document, Folded, Link, Paragraph, Words, short
from torchperf_ci.github import github_server
from torchperf_ci.identity import run_url
from torchperf_ci.markdown import to_markdown
from torchperf_ci.metrics import name_and_unit
from torchperf_ci.page import page
from torchperf_ci.report.contents import ReportInputs, report_documents, write_files
from torchperf_ci.report.issue_report import issue_drafts
from torchperf_ci.verdicts.headline import grouped
from torchperf_ci.verdicts.verdict_document import clearest_chart

if TYPE_CHECKING:
    from pathlib import Path

    from torchperf_ci.options.analysis_commands import ReportOptions
    from torchperf_ci.verdicts.verdict import Verdict

_PAGE = "report.html"
_MAX_CHARTS = 10
_NAME = 100
"""Most characters of a project's name, which may come from an untrusted file."""
_LOG_RATIOS = ("controls", "log_ratios")
"""Keys in a comparison's evidence: log-ratios of base against itself, and of head against base."""

_LARGEST = 20.0
"""Largest log-ratio that is drawn, because a file may contain any number."""


def write_page(inputs: ReportInputs, folder: Path, options: ReportOptions) -> None:
    """Write ``report.md`` and ``report.html`` with the whole report and drafts of the issues."""
    documents = report_documents(inputs, github_server(os.environ))
    groups = grouped(inputs.verdicts)
    changed = (verdict for group in ("regressed", "candidate", "improved") for verdict in groups[group])
    charts = [chart for verdict in changed if (chart := pair_chart(verdict))][:_MAX_CHARTS]
    first = charts[0] if charts else clearest_chart(groups["regressed"]) or clearest_chart(inputs.verdicts)
    if first:
        documents[0] = replace(documents[0], blocks=[first, *documents[0].blocks])
    if charts[1:]:
        documents.append(Document("Pair by pair", charts[1:]))
    if drafts := issue_drafts(inputs, options).values():
        folded = [Folded(draft.title, draft.blocks) for draft in drafts]
        documents.append(Document("Issues", [Paragraph("That is what they would say:"), *folded]))
    text = "\n".join(map(to_markdown, documents))
    title, about = _heading(inputs, options)
    write_files(folder, {"report.md": text, _PAGE: page(title, documents, about)})
    say(f"to look at: {(folder / _PAGE).absolute().as_uri()}")


def _heading(inputs: ReportInputs, options: ReportOptions) -> tuple[str, Words]:
    """Return the title with the project's name, and the line below it with the time and the job's run."""
    of_series = {verdict.series.repo for verdict in inputs.verdicts}
    (only,) = of_series if len(of_series) == 1 else ("",)
    known = options.repo or os.environ.get("GITHUB_REPOSITORY") or only
    now = f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC"
    run = run_url(os.environ)
    of_project = f"Performance of {short(known, _NAME)}" if known else "Performance report"
    return of_project, (f"{now}, ", Link(f"run {os.environ['GITHUB_RUN_ID']}", run)) if run else now


def pair_chart(verdict: Verdict) -> Chart | None:
    """Return a chart of a comparison's pairs, first base against itself, then head; None without pairs."""
    controls, pairs = (_changes(verdict.evidence.others.get(name)) for name in _LOG_RATIOS)
    if not pairs or not verdict.effect:
        return None
    name, _ = name_and_unit(verdict.series.metric)
    level = [100 * (verdict.effect.ratio - 1)] if verdict.size < _LARGEST else []
    before = f"{len(controls)} of base against itself, then " if controls else ""
    return Chart(
        f"{verdict.series.model} {name}: {before}{len(pairs)} of head against base",
        "change in %",
        [*controls, *pairs],
        [*[0.0] * len(controls), *level * len(pairs)] if controls and level else (),
        each="pair",
    )


def _changes(log_ratios: object) -> list[float]:
    """Convert log-ratios to changes in percent; empty if the file does not contain a list."""
    if not isinstance(log_ratios, list | tuple):
        return []
    numbers = [value for value in log_ratios if isinstance(value, int | float) and abs(value) < _LARGEST]
    return [100 * math.expm1(value) for value in numbers]
