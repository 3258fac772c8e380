"""Which bisection was of what got worse, and on which machine."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from torchperf_ci.verdicts.turn import ranges, turn_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.culprits.culprit import Location
    from torchperf_ci.series.series import Series
    from torchperf_ci.verdicts.verdict import Verdict

_MACHINE = re.compile(r"(?P<arch>.*) \((?P<device>[^()]*)\)")


def bisected(verdict: Verdict, locations: Sequence[Location]) -> Location | None:
    """The bisection of just the range of a verdict, in either repository, on its kind of machine."""
    asked = ranges([turn_of(verdict)])
    return next(
        (one for one in locations if (one.good, one.bad) in asked and was_measured(one, verdict.series)),
        None,
    )


def was_measured(location: Location, series: Series) -> bool:
    """Whether the bisection ran on the kind of machine that a series is of; True where it does not say which."""
    machine = _MACHINE.fullmatch(location.machine)
    return machine is None or (machine["arch"], machine["device"]) == (series.arch, series.device)


def machine_of(location: Location) -> tuple[str, str]:
    """The arch and the device of a bisection; its words on the machine and nothing, where they are somebody else's."""
    machine = _MACHINE.fullmatch(location.machine)
    return (machine["arch"], machine["device"]) if machine else (location.machine, "")
