"""The title of an issue: what got how much slower where."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from torchperf_ci.culprits.words import sha
from torchperf_ci.document import short
from torchperf_ci.report.issues.texts.words import machines, what_got_worse
from torchperf_ci.verdicts.turn import turn_of

if TYPE_CHECKING:
    from torchperf_ci.report.issues.causes.finding import Finding

LENGTH = 120
_MARKUP = re.compile(r"[^\w\s./+%(),…−→-]")


def title(finding: Finding) -> str:
    """At most 120 characters without markup: the numbers that matter come first, since what is too long is cut."""
    if finding.title:
        return finding.title
    if finding.kind == "broken":
        said = f"{finding.rows[0].series.model} fails {machines(finding.rows)}"
    else:
        said = f"{what_got_worse(finding.rows) or 'Something got slower'} {_since(finding)}"
    return short(" ".join(_MARKUP.sub(" ", said).split()), LENGTH)


def _since(finding: Finding) -> str:
    if finding.culprit:
        return f"since {sha(finding.culprit.set[-1])}"
    ends = turn_of(finding.verdicts[0]).range if finding.verdicts else None
    return f"between {sha(ends.good)} and {sha(ends.bad)}" if ends else ""
