"""What a bisection says at its end: the file, a table, and the page of the job."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from torchperf_ci import actions
from torchperf_ci.console import say
from torchperf_ci.culprits import file
from torchperf_ci.culprits.markdown import GITHUB, markdown
from torchperf_ci.culprits.showing import headline, table, to_annotate

if TYPE_CHECKING:
    from pathlib import Path

    from torchperf_ci.culprits.culprit import Location

_SUMMARY_ROOM = actions.SUMMARY_LIMIT // 2
"""The same step may have said something before."""


def tell(location: Location, out: Path, *, json_output: bool) -> None:
    """Write ``culprits.json`` to ``out``; print the table, or the file itself; fill summary, annotations and outputs.

    Raises :class:`CulpritsError` or :class:`OutputDirectoryError` where ``out`` cannot be written.
    """
    file.write(out, location)
    if json_output:
        sys.stdout.write(actions.inert_json(file.text_of(location)))
    else:
        with actions.literal(sys.stdout):
            table(location, sys.stdout)
    sys.stdout.flush()
    say(f"{headline(location)}; culprits in {out}")
    if not actions.in_actions():
        return
    server = os.environ.get("GITHUB_SERVER_URL") or GITHUB
    actions.append_summary(markdown(location, _SUMMARY_ROOM, server))
    actions.annotate(to_annotate(location))
    first = location.culprits[0].commit if location.culprits else None
    outputs = {
        "culprits": str(out.absolute()),
        "status": location.status,
        "commit": first or "",
        "found": str(len(location.culprits)),
    }
    for name, value in outputs.items():
        actions.set_output(name, value)
