"""A report in the summary of the job; outside a job it is printed."""

from __future__ import annotations

import sys

from torchperf_ci import actions

ROOM = actions.SUMMARY_LIMIT // 2
"""The same step may have said something before."""


def tell(text: str) -> None:
    """Add ``text`` to the summary."""
    if actions.in_actions():
        actions.append_summary(text)
        return
    with actions.literal():
        sys.stdout.write(text)
        sys.stdout.flush()
