"""Lower bounds on the number of runs of a bisection: information theory's for the search, and Wald's for the proof."""

from __future__ import annotations

import math

from torchperf_ci.stats.posterior import capacity

ERROR = 0.05


def fewest_runs(n: int, d: float, error: float = ERROR) -> float:
    """Runs that finding and proving one of ``n`` commits takes at least, whose effect is ``d`` standard deviations.

    Search: ((1 − ε)·log₂n − h(ε))/C(d), Fano's inequality over the capacity of a run, which can only say "before" or
    "after" (Burnashev & Zigangirov, *Problems of Information Transmission* 10, 1974). Proof, of the commit against its
    parent: 4·kl(ε, 1 − ε)/d² (Wald, *Annals of Mathematical Statistics* 16, 1945), half of them for each of the two.
    """
    search = ((1 - error) * math.log2(n) - _entropy(error)) / capacity(d)
    return search + 4 * _divergence(error) / d**2


def _entropy(p: float) -> float:
    return -p * math.log2(p) - (1 - p) * math.log2(1 - p)


def _divergence(error: float) -> float:
    """kl(ε, 1 − ε) in nats."""
    return (1 - 2 * error) * math.log((1 - error) / error)
