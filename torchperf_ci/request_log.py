"""The log of a server: on stderr, a line for each answer, which no client can forge."""

from __future__ import annotations

import datetime
import sys
import traceback


def log(client: str, *lines: str) -> None:
    """Write what became of a request of ``client``, who may have put anything into ``lines``.

    What does not print is escaped: nothing looks like a line of ours, nor like a command to a terminal.
    """
    now = datetime.datetime.now(datetime.timezone.utc)
    begin = f"{now:%Y-%m-%dT%H:%M:%SZ} {_printable(client)}"
    sys.stderr.write("".join(f"{begin} {_printable(line)}\n" for line in lines))
    sys.stderr.flush()


def log_bug(client: str) -> None:
    """Log the exception that is being handled. Each line is marked: its message may hold anything of the request."""
    log(client, *(f"| {line}" for line in traceback.format_exc().splitlines()))


def _printable(line: str) -> str:
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)
    return shown.replace("##[", "#\\x23[")  # a command to GitHub's runner, wherever in the line it stands
