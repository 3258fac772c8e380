"""Lines for a shell that measure a series again, in a fresh clone of the repository, and what they need to be there."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from torchperf_ci.actions import markdown_cell, one_line
from torchperf_ci.document import short

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.series.series import Series
    from torchperf_ci.verdicts.verdict import Again

PYTHON = ("--python", "python")
"""The Python that is active, for whoever pastes the line: that of the machine which measured is not theirs."""
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_RELEASE = re.compile(r"\d+(\.\d+)+(\.post\d+)?")
_LENGTH, _VERSION_LENGTH = 2000, 60


def compare_lines(again: Again, base: str, head: str, series: Series) -> list[str]:
    """Compare two builds by one series."""
    chosen = ("--base", base, "--head", head, *PYTHON, *again.options, *chosen_by(series))
    return lines(again.folder, (base, head), shlex.join(["torchperf", "compare", *chosen]))


def run_lines(again: Again, series: Series) -> list[str]:
    """Measure one series by itself, at the commit that is checked out."""
    options = _without(again.options, ("--build", "--min-effect"))
    return lines(again.folder, (), shlex.join(["torchperf", "run", *PYTHON, *options, *chosen_by(series)]))


def lines(folder: str, builds: Sequence[str], command: str) -> list[str]:
    """``command``, after what makes a fresh clone have the commits among ``builds``."""
    commits = list(dict.fromkeys(one for one in builds if _COMMIT.fullmatch(one)))
    return [
        *([f"cd {shlex.quote(folder)}"] if folder else []),
        *([shlex.join(["git", "fetch", "origin", *commits])] if commits else []),
        command,
    ]


def chosen_by(series: Series) -> list[str]:
    """The options that choose a series' case."""
    given = {"filter": series.model, "mode": series.mode, "dtype": series.dtype, "backend": series.backend}
    return [word for name, value in given.items() if value for word in (f"--{name}", value)]


def _without(words: Sequence[str], flags: Sequence[str]) -> list[str]:
    """The words less those options, with their values."""
    flag, kept = "", []
    for word in words:
        flag = word if word.startswith("--") else flag
        if flag not in flags:
            kept.append(word)
    return kept


def code(commands: Sequence[str]) -> str:
    """Commands as indented code: shown to the letter, with the lines that a quoted word has, and none can end it."""
    return "\n".join(
        f"    {one_line(line)}" for command in commands for line in short(command, _LENGTH).split("\n")
    )


def where(torch: str) -> str:
    """What has to be there for the lines to run: ``in a clone, with PyTorch 2.13.0 in the Python that is active``."""
    if not torch:
        return "in a clone of the repository"
    version = torch.partition("+")[0]
    how = f" (`pip install torch=={version}`)" if _RELEASE.fullmatch(version) else ""
    shown = version if how else markdown_cell(short(torch, _VERSION_LENGTH))
    return f"in a clone of the repository, with PyTorch {shown} in the Python that is active{how}"
