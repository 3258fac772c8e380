"""How far the values of a series lie apart from run to run, whatever steps and spikes there are between them.

Arrays have the shape (series, runs), oldest first, and NaN where there is no value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MAD_TO_SIGMA = 1.482602218505602
"""σ of a normal distribution whose median absolute deviation is 1: 1/Φ⁻¹(¾)."""
MEAN_DEVIATION_TO_SIGMA = 1.2533141373155003
"""σ of a normal distribution whose mean absolute deviation is 1: √(π/2)."""
DECILES_TO_SIGMA = 0.3901520577989803
"""σ of a normal distribution whose first and last decile are 1 apart: 1/(2·Φ⁻¹(0.9))."""
FLOOR = 1e-3
"""No series is taken to be steadier than 0.1%: a constant one would otherwise make every digit a discovery."""


def robust_sigma(log_values: Floats) -> Floats:
    """σ between runs of each series, shape (series,); NaN for those with fewer than two values, else at least
    :data:`FLOOR`.

    The root mean square of two estimates. One is the median absolute difference of successive values, which a step
    spoils once and a spike twice; one is the distance of the first and last decile, which also sees a level that
    wanders or that has two modes.
    """
    return level_and_sigma(log_values)[1]


def level_and_sigma(log_values: Floats) -> tuple[Floats, Floats]:
    """The median of each series and its :func:`robust_sigma`, both of shape (series,)."""
    values = compacted(log_values)
    level, low, high = _quantiles(values, (0.5, 0.1, 0.9))
    successive = successive_sigma(values)
    around = (high - low) * DECILES_TO_SIGMA
    sigma: Floats = np.sqrt((successive**2 + around**2) / 2)
    return level, np.maximum(sigma, FLOOR)


def successive_sigma(values: Floats) -> Floats:
    """σ of each series, shape (series,), from the differences of successive values, which have no gaps; at least
    :data:`FLOOR`."""
    return np.asarray(np.maximum(spread(np.abs(np.diff(values, axis=1))) / np.sqrt(2), FLOOR))


def row_median(values: Floats) -> Floats:
    """The median of each row without its NaN; NaN for a row that holds nothing else."""
    return _quantiles(values, (0.5,))[0]


def compacted(values: Floats) -> Floats:
    """The rows with their NaN moved to the front and the order of the others kept: a missing run leaves no gap."""
    missing = np.isnan(values)
    if not (missing[:, 1:] & ~missing[:, :-1]).any():
        return values
    order = np.argsort(~missing, axis=1, kind="stable")
    return np.take_along_axis(values, order, axis=1)


def _quantiles(values: Floats, shares: Sequence[float]) -> list[Floats]:
    """Quantiles of each row, by definition 8 of Hyndman & Fan (*American Statistician* 50, 1996)."""
    if not values.shape[1]:
        return [np.full(len(values), np.nan) for _ in shares]
    ordered = np.sort(values, axis=1)  # NaN go to the end, so a row of nothing else has one in every place
    count = (~np.isnan(values)).sum(axis=1)
    return [_quantile(ordered, count, share) for share in shares]


def _quantile(ordered: Floats, count: NDArray[np.int64], share: float) -> Floats:
    place = np.clip(share * (count + 1 / 3) - 2 / 3, 0, np.maximum(count - 1, 0))
    lower = place.astype(np.intp)
    upper = np.minimum(lower + 1, np.maximum(count - 1, 0))
    rows = np.arange(len(ordered))
    below = ordered[rows, lower]
    return np.asarray(below + (place - lower) * (ordered[rows, upper] - below))


def spread(deviations: Floats) -> Floats:
    """σ of each row from absolute deviations, at least one of them not NaN: their median, or their mean where more than
    half are 0 (values on a coarse grid)."""
    typical = row_median(deviations) * MAD_TO_SIGMA
    coarse = typical == 0
    if coarse.any():
        typical[coarse] = np.nanmean(deviations[coarse], axis=1) * MEAN_DEVIATION_TO_SIGMA
    return typical
