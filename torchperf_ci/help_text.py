"""The layout of ``--help``, and the exit codes that it ends with."""

from __future__ import annotations

import argparse
from textwrap import fill

EPILOG = """\
exit codes:
  0   done, nothing wrong
  1   a regression is confirmed; with doctor --strict, a check did not pass
  2   usage or configuration error
  3   some workloads or records failed or were refused, or init skipped existing files; the rest is done and kept
  4   not delivered; spooled, and can be resumed
  5   inconclusive
  70  a bug in torchperf
  130 stopped by Ctrl-C, 143 by SIGTERM; prints what is kept and the command that continues
"""


class HelpFormatter(argparse.HelpFormatter):
    """Keeps the line breaks of a description and wraps long lines, except commands, so that they can be copied."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(_wrapped(indent + line, width) for line in text.splitlines())


def _wrapped(line: str, width: int) -> str:
    if line.startswith("  torchperf"):
        return line
    return fill(
        line, width, subsequent_indent=_HANGING if line.startswith(" ") else "", break_on_hyphens=False
    )


_HANGING = " " * len("  130 ")
