"""What a search has come to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torchperf_ci.bisect.measuring.inside import Looks

if TYPE_CHECKING:
    from torchperf_ci.bisect.line.line import Line
    from torchperf_ci.bisect.reasoning.investigation import Investigation
    from torchperf_ci.bisect.setting import Setting


@dataclass(frozen=True)
class Found:
    """A line of builds, and all that is known about it.

    ``ended_by`` is the option whose limit ended the search, ``looks`` what was seen inside culprits, ``notes``
    what was kept for the reader while it went on.
    """

    line: Line[Any]
    investigation: Investigation
    ended_by: str
    setting: Setting
    looks: Looks = field(default_factory=Looks)
    notes: tuple[str, ...] = ()
