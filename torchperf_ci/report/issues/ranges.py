"""Between which points something got worse, and which bisection was of that."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.culprits.culprit import Location
    from torchperf_ci.series.series import Series
    from torchperf_ci.verdicts.verdict import Verdict

_MACHINE = re.compile(r"(?P<arch>.*) \((?P<device>[^()]*)\)")


@dataclass(frozen=True)
class End:
    """A point of history: the commit that was measured, and that of PyTorch; empty where the evidence does not say."""

    commit: str = ""
    torch: str = ""

    @property
    def name(self) -> str:
        """The commit that tells it from others."""
        return self.commit or self.torch


@dataclass(frozen=True)
class Range:
    """The last point at the old level and the first at the new."""

    good: End
    bad: End

    def is_that_of(self, location: Location) -> bool:
        """Whether this is what was bisected, in the repository that measured or in PyTorch's."""
        asked = (location.good, location.bad)
        return asked in ((self.good.commit, self.bad.commit), (self.good.torch, self.bad.torch))


def range_of(verdict: Verdict) -> Range:
    """What the evidence of a verdict says."""
    return Range(_end(verdict.evidence.get("last_old")), _end(verdict.evidence.get("first_new")))


def was_measured(location: Location, series: Series) -> bool:
    """Whether the bisection ran on the kind of machine that a series is of; True where it does not say which."""
    machine = _MACHINE.fullmatch(location.machine)
    return machine is None or (machine["arch"], machine["device"]) == (series.arch, series.device)


def machine_of(location: Location) -> tuple[str, str]:
    """The arch and the device of a bisection; its words on the machine and nothing, where they are somebody else's."""
    machine = _MACHINE.fullmatch(location.machine)
    return (machine["arch"], machine["device"]) if machine else (location.machine, "")


def bisected(verdict: Verdict, locations: Sequence[Location]) -> Location | None:
    """The bisection of just the range of a verdict, on its kind of machine."""
    found = range_of(verdict)
    return next(
        (one for one in locations if found.is_that_of(one) and was_measured(one, verdict.series)), None
    )


def _end(point: Any) -> End:
    if not isinstance(point, Mapping):
        return End()
    commit, torch = point.get("commit"), point.get("torch")
    return End(commit if isinstance(commit, str) else "", torch if isinstance(torch, str) else "")
