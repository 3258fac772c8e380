"""What ``torchperf report`` does with its options."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchperf_ci import actions
from torchperf_ci.culprits.showing import headline as culprits_headline
from torchperf_ci.errors import NotDeliveredError
from torchperf_ci.report.destinations import summary
from torchperf_ci.report.destinations.outside import say, server
from torchperf_ci.report.document import document
from torchperf_ci.report.told import read
from torchperf_ci.verdicts.groups import headline

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchperf_ci.report.told import Told


def report_command(options: Mapping[str, Any]) -> int:
    """Tell those who must know. What the verdicts say does not make it fail: that is for the command that judged."""
    told = read(options)
    if told.judgements:
        sys.stderr.write(f"{headline(told.verdicts)}\n")
    for location in told.locations:
        say(f"bisection: {culprits_headline(location)}")
    try:
        _tell(told, options)
    except NotDeliveredError as error:
        if options["on_failure"] != "warn":
            raise
        say(f"warning: {error}")
        actions.annotate([actions.Annotation("warning", str(error), title="Not reported")])
    return 0


def _tell(told: Told, options: Mapping[str, Any]) -> None:
    """The destinations are imported on use: only GitHub needs its client, and only a page its renderer."""
    match options["to"]:
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
