"""Which branch's past new records are judged against."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from torchperf_ci.actions import in_actions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchperf_ci.series.series import Points

_BRANCHES = "refs/heads/"


def branch_of(new: Points, environ: Mapping[str, str] = os.environ) -> str:
    """What the job's pull request goes to, else the records' own branch, else the job's; empty where none is known."""
    base = environ.get("GITHUB_BASE_REF", "") if in_actions(environ) else ""
    own = {point.branch for row in new.values() for point in row}
    if base or own != {""}:
        return base or (own.pop() if len(own) == 1 else "")
    ref = environ.get("GITHUB_REF", "") if in_actions(environ) else ""
    return ref.removeprefix(_BRANCHES) if ref.startswith(_BRANCHES) else ""
