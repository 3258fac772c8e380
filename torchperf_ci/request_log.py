"""A server's log on stderr: one line per response, which no client can forge."""

from __future__ import annotations

import datetime
import sys
import traceback
from contextlib import suppress


def log(client: str, *lines: str) -> None:
    """Log the outcome of a request of ``client``; the text in ``lines`` may come from the client.

    Unprintable characters are escaped, so that nothing looks like another line of the log or controls a terminal.
    """
    now = datetime.datetime.now(datetime.timezone.utc)
    begin = f"{now:%Y-%m-%dT%H:%M:%SZ} {_printable(client)}"
    # On a full disk, or to a program that has ended, a server without a log is better than none.
    with suppress(OSError):
        sys.stderr.write("".join(f"{begin} {_printable(line)}\n" for line in lines))
        sys.stderr.flush()


def log_bug(client: str) -> None:
    """Log the current exception. Its lines are marked, since its message may quote the request."""
    log(client, *(f"| {line}" for line in traceback.format_exc().splitlines()))


def _printable(line: str) -> str:
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)
    return shown.replace("##[", "#\\x23[")  # a command to GitHub's runner anywhere in a line
