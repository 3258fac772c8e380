"""What can be wrong with a record, and where."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Literal

Severity = Literal["refused", "changed", "flag"]
"""``refused``: the database would reject the record, and the whole file with it. ``changed``: it would take
the record and keep another value than the one written. ``flag``: it keeps the record as it is, but something
is missing."""

Steps = tuple[str | int, ...]
"""The keys and indices that lead from a value to a place below it."""


@dataclass(frozen=True)
class Problem:
    """One thing wrong with one element of a file, at a JSON path such as ``$[3].metric.benchmark_values[0]``.

    ``line`` counts from 1 and is where the element begins, or where its syntax breaks. ``path`` starts at the
    outermost JSON value around the element: the file's list or object, or what is on the line of a
    JSONEachRow file.
    """

    file: str
    line: int
    path: str
    reason: str
    severity: Severity

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.path}: {self.reason}"


def path_text(steps: Steps) -> str:
    """Write steps below a value as in JSONPath: ``.name``, ``[0]``, ``["a key that is no name"]``."""
    return "".join(_step_text(step) for step in steps)


def excerpt(value: object, limit: int = 60) -> str:
    """``value`` as JSON on one line of at most ``limit`` characters, for a message."""
    # Of a huge value only the beginning becomes text.
    text = ""
    for piece in json.JSONEncoder(default=str).iterencode(value[:limit] if isinstance(value, str) else value):
        text += piece[: limit + 1]
        if len(text) > limit:
            break
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _step_text(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if re.fullmatch(r"[^\W\d]\w*", step, re.ASCII) else f"[{json.dumps(step)}]"
