"""A report as a page in a directory, as Markdown and as HTML."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from torchperf_ci import actions
from torchperf_ci.console import say
from torchperf_ci.github import github_server
from torchperf_ci.markdown import folded
from torchperf_ci.report.issue_report import issue_drafts
from torchperf_ci.report.output import report_markdown, write_files
from torchperf_ci.report.page import page

if TYPE_CHECKING:
    from pathlib import Path

    from torchperf_ci.options import ReportOptions
    from torchperf_ci.report.inputs import ReportInputs

_TITLE = "Performance report"
_PAGE = "report.html"


def write_page(told: ReportInputs, folder: Path, options: ReportOptions) -> None:
    """Write ``report.md`` and ``report.html``: all there is, and what the issues would be."""
    parts = [report_markdown(told, actions.SUMMARY_LIMIT, github_server(os.environ))]
    issues = issue_drafts(told, options)
    if issues:
        parts.append("### Issues\n\nThat is what they would say:")
        parts += [folded(actions.markdown_cell(one.title), one.body) for one in issues]
    text = "\n\n".join(part.strip() for part in parts) + "\n"
    write_files(folder, {"report.md": text, _PAGE: page(_TITLE, text)})
    say(f"to look at: {(folder / _PAGE).absolute().as_uri()}")
