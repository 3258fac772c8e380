"""Which commits take back which other ones, as far as their messages say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchperf_ci.bisect.line.commit import Commit

_NAMED = re.compile(r"^This reverts commit ([0-9a-f]{7,64})\b", re.MULTILINE)
_QUOTED = re.compile(r'Revert "(.+)"')


def reverted(subject: str, body: str) -> str:
    """The SHA that git and GitHub write into a revert's ``body``, else the subject that its own quotes, else ``""``."""
    if named := _NAMED.search(body):
        return named[1]
    quoted = _QUOTED.match(subject)
    return quoted[1] if quoted else ""


def reverts(commits: Sequence[Commit]) -> Mapping[int, int]:
    """For each commit that takes back an earlier one of ``commits``, both by their positions."""
    found = {}
    for position, commit in enumerate(commits):
        if commit.reverted:
            earlier = (place for place in range(position - 1, -1, -1) if _is(commits[place], commit.reverted))
            if (place := next(earlier, None)) is not None:
                found[position] = place
    return found


def _is(commit: Commit, named: str) -> bool:
    return commit.subject == named or (len(named) >= 7 and commit.sha.startswith(named))
