"""What a runner does with the lines that a step prints."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def commands(lines: Iterable[str]) -> Iterator[str]:
    """The lines that it acts on: each that is a command, or has one of the older form in it, unless stopped."""
    token = ""
    for line in lines:
        if token:
            token = "" if line == f"::{token}::" else token
        elif stop := re.match(r"\s*::stop-commands::(.+)", line):
            token = stop[1]
        elif re.match(r"\s*::[\w-]+", line) or "##[" in line:
            yield line
