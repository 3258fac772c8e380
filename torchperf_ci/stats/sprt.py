"""Is one build slower than another? A sequential test on paired log-ratios whose noise nobody knows.

After each pair three hypotheses are weighed: the ratio is 1, it is ``1 + min_effect`` or more, or it is the inverse of
that or less. The test ends as soon as one is likely enough (Wald, *Annals of Mathematical Statistics* 16, 1945);
looking after every pair costs nothing, since the boundaries hold for all pairs together. σ is integrated out of the
likelihoods, which makes it a sequential t-test (Rushton, *Biometrika* 37, 1950), and a change of more than
``min_effect`` is met by a mixture of effects (Robbins, *Annals of Mathematical Statistics* 41, 1970). Errors are
Student's, so that a spoiled pair counts for little (Lange, Little & Taylor, *Journal of the American Statistical
Association* 84, 1989).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Literal

import numpy as np

from torchperf_ci.stats.effect import Effect, paired_effect
from torchperf_ci.stats.noise import FLOOR, MAD_TO_SIGMA

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

Word = Literal["increase", "decrease", "none", "open"]

ALPHA = 0.01
"""Chance that any of the cases judged together is called slower although none is."""
BETA = 0.05
"""Chance that a case which is slower by ``min_effect`` is called unchanged."""
FEWEST_PAIRS = 6
"""The fewest that a distribution-free 95% interval can be had from."""
LOOKS = 4.0
"""How much more often pairs that agree by luck are met by looking after every pair, up to forty, than by looking once:
by simulation of pairs with two modes, whatever these are."""
BEYOND_MODES = 0.12
"""A logarithm: what lies beyond it is taken for more than a machine jumps by from pair to pair."""
PRIOR_SIGMA = 0.025
"""The scale of pairs that is believed beforehand. Measured ones spread by 0.9–1.5%; but the smaller this is, the sooner
pairs that agree by luck are believed where they spread by 3%: so false alarms stay below ``ALPHA`` there, too."""
PRIOR_DF = 4.0
"""How many pairs that belief is worth."""
ERROR_DF = 4.0
"""Degrees of freedom of the errors: 1 pair in 100 may lie 3.7 scales away."""
INFORMATION = (ERROR_DF + 1) / (ERROR_DF + 3)
"""About a mean, in such an error: of that in a normal one of the same scale."""
MULTIPLES = 2.0 ** np.arange(6)
"""Of the smallest effect: what a change may be as large as. The nearest one is off by a third at most."""
WEIGHTS = np.append(0.5 ** np.arange(1, MULTIPLES.size), 0.5 ** (MULTIPLES.size - 1))
"""Of the multiples, in a mixture of changes."""

_SIGMAS = np.geomspace(1e-3, 0.3, 49)


@dataclass(frozen=True)
class Evidence:
    """Log-likelihood ratios against no change, each of the shape of the log-ratios: row by row, after each pair.

    ``increase`` and ``decrease`` are those of a change of the smallest effect or more, ``least_increase`` and
    ``least_decrease`` those of a change of just that.
    """

    increase: NDArray[np.float64]
    decrease: NDArray[np.float64]
    least_increase: NDArray[np.float64]
    least_decrease: NDArray[np.float64]

    def scaled(self, worth: float) -> Evidence:
        """The same of pairs each of which is worth less than an independent one."""
        return Evidence(*(worth * getattr(self, each.name) for each in fields(self)))


@dataclass(frozen=True)
class Decision:
    """What is known after some pairs; ``open`` is to be continued.

    ``increase``, ``decrease`` and ``none`` are log-likelihood ratios: of a change against none, and of none against the
    likelier of the least changes. ``noise`` is the standard deviation of the log-ratios, taken robustly; ``detectable``
    the smallest relative change that as many pairs would have been expected to make likely enough.
    """

    word: Word
    effect: Effect
    noise: float
    detectable: float
    increase: float
    decrease: float
    none: float


def decide(log_ratios: ArrayLike, min_effect: float, *, cases: int = 1, worth: float = 1.0) -> Decision:
    """What paired log-ratios ln(head/base), shape (n,), in the order taken, say about a change of ``min_effect``.

    ``cases`` are judged together and share alpha. An increase needs all of: ``FEWEST_PAIRS``, a log-likelihood ratio of
    ``ln((1 − beta)/alpha)``, an estimate of half of ``min_effect``, and a distribution-free interval above 1, as
    :func:`_is_up` says; a decrease likewise. Neither is there where the ratios of both least changes are below
    ``ln(beta/(1 − alpha))``.

    ``worth``, in (0, 1], is how many independent pairs each of these is worth
    (:mod:`torchperf_ci.stats.pair_memory`): the exponent of the likelihood ratios and of the chance that the pairs
    agree by luck; intervals grow by its root.
    """
    x = np.asarray(log_ratios, dtype=np.float64)
    effect, delta = paired_effect(x).widened(worth**-0.5), math.log1p(min_effect)
    found = evidence(x[np.newaxis], delta).scaled(worth)
    noise = max(float(np.median(np.abs(x - np.median(x)))) * MAD_TO_SIGMA, FLOOR)
    return Decision(
        _word(x, found, delta, cases, worth),
        effect,
        noise,
        math.expm1(_detectable(noise, x.size * worth, delta, cases)),
        float(found.increase[0, -1]),
        float(found.decrease[0, -1]),
        -float(max(found.least_increase[0, -1], found.least_decrease[0, -1])),
    )


def boundaries(cases: int) -> tuple[float, float]:
    """The log-likelihood ratios that confirm a change and that refute it, where ``cases`` share alpha."""
    alpha = ALPHA / cases
    return math.log((1 - BETA) / alpha), math.log(BETA / (1 - alpha))


def evidence(log_ratios: NDArray[np.float64], delta: float) -> Evidence:
    """The evidence in rows of paired log-ratios, shape (series, pairs), for a change by ``delta`` on the log scale."""
    sizes = delta * MULTIPLES
    likelihoods = _marginal(log_ratios, np.concatenate([[0.0], sizes, -sizes]))
    up, down = np.split(likelihoods[..., 1:] - likelihoods[..., :1], 2, axis=-1)
    return Evidence(_mixed(up), _mixed(down), least_increase=up[..., 0], least_decrease=down[..., 0])


def _marginal(log_ratios: NDArray[np.float64], means: NDArray[np.float64]) -> NDArray[np.float64]:
    """ln ∫ ∏ t((xᵢ − mean)/σ)/σ dP(σ) over the pairs up to each, less a constant; σ² is scaled inverse χ².

    The last axis of the result is that of ``means``.
    """
    prior = -PRIOR_DF * (np.log(_SIGMAS) + (PRIOR_SIGMA / _SIGMAS) ** 2 / 2)
    squares = ((log_ratios[..., np.newaxis] - means)[..., np.newaxis] / _SIGMAS) ** 2
    each = -(ERROR_DF + 1) / 2 * np.log1p(squares / ERROR_DF) - np.log(_SIGMAS)
    return log_of_sum(np.cumsum(each, axis=1) + prior)


def _mixed(ratios: NDArray[np.float64]) -> NDArray[np.float64]:
    return log_of_sum(ratios + np.log(WEIGHTS))


def log_of_sum(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """ln ∑ exp over the last axis."""
    most = logs.max(axis=-1, keepdims=True)
    total: NDArray[np.float64] = most[..., 0] + np.log(np.exp(logs - most).sum(axis=-1))
    return total


def _detectable(noise: float, pairs: float, delta: float, cases: int) -> float:
    """The change, as a logarithm, that as many pairs are expected to make likelier by the boundary.

    If pairs lie about ``μ``, a change of ``d`` gains on none as ``d·(2μ − d)``. How sure that is follows the sequential
    t-test with the prior's pairs among them (Rushton), less what Student's errors leave of the information. The least
    ``μ`` of all ``d`` in the mixture counts.
    """
    confirm, _ = boundaries(cases)
    worth, sizes = PRIOR_DF + pairs, delta * MULTIPLES
    variance = (PRIOR_DF * PRIOR_SIGMA**2 + pairs * noise**2) / (pairs * INFORMATION)
    needed = variance * np.expm1(2 * (confirm - np.log(WEIGHTS)) / worth)
    return float(np.min((sizes + needed / sizes) / 2))


def _word(log_ratios: NDArray[np.float64], found: Evidence, delta: float, cases: int, worth: float) -> Word:
    if log_ratios.size < FEWEST_PAIRS:
        return "open"
    confirm, refute = boundaries(cases)
    if found.increase[0, -1] >= confirm and _is_up(log_ratios, delta, cases, worth):
        return "increase"
    if found.decrease[0, -1] >= confirm and _is_up(-log_ratios, delta, cases, worth):
        return "decrease"
    if max(found.least_increase[0, -1], found.least_decrease[0, -1]) <= refute:
        return "none"
    return "open"


def _is_up(log_ratios: NDArray[np.float64], delta: float, cases: int, worth: float) -> bool:
    """Whether pairs agree that there is an increase, by their ranks alone.

    The likelihood takes pairs for a heap about one middle. Where they have two modes, as by the addresses or the core
    that a process gets, a few in the same one agree by luck, and no likelihood tells. So they must agree with the
    confidence that one of ``cases`` needs; a 95% interval is enough beyond ``BEYOND_MODES``.
    """
    effect = paired_effect(log_ratios)
    if math.log(effect.ratio) < delta / 2:
        return False
    sure = paired_effect(log_ratios, 1 - (2 * ALPHA / (LOOKS * cases)) ** (1 / worth))
    return sure.low > 1 or effect.low > math.exp(BEYOND_MODES)
