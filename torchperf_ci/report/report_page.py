"""A report as a page in a directory, as Markdown and as HTML."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from torchperf_ci.console import say
from torchperf_ci.document import Document, Folded, Paragraph
from torchperf_ci.github import github_server
from torchperf_ci.markdown import to_markdown
from torchperf_ci.page import page
from torchperf_ci.report.issue_report import issue_drafts
from torchperf_ci.report.output import report_documents, write_files

if TYPE_CHECKING:
    from pathlib import Path

    from torchperf_ci.options.judging_commands import ReportOptions
    from torchperf_ci.report.inputs import ReportInputs

_PAGE = "report.html"


def write_page(inputs: ReportInputs, folder: Path, options: ReportOptions) -> None:
    """Write ``report.md`` and ``report.html``: all there is, and what the issues would be."""
    documents = report_documents(inputs, github_server(os.environ))
    if drafts := issue_drafts(inputs, options).values():
        folded = [Folded(draft.title, draft.blocks) for draft in drafts]
        documents.append(Document("Issues", [Paragraph("That is what they would say:"), *folded]))
    text = "\n".join(map(to_markdown, documents))
    write_files(folder, {"report.md": text, _PAGE: page("Performance report", documents)})
    say(f"to look at: {(folder / _PAGE).absolute().as_uri()}")
