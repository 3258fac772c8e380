"""How suspect each commit is before anything is measured."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

FAVOUR = 10.0
"""How many times as suspect a commit is that changes what the user pointed at."""


def weights(changed: Sequence[frozenset[str]], patterns: Sequence[str]) -> NDArray[np.float64]:
    """The prior probability of each suspect, shape (n,), from the paths that it ``changed``; they sum to 1.

    A pattern is a file, a directory, or a glob that, as in git's pathspecs, lets ``*`` stand for ``/``, too. The others
    keep at least 1 / FAVOUR of an equal share, so that no commit is ever ruled out by its paths. Nothing else counts: a
    revert is as suspect as any other commit.
    """
    favoured = [any(_matches(path, pattern) for path in paths for pattern in patterns) for paths in changed]
    weight = np.where(np.asarray(favoured, dtype=bool), FAVOUR, 1.0)
    share: NDArray[np.float64] = weight / weight.sum()
    return share


def _matches(path: str, pattern: str) -> bool:
    return PurePosixPath(path).is_relative_to(PurePosixPath(pattern)) or fnmatchcase(path, pattern)
