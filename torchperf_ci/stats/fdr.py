"""False-discovery control over all tests that are judged together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def adjusted(p: NDArray[np.float64], fewest: int = 0) -> NDArray[np.float64]:
    """The smallest false-discovery rate at which each test would be a discovery, shape as ``p``; NaN is no test. Fewer
    tests than ``fewest`` count as so many, the others of which are no discoveries.

    Benjamini & Hochberg, *Journal of the Royal Statistical Society B* 57, 1995. The rate also holds for positively
    dependent tests, as those of one machine are (Benjamini & Yekutieli, *Annals of Statistics* 29, 2001).
    """
    q = np.full(p.shape, np.nan)
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    ranked = p[order] * max(order.size, fewest) / np.arange(1, order.size + 1)
    q[order] = np.minimum(np.minimum.accumulate(ranked[::-1])[::-1], 1.0)
    return q
