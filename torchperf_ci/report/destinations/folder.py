"""A report as a page in a directory, as Markdown and as HTML."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from torchperf_ci import actions
from torchperf_ci.console import say
from torchperf_ci.markdown import folded
from torchperf_ci.report.destinations.issues import drafts
from torchperf_ci.report.destinations.outside import server, write
from torchperf_ci.report.document import document
from torchperf_ci.report.page import page

if TYPE_CHECKING:
    from pathlib import Path

    from torchperf_ci.options import ReportOptions
    from torchperf_ci.report.told import Told

_TITLE = "Performance report"
_PAGE = "report.html"


def tell(told: Told, folder: Path, options: ReportOptions) -> None:
    """Write ``report.md`` and ``report.html``: all there is, and what the issues would be."""
    parts = [document(told, actions.SUMMARY_LIMIT, server(os.environ))]
    issues = drafts(told, options)
    if issues:
        parts.append("### Issues\n\nThat is what they would say:")
        parts += [folded(actions.markdown_cell(one.title), one.body) for one in issues]
    text = "\n\n".join(part.strip() for part in parts) + "\n"
    write(folder, {"report.md": text, _PAGE: page(_TITLE, text)})
    say(f"to look at: {(folder / _PAGE).absolute().as_uri()}")
