"""Is the code of one commit slower than that of another? The test of pairs that share the offsets of their builds.

Pairs come in blocks, one for each two builds. The offsets of the two (:mod:`torchperf_ci.stats.build_offsets`) move
all pairs of a block alike, so many pairs of one block tell much of these two builds, and little of the code. It is the
model of two-stage sampling: a pair reads ``μ + d + e``, with ``d`` normal of variance 2τ² for a block, and ``e`` as
in :mod:`torchperf_ci.stats.sprt`.

τ is not known, and is weighed like σ. That it may be large keeps few builds that agree by luck from being believed:
by simulation of builds that differ by 1.5% such a test, asked after every three pairs up to seven blocks, says "slower"
of equal code in at most 1% of cases, at a CV of 1 and of 3%.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.stats.build_offsets import taus
from torchperf_ci.stats.sprt import ERROR_DF, MULTIPLES, PRIOR_DF, PRIOR_SIGMA, WEIGHTS, log_of_sum

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Blocks = tuple[tuple[float, ...], ...]

_SIGMAS = np.geomspace(1e-3, 0.3, 17)
_STEP = 1e-3
_REACH = 0.35
"""Beyond this logarithm no offset of builds makes a difference."""
_AROUND = 0.15
"""How far from the middle of all pairs the change may be."""
_LEAST = 1e-300
_MIDDLES = np.linspace(-_REACH, _REACH, 2 * round(_REACH / _STEP) + 1)


@dataclass(frozen=True)
class ByBuild:
    """What blocks of pairs say of the code.

    ``increase`` is the log-likelihood ratio of a change of the smallest effect or more against none; ``least`` that of
    the smallest increase against no change or a decrease, whichever is likelier. ``tau`` and ``sigma`` are expected
    values.
    """

    increase: float
    least: float
    tau: float
    sigma: float


@lru_cache(maxsize=256)
def by_build(blocks: Blocks, delta: float, luck: float, belief: tuple[float, ...]) -> ByBuild:
    """Weigh blocks of log-ratios, one of each two builds, for a change by ``delta`` on the log scale.

    ``luck`` is the scale of τ that is expected, ``belief`` the probability of each of its values, shape (taus,).
    """
    sizes = np.concatenate([[0.0], delta * MULTIPLES, -delta * MULTIPLES])
    joint = _joint(blocks, sizes, taus(luck)) + np.log(belief)[:, np.newaxis]
    none, *others = log_of_sum(joint.reshape(sizes.size, -1))
    up, down = (log_of_sum(side + np.log(WEIGHTS)) for side in np.split(np.array(others), 2))
    shares = np.exp(joint - joint.max()).sum(axis=0)
    shares /= shares.sum()
    return ByBuild(
        float(up - none),
        float(others[0] - max(none, down)),
        float(shares.sum(axis=1) @ taus(luck)),
        float(shares.sum(axis=0) @ _SIGMAS),
    )


@lru_cache(maxsize=256)
def interval(blocks: Blocks, luck: float) -> tuple[float, float, float]:
    """The median of the change of the code and its middle 95%, logarithms.

    Any change and any of the values of τ are as likely beforehand.
    """
    middle = float(np.median(np.concatenate(blocks)))
    changes = np.arange(-_AROUND, _AROUND + _STEP, 2 * _STEP)
    joint = _joint([tuple(np.array(block) - middle) for block in blocks], changes, taus(luck))
    shares = np.exp(joint - joint.max()).sum(axis=(1, 2))
    found = np.interp([0.5, 0.025, 0.975], np.cumsum(shares) / shares.sum(), middle + changes + _STEP)
    return float(found[0]), float(found[1]), float(found[2])


def _joint(blocks: Sequence[tuple[float, ...]], sizes: Floats, every: Floats) -> Floats:
    """Log-likelihoods of all blocks for each change, with the belief about σ: (sizes, taus, sigmas)."""
    scales = -PRIOR_DF * (np.log(_SIGMAS) + (PRIOR_SIGMA / _SIGMAS) ** 2 / 2)
    return np.asarray(scales + sum(_of_sizes(block, tuple(sizes), tuple(every)) for block in blocks))


def _log_likelihood(block: Floats, middles: Floats) -> Floats:
    squares = ((block[:, np.newaxis] - middles) / _SIGMAS[:, np.newaxis, np.newaxis]) ** 2
    logs = -(ERROR_DF + 1) / 2 * np.log1p(squares / ERROR_DF).sum(axis=1)
    return np.asarray(logs - block.size * np.log(_SIGMAS)[:, np.newaxis])


@lru_cache(maxsize=256)
def _of_sizes(block: tuple[float, ...], sizes: tuple[float, ...], every: tuple[float, ...]) -> Floats:
    """Log-likelihoods of a block for each change, with its offset summed over: (sizes, taus, sigmas)."""
    values, changes = np.array(block), np.array(sizes)
    table = _log_likelihood(values, _MIDDLES)
    most = table.max(axis=-1, keepdims=True)
    likelihoods = _weights(sizes, every).reshape(-1, _MIDDLES.size) @ np.exp(table - most).T
    found = np.log(np.maximum(likelihoods.reshape(changes.size, len(every), -1), _LEAST)) + most[:, 0]
    far = np.abs(changes) > _REACH - 5 * every[-1] * math.sqrt(2)
    if far.any():
        found[far] = _log_likelihood(values, changes[far]).T[:, np.newaxis]
    return np.asarray(found)


@lru_cache(maxsize=16)
def _weights(sizes: tuple[float, ...], every: tuple[float, ...]) -> Floats:
    """How likely each middle is where the change is of a size: (sizes, taus, middles)."""
    spread = np.maximum(np.array(every) * math.sqrt(2), _STEP / 2)[:, np.newaxis]
    logs = -0.5 * ((_MIDDLES - np.array(sizes)[:, np.newaxis, np.newaxis]) / spread) ** 2
    weights = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))
