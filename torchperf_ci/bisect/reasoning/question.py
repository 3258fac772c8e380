"""What is asked: which of the suspects made which probes slower?"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from torchperf_ci.stats.build_luck import USUAL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from torchperf_ci.bisect.reasoning.facts import Facts, Purpose


@dataclass(frozen=True)
class Question:
    """A range of suspects and what to measure on it.

    ``weights``, one a suspect, sum to 1: how suspect each is beforehand. ``min_effect`` is the smallest relative change
    that matters. ``reverts`` are positions of commits that take back another one, and its position.
    ``build_seconds`` and ``pair_seconds`` are guesses for as long as nothing has been built or measured.

    ``luck`` is the standard deviation that builds of one and the same code are expected to have among themselves, on
    the log scale; 0 where each process draws anew what luck decides, so that pairs carry it already. ``rebuilds`` says
    whether a commit can be built again so that it differs in what luck decides.
    """

    weights: NDArray[np.float64]
    probes: Sequence[str]
    min_effect: float
    build_seconds: float = 600.0
    pair_seconds: float = 10.0
    reverts: Mapping[int, int] = field(default_factory=dict)
    luck: float = USUAL
    rebuilds: bool = False

    @property
    def bad(self) -> int:
        """The position of the bad commit, which is also the number of suspects."""
        return int(self.weights.size)


def as_known(question: Question, facts: Facts) -> Question:
    """The question after it has shown that builds of one commit come out the same, byte for byte, if it has."""
    return replace(question, rebuilds=question.rebuilds and not facts.repeated)


@dataclass(frozen=True)
class Measure:
    """One pair that is to be measured next: two positions, what for, and which draws of their builds."""

    probe: str
    base: int
    head: int
    purpose: Purpose
    draws: tuple[int, int] = (0, 0)
