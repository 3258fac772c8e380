"""The statistics of measurements. The types of their arrays are named here."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Places = NDArray[np.intp]
    Flags = NDArray[np.bool_]
