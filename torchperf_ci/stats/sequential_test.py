"""Sequential tests of whether one build is slower than another, on paired log-ratios with unknown noise.

After each pair three hypotheses are weighed: the ratio is 1, it is ``1 + min_effect`` or more, or it is the inverse of
that or less. The test ends as soon as one is likely enough (Wald, *Annals of Mathematical Statistics* 16, 1945);
looking after every pair costs nothing, since the boundaries hold for all pairs together. σ is integrated out of the
likelihoods, which makes it a sequential t-test (Rushton, *Biometrika* 37, 1950), and changes of more than
``min_effect`` are covered by a mixture of effects (Robbins, *Annals of Mathematical Statistics* 41, 1970). Errors have
Student's distribution, so that a spoiled pair counts for little (Lange, Little & Taylor, *Journal of the American
Statistical Association* 84, 1989).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np

from torchperf_ci.stats.build_variance import taus
from torchperf_ci.stats.effect import Effect, share_of_log
from torchperf_ci.stats.effect_estimates import paired_effect
from torchperf_ci.stats.level_grid import small_product
from torchperf_ci.stats.noise import FLOOR, MAD_TO_SIGMA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from torchperf_ci.stats import Floats

    Blocks = tuple[tuple[float, ...], ...]


Word = Literal["increase", "decrease", "none", "open"]

ALPHA = 0.01
"""Probability that any of the cases judged together is called slower although none is."""
BETA = 0.05
"""Probability that a case which is slower by ``min_effect`` is called unchanged."""
MIN_PAIRS = 6
"""Fewest pairs that give a bounded distribution-free 95% interval."""
LOOKS = 4.0
"""How many times more often pairs agree by luck if one looks after every pair, up to forty, instead of once; from
simulations of pairs with two modes, for any choice of the modes. A bisection looks up to 120 times: in 2,000 simulated
tests a row, pairs with modes of ±3 to ±8% are called slower in 0.8 to 0.9%, all within forty looks; normal ones that
spread by 3% in 0.3%, by 5% in 1.1% within forty looks and 1.3% in all, by 8% in 1.4% and 2%."""
BEYOND_MODES = 0.12
"""Logarithm of a change larger than a machine is assumed to jump by from pair to pair."""
PRIOR_SIGMA = 0.025
"""Prior scale of the pairs. Measured pairs spread by 0.9–1.5%, but the smaller the prior is, the sooner pairs with a
spread of 3% that agree by luck are believed; with this one, false alarms stay below ``ALPHA`` there, too."""
PRIOR_DF = 4.0
"""Weight of that prior, in pairs."""
ERROR_DF = 4.0
"""Degrees of freedom of the errors: 1 pair in 100 may lie 3.7 scales away."""
INFORMATION = (ERROR_DF + 1) / (ERROR_DF + 3)
"""Information about the mean in such an error, relative to a normal one of the same scale."""
MULTIPLES = 2.0 ** np.arange(6)
"""Sizes of a change that are considered, in multiples of the smallest effect; the nearest is off by at most a third."""
WEIGHTS = np.append(0.5 ** np.arange(1, MULTIPLES.size), 0.5 ** (MULTIPLES.size - 1))
"""Weights of the multiples in the mixture of changes."""

_SIGMAS = np.geomspace(1e-3, 0.3, 49)


@dataclass(frozen=True)
class PairEvidence:
    """Log-likelihood ratios against no change after each pair, of the same shape as the log-ratios, (series, pairs).

    ``increase`` and ``decrease`` are for a change by the smallest effect or more, ``least_increase`` and
    ``least_decrease`` for a change by exactly the smallest effect.
    """

    increase: Floats
    decrease: Floats
    least_increase: Floats
    least_decrease: Floats


@dataclass(frozen=True)
class Decision:
    """The decision after some pairs; if ``word`` is "open", the test continues.

    ``increase``, ``decrease`` and ``none`` are log-likelihood ratios: of a change against none, and of none against the
    likelier of the two least changes. ``noise`` is a robust standard deviation of the log-ratios, ``detectable`` the
    smallest relative change that this many pairs would be expected to confirm.
    """

    word: Word
    effect: Effect
    noise: float
    detectable: float
    increase: float
    decrease: float
    none: float


def decide(log_ratios: ArrayLike, min_effect: float, *, cases: int = 1) -> Decision:
    """Decide from paired log-ratios ln(head/base), shape (n,), in the order taken, on a change of ``min_effect``.

    ``cases`` is the number of cases that are judged together and share alpha. An increase requires at least
    ``MIN_PAIRS``, a log-likelihood ratio of ``ln((1 − beta)/alpha)``, an estimate of at least half of
    ``min_effect``, and a distribution-free interval above 1 (see :func:`_is_up`); a decrease likewise. The decision is
    "none" if the log-likelihood ratios of both least changes are at most ``ln(beta/(1 − alpha))``. A change beyond the
    largest of the mixture counts as that one, because its remainder would otherwise look like noise.
    """
    x = np.asarray(log_ratios, dtype=np.float64)
    effect, delta, median = paired_effect(x), math.log1p(min_effect), float(np.median(x))
    most = delta * float(MULTIPLES[-1])
    beyond = median - min(max(median, -most), most)
    pair_evidence = evidence((x - beyond)[np.newaxis], delta, after_all=True)
    noise = max(float(np.median(np.abs(x - median))) * MAD_TO_SIGMA, FLOOR)
    return Decision(
        _word(x, pair_evidence, delta, cases),
        effect,
        noise,
        share_of_log(_detectable(noise, x.size, delta, cases)),
        float(pair_evidence.increase[0, -1]),
        float(pair_evidence.decrease[0, -1]),
        -float(max(pair_evidence.least_increase[0, -1], pair_evidence.least_decrease[0, -1])),
    )


def boundaries(cases: int, beta: float = BETA) -> tuple[float, float]:
    """Return the log-likelihood ratios that confirm and that refute a change, where ``cases`` share alpha."""
    alpha = ALPHA / cases
    return math.log((1 - BETA) / alpha), math.log(beta / (1 - alpha))


def evidence(log_ratios: Floats, delta: float, *, after_all: bool = False) -> PairEvidence:
    """Return the evidence of paired log-ratios, shape (series, pairs), for a change by ``delta`` on the log scale.

    ``after_all`` gives only that of all pairs, shape (series, 1).
    """
    sizes = delta * MULTIPLES
    each = _of_each(log_ratios, np.concatenate([[0.0], sizes, -sizes]))
    likelihoods = _marginal(each.sum(axis=1, keepdims=True) if after_all else np.cumsum(each, axis=1))
    up, down = np.split(likelihoods[..., 1:] - likelihoods[..., :1], 2, axis=-1)
    return PairEvidence(_mixed(up), _mixed(down), least_increase=up[..., 0], least_decrease=down[..., 0])


def _of_each(log_ratios: Floats, means: Floats) -> Floats:
    """Return ln t((xᵢ − mean)/σ)/σ of each pair, up to a constant; the last axes are those of ``means`` and of σ."""
    squares = ((log_ratios[..., np.newaxis] - means)[..., np.newaxis] / _SIGMAS) ** 2
    likelihoods: Floats = -(ERROR_DF + 1) / 2 * np.log(1 + squares / ERROR_DF) - np.log(_SIGMAS)
    return likelihoods


def _marginal(likelihoods: Floats) -> Floats:
    """Return ln ∫ exp(likelihoods) dP(σ) over the last axis, up to a constant; σ² is scaled inverse χ²."""
    return log_of_sum(likelihoods - PRIOR_DF * (np.log(_SIGMAS) + (PRIOR_SIGMA / _SIGMAS) ** 2 / 2))


def _mixed(ratios: Floats) -> Floats:
    return log_of_sum(ratios + np.log(WEIGHTS))


def log_of_sum(logs: Floats) -> Floats:
    """Return ln ∑ exp over the last axis."""
    most = logs.max(axis=-1, keepdims=True)
    total: Floats = most[..., 0] + np.log(np.exp(logs - most).sum(axis=-1))
    return total


def _detectable(noise: float, pairs: int, delta: float, cases: int) -> float:
    """Return the smallest change, as a logarithm, whose expected evidence after this many pairs reaches the boundary.

    If pairs lie about ``μ``, the evidence for a change by ``d`` against none grows as ``d·(2μ − d)``. Its certainty
    follows the sequential t-test (Rushton) with the pairs of the prior included, and only the share of the information
    that Student's errors leave. The smallest ``μ`` over all ``d`` of the mixture counts.
    """
    confirm, _ = boundaries(cases)
    worth, sizes = PRIOR_DF + pairs, delta * MULTIPLES
    variance = (PRIOR_DF * PRIOR_SIGMA**2 + pairs * noise**2) / (pairs * INFORMATION)
    needed = variance * np.expm1(2 * (confirm - np.log(WEIGHTS)) / worth)
    return float(np.min((sizes + needed / sizes) / 2))


def _word(log_ratios: Floats, pair_evidence: PairEvidence, delta: float, cases: int) -> Word:
    if log_ratios.size < MIN_PAIRS:
        return "open"
    confirm, refute = boundaries(cases)
    if pair_evidence.increase[0, -1] >= confirm and _is_up(log_ratios, delta, cases):
        return "increase"
    if pair_evidence.decrease[0, -1] >= confirm and _is_up(-log_ratios, delta, cases):
        return "decrease"
    if max(pair_evidence.least_increase[0, -1], pair_evidence.least_decrease[0, -1]) <= refute:
        return "none"
    return "open"


def _is_up(log_ratios: Floats, delta: float, cases: int) -> bool:
    """Whether the pairs agree on an increase by their ranks alone, with an estimate of at least half of ``delta``.

    The likelihood assumes a single mode. Where pairs have two modes, for example because of the addresses or the core
    that a process gets, a few pairs in the same mode agree by luck, which the likelihood does not notice. So the
    distribution-free interval must lie above 1 with the confidence required of one of ``cases``; a 95% interval is
    enough if it lies beyond ``BEYOND_MODES``.
    """
    effect = paired_effect(log_ratios)
    if math.log(effect.ratio) < delta / 2:
        return False
    sure = paired_effect(log_ratios, 1 - 2 * ALPHA / (LOOKS * cases))
    return sure.low > 1 or effect.low > math.exp(BEYOND_MODES)


_BLOCK_SIGMAS = np.geomspace(1e-3, 0.3, 17)
BLOCK_MULTIPLES = 2.0 ** np.arange(0, 5.25, 0.25)
"""Multiples of the smallest effect for blocks. The scale of pairs bridges :data:`MULTIPLES`, that of builds does not:
+9% between two builds, where 3% matter, was too far from 6 and from 12% to be anything but luck."""
_RATIOS = 1 / BLOCK_MULTIPLES[1:]
BLOCK_WEIGHTS = np.append(0.5, 0.5 * _RATIOS / _RATIOS.sum())
"""Weights of these multiples: half of all for the smallest effect, as there, and the less, the larger they are."""
_STEP = 1e-3
_REACH = 0.35
"""Logarithm of a change beyond which the offsets of builds are left out."""
_AROUND = 0.15
"""Largest distance of the change from the median of all pairs, as a logarithm."""
_LEAST = 1e-300


@dataclass(frozen=True)
class BlockEvidence:
    """The evidence of blocks of pairs about the code.

    ``increase`` is the log-likelihood ratio of a change by the smallest effect or more against none; ``least`` that of
    the smallest increase against no change or a decrease, whichever is likelier. ``tau`` and ``sigma`` are posterior
    means.
    """

    increase: float
    least: float
    tau: float
    sigma: float


@lru_cache(maxsize=256)
def weigh_blocks(blocks: Blocks, delta: float, luck: float, belief: tuple[float, ...]) -> BlockEvidence:
    """Weigh blocks of log-ratios, one block per pair of builds, for a change by ``delta`` on the log scale.

    ``luck`` is the expected scale of τ, ``belief`` the probability of each of its values, shape (taus,).

    The offsets of the two builds of a block (:mod:`torchperf_ci.stats.build_variance`) move all of its pairs alike, so
    many pairs of one block say much about these two builds, and little about the code. This is the model of two-stage
    sampling: a pair reads ``μ + d + e``, with ``d`` normal of variance 2τ² for a block, and ``e`` as in
    :func:`evidence`.

    τ is unknown and weighed like σ. Because it may be large, a few builds that agree by luck are not believed: in 1,000
    simulated proofs of equal code whose builds differ by 1.5%, three pairs a block, up to 40 blocks, looking after each
    pair and from the 13th block on after each block, the evidence reaches the boundary of ``ALPHA`` in 1.1% at a CV of
    1% and 1.4% at 3%, and that of half of it, which is the most that a proof gets, in 0.5% of both.
    """
    sizes = np.concatenate([[0.0], delta * BLOCK_MULTIPLES, -delta * BLOCK_MULTIPLES])
    joint = _joint(blocks, sizes, taus(luck)) + np.log(belief)[:, np.newaxis]
    weights = np.concatenate([[1.0], BLOCK_WEIGHTS, BLOCK_WEIGHTS])
    mixture = joint + np.log(weights)[:, np.newaxis, np.newaxis]
    parts = np.split(mixture, [1, 1 + BLOCK_MULTIPLES.size])
    least, none, up, down = (log_of_sum(part.ravel()) for part in (joint[1], *parts))
    shares = np.exp(mixture - mixture.max()).sum(axis=0)
    shares /= shares.sum()
    return BlockEvidence(
        float(up - none),
        float(least - max(none, down)),
        float(shares.sum(axis=1) @ taus(luck)),
        float(shares.sum(axis=0) @ _BLOCK_SIGMAS),
    )


@lru_cache(maxsize=256)
def block_interval(blocks: Blocks, luck: float) -> tuple[float, float, float]:
    """Return the posterior median of the code's change and the ends of its central 95% interval, as logarithms.

    The prior is uniform over the changes and over the values of τ.
    """
    middle = float(np.median(np.concatenate(blocks)))
    changes = np.arange(-_AROUND, _AROUND + _STEP, 2 * _STEP)
    joint = _joint([tuple(np.array(block) - middle) for block in blocks], changes, taus(luck))
    shares = np.exp(joint - joint.max()).sum(axis=(1, 2))
    interval = np.interp([0.5, 0.025, 0.975], np.cumsum(shares) / shares.sum(), middle + changes + _STEP)
    return float(interval[0]), float(interval[1]), float(interval[2])


def _joint(blocks: Sequence[tuple[float, ...]], sizes: Floats, every: Floats) -> Floats:
    """Return the log-likelihoods of all blocks for each change plus the log-prior of σ: (sizes, taus, sigmas)."""
    scales = -PRIOR_DF * (np.log(_BLOCK_SIGMAS) + (PRIOR_SIGMA / _BLOCK_SIGMAS) ** 2 / 2)
    return np.asarray(scales + sum(_of_sizes(block, tuple(sizes), tuple(every)) for block in blocks))


def _log_likelihood(block: Floats, middles: Floats) -> Floats:
    squares = ((block[:, np.newaxis] - middles) / _BLOCK_SIGMAS[:, np.newaxis, np.newaxis]) ** 2
    logs = -(ERROR_DF + 1) / 2 * np.log1p(squares / ERROR_DF).sum(axis=1)
    return np.asarray(logs - block.size * np.log(_BLOCK_SIGMAS)[:, np.newaxis])


@lru_cache(maxsize=256)
def _of_sizes(block: tuple[float, ...], sizes: tuple[float, ...], every: tuple[float, ...]) -> Floats:
    """Return the log-likelihoods of a block for each change, summed over its offset: (sizes, taus, sigmas)."""
    values, changes, middles = np.array(block), np.array(sizes), _middles(every[-1])
    table = _log_likelihood(values, middles)
    most = table.max(axis=-1, keepdims=True)
    likelihoods = small_product(_weights(sizes, every).reshape(-1, middles.size), np.exp(table - most).T)
    logs = np.log(np.maximum(likelihoods.reshape(changes.size, len(every), -1), _LEAST)) + most[:, 0]
    far = np.abs(changes) > _REACH
    if far.any():
        logs[far] = _log_likelihood(values, changes[far]).T[:, np.newaxis]
    return np.asarray(logs)


def _middles(most_tau: float) -> Floats:
    """Return a grid of block means that holds all offsets of the changes up to :data:`_REACH`."""
    steps = math.ceil((_REACH + 5 * most_tau * math.sqrt(2)) / _STEP)
    return np.asarray(np.arange(-steps, steps + 1) * _STEP)


@lru_cache(maxsize=16)
def _weights(sizes: tuple[float, ...], every: tuple[float, ...]) -> Floats:
    """Return the probability of each block mean given the size of the change: (sizes, taus, middles)."""
    spread = np.maximum(np.array(every) * math.sqrt(2), _STEP / 2)[:, np.newaxis]
    logs = -0.5 * ((_middles(every[-1]) - np.array(sizes)[:, np.newaxis, np.newaxis]) / spread) ** 2
    weights = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))
