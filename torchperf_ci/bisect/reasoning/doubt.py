"""What is left of a suspicion that fresh pairs did not prove.

Odds that go against such pairs rest on a model that does not hold here: pairs may remember each other, the machine may
have changed its mode. So they are believed no more than any claim has to be, and that is weighed by what the fresh
pairs said (Bayes' rule).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.stats.sprt import BETA

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchperf_ci.bisect.reasoning.proof import Proof
    from torchperf_ci.stats.posterior import Posterior

_LEAST = 1e-12


def left(claim: float, proof: Proof) -> float:
    """The probability of a step that was claimed with the one of ``claim``, and then not proven."""
    odds = claim / (1 - claim) * _ratio(proof)
    return odds / (1 + odds)


def _ratio(proof: Proof) -> float:
    """How much likelier such pairs are of a culprit than of anything else; they never speak for one."""
    if proof.word == "not slower":
        return BETA
    return math.exp(min(proof.decision.increase, 0.0)) if proof.decision else 1.0


def doubted(found: Posterior, most: Mapping[int, float]) -> Posterior:
    """``found``, but gaps of these numbers have such probabilities at ``most``, and the others what these lose."""
    caps = np.ones_like(found.gaps)
    caps[list(most)] = list(most.values())
    kept = np.minimum(found.gaps, caps)
    free = np.where(caps < 1, 0.0, np.maximum(found.gaps, _LEAST))
    if not free.any() or (kept == found.gaps).all():
        return found
    gaps = kept + free * (found.gaps.sum() - kept.sum()) / free.sum()
    sizes = np.diff(found.tested)
    suspects = found.suspects * np.repeat(gaps / np.maximum(found.gaps, _LEAST), sizes)
    return replace(found, gaps=gaps, suspects=suspects)
