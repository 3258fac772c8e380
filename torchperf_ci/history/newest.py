"""What ``check`` sees in the newest runs and history does not list: they are too few to be a level of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.history.found import Newest
from torchperf_ci.history.settled import STAYS
from torchperf_ci.stats.effect import Effect
from torchperf_ci.stats.gate import judge
from torchperf_ci.stats.past import BASELINE, NEWEST

if TYPE_CHECKING:
    from collections.abc import Sequence

_LOOKED_AT = 2 * BASELINE
"""Of a series so many of the newest runs: the past that ``check`` compares with, and what tells where that begins."""


def newest_ratios(
    rows: Sequence[Sequence[float]], least: Sequence[float], last_changes: Sequence[int]
) -> list[Newest | None]:
    """Of each row of positive values what its newest runs prove and no change tells.

    ``least`` is the smallest relative change of each row that matters, ``last_changes`` the index at which its newest
    level begins, 0 where there is one level only.
    """
    if not rows:
        return []
    values = np.full((len(rows), max(1, min(_LOOKED_AT, max(map(len, rows))))), np.nan)
    for number, row in enumerate(rows):
        newest = row[-_LOOKED_AT:]
        values[number, values.shape[1] - len(newest) :] = np.log(newest)
    judged = judge(values, np.log1p(least))
    proven = judged.up.proven | judged.down.proven
    found: list[Newest | None] = [None] * len(rows)
    for number in np.flatnonzero(proven).tolist():
        runs = int(judged.runs[number])
        if last_changes[number] < len(rows[number]) - max(runs, NEWEST):
            change, low, high = (float(one[number]) for one in (judged.change, judged.low, judged.high))
            found[number] = Newest(runs, Effect.of_logs(change, low, high, pairs=0))
    return found


def newest_differing(values: Sequence[float]) -> Newest | None:
    """The newest run of a count or an outcome, where it is not what the series has settled on."""
    return Newest(1) if len(values) > STAYS and values[-1] != values[-2] == values[-1 - STAYS] else None
