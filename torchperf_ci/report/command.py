"""What ``torchperf report`` does with its options."""

from __future__ import annotations

import os
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci import actions
from torchperf_ci.console import say
from torchperf_ci.culprits.showing import headline as culprits_headline
from torchperf_ci.errors import NotDeliveredError, UsageError
from torchperf_ci.report.destinations import summary
from torchperf_ci.report.destinations.outside import server
from torchperf_ci.report.document import document
from torchperf_ci.report.told import read
from torchperf_ci.verdicts.headline import headline

if TYPE_CHECKING:
    from torchperf_ci.options import ReportOptions
    from torchperf_ci.report.told import Told


_WORDS = ("summary", "comment", "issues")
"""What ``--to`` names beside a directory."""


def report_command(options: ReportOptions) -> int:
    """Tell those who must know. What the verdicts say does not make it fail: that is for the command that judged."""
    _check_destination(options.to)
    told = read(options)
    if told.judgements:
        say(headline(told.judgements))
    for location in told.locations:
        say(f"bisection: {culprits_headline(location)}")
    try:
        _tell(told, options)
    except NotDeliveredError as error:
        if options.on_failure != "warn":
            raise
        say(f"warning: {error}")
        actions.annotate([actions.Annotation("warning", str(error), title="Not reported")])
    return 0


def _check_destination(to: str | None) -> None:
    """Raise :class:`UsageError` for a misspelt word, which would else become a directory."""
    near = get_close_matches(to or "", _WORDS, n=1, cutoff=0.7)
    if to and near and to not in _WORDS and not Path(to).exists():
        msg = f"--to {to}: did you mean {near[0]}? For a directory of that name write ./{to}"
        raise UsageError(msg)


def _tell(told: Told, options: ReportOptions) -> None:
    """The destinations are imported on use: only GitHub needs its client, and only a page its renderer."""
    match options.to:
        case "comment":
            from torchperf_ci.report.destinations import comment

            comment.tell(told, options)
        case "issues":
            from torchperf_ci.report.destinations import issues

            issues.tell(told, options)
        case "summary" | None:
            summary.tell(document(told, summary.ROOM, server(os.environ)))
        case folder:
            from torchperf_ci.report.destinations import folder as page

            page.tell(told, Path(folder), options)
