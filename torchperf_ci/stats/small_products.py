"""Products of matrices that are worked out by one thread.

Libraries of linear algebra share a product among threads from 2¹⁸ multiplications on (OpenBLAS). Of products that take
less than a millisecond the threads wait for each other for most of the time, the longer the busier the machine is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


MOST = 2**18
"""Multiplications that no library shares among threads."""


def small_product(left: Floats, right: Floats) -> Floats:
    """``left @ right``, both of two axes, in slices of the longer side."""
    (rows, inner), columns = left.shape, right.shape[1]
    if rows * inner * columns <= MOST:
        return np.asarray(left @ right)
    if rows < columns:
        return np.asarray(small_product(right.T, left.T).T)
    step = max(MOST // (inner * columns), 2)  # a single row is another routine's, which uses threads sooner
    return np.concatenate([left[first : first + step] @ right for first in range(0, rows, step)])
