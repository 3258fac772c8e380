"""Matrix products on a single thread.

OpenBLAS uses several threads for products of more than 2¹⁸ multiplications. If a product takes less than a millisecond,
the threads mostly wait for each other, the more so the busier the machine is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


MOST = 2**18
"""Most multiplications in a product that is computed by a single thread."""


def small_product(left: Floats, right: Floats) -> Floats:
    """Return ``left @ right`` for two matrices, computed in slices along the longer side."""
    (rows, inner), columns = left.shape, right.shape[1]
    if rows * inner * columns <= MOST:
        return np.asarray(left @ right)
    if rows < columns:
        return np.asarray(small_product(right.T, left.T).T)
    step = max(MOST // (inner * columns), 2)  # a single row would use a routine that starts threads sooner
    return np.concatenate([left[first : first + step] @ right for first in range(0, rows, step)])
