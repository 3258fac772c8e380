"""A report as a page in a directory, as Markdown and as HTML."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

from torchperf_ci.console import say
from torchperf_ci.document import Chart, Document, Folded, Paragraph
from torchperf_ci.github import github_server
from torchperf_ci.markdown import to_markdown
from torchperf_ci.metrics import name_and_unit
from torchperf_ci.page import page
from torchperf_ci.report.issue_report import issue_drafts
from torchperf_ci.report.output import report_documents, write_files
from torchperf_ci.verdicts.headline import grouped

if TYPE_CHECKING:
    from pathlib import Path

    from torchperf_ci.options.judging_commands import ReportOptions
    from torchperf_ci.report.inputs import ReportInputs
    from torchperf_ci.verdicts.verdict import Verdict

_PAGE = "report.html"
_MOST_CHARTS = 10
_LOG_RATIOS = ("controls", "log_ratios")
"""What a comparison keeps as evidence: base against itself, and head against base."""

_LARGEST = 20.0
"""Of a logarithm that is drawn: what a file holds may be anything."""


def write_page(inputs: ReportInputs, folder: Path, options: ReportOptions) -> None:
    """Write ``report.md`` and ``report.html``: all there is, and what the issues would be."""
    documents = report_documents(inputs, github_server(os.environ))
    found = grouped(verdict for judgement in inputs.judgements for verdict in judgement.verdicts)
    changed = (verdict for group in ("regressed", "candidate", "improved") for verdict in found[group])
    if charts := [chart for verdict in changed if (chart := pair_chart(verdict))][:_MOST_CHARTS]:
        documents.append(Document("Pair by pair", charts))
    if drafts := issue_drafts(inputs, options).values():
        folded = [Folded(draft.title, draft.blocks) for draft in drafts]
        documents.append(Document("Issues", [Paragraph("That is what they would say:"), *folded]))
    text = "\n".join(map(to_markdown, documents))
    write_files(folder, {"report.md": text, _PAGE: page("Performance report", documents)})
    say(f"to look at: {(folder / _PAGE).absolute().as_uri()}")


def pair_chart(verdict: Verdict) -> Chart | None:
    """Each pair of a comparison, as it was measured: base against itself, then head; None for what has no pairs."""
    controls, pairs = (_changes(verdict.evidence.others.get(name)) for name in _LOG_RATIOS)
    if not pairs or not verdict.effect:
        return None
    name, _ = name_and_unit(verdict.series.metric)
    before = f"{len(controls)} of base against itself, then " if controls else ""
    return Chart(
        f"{verdict.series.model} {name}: {before}{len(pairs)} of head against base",
        "change in %",
        [*controls, *pairs],
        [*[0.0] * len(controls), *[100 * (verdict.effect.ratio - 1)] * len(pairs)] if controls else (),
        each="pair",
    )


def _changes(log_ratios: object) -> list[float]:
    """In percent; nothing where a file has something else there."""
    if not isinstance(log_ratios, list | tuple):
        return []
    numbers = [value for value in log_ratios if isinstance(value, int | float) and abs(value) < _LARGEST]
    return [100 * math.expm1(value) for value in numbers]
