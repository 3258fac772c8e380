"""The levels that a quantity may have gone through from build to build, weighed by noisy readings of a few builds.

The builds are points on a line. The first one is at level 0, to which all readings are relative, and from each to the
next the level stays or jumps. Levels lie on a grid, so this is a hidden Markov model, and the sums over all paths are
exact (Rabiner, *Proceedings of the IEEE* 77, 1989): improvements, several regressions and reverts are paths like any
other.

Besides its level, each build has an offset of its own (see :mod:`torchperf_ci.stats.build_variance`), which is summed
over in the likelihood of the build's readings. The offset of the first build is part of all readings against it, and is
weighed along with the scales of errors and offsets.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.stats.build_variance import (
    SIGMAS,
    block_log_likelihood,
    log_likelihood,
    offset_kernels,
    sigma_prior,
    tau_prior,
    taus,
    without_traces,
)
from torchperf_ci.stats.level_grid import LevelGrid, jump_probabilities, matters, small_product

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchperf_ci.stats import Flags, Floats, Places
    from torchperf_ci.stats.build_variance import Readings


NEGLIGIBLE = 1e-7
"""Levels of a lower probability are skipped, because they make no difference."""
UNLIKELY = 1e-3
"""Scales with less than this share of the probability of the likeliest ones are skipped; they make no difference."""
_OFFSETS = np.arange(-3, 4) * 0.8
"""Candidate offsets of the first build, in standard deviations."""
_LEAST = 1e-150
"""Smallest likelihood of a level relative to the most likely one, so that underflow never rules a level out."""


@dataclass(frozen=True)
class WeighedSeries:
    """What readings of one series say about K + 1 builds and the K gaps between them.

    ``gaps`` (K,) is the probability that the last build which is not slow lies just before the gap, so that all builds
    after the gap are slow; ``none`` that the last build is not slow. ``before`` and ``after``, both (K + 1, levels),
    are the joint probabilities of a build's level and of its lying before or after that gap. ``sigma`` and ``tau`` are
    the expected scales of the readings' errors and of the builds' offsets, ``tau_shares`` the probabilities of all
    :func:`torchperf_ci.stats.build_variance.taus`. ``latest`` maps the number of each tested commit to the readings of
    its latest build.
    """

    grid: LevelGrid
    gaps: Floats
    none: float
    before: Floats
    after: Floats
    sigma: float
    tau: float = 0.0
    tau_shares: Floats = field(default_factory=lambda: np.ones(1))
    latest: Mapping[int, tuple[float, ...]] = field(default_factory=dict)


def weigh_levels(chances: Floats, readings: Readings, grid: LevelGrid, min_effect: float) -> WeighedSeries:
    """Sum over all paths of levels through K + 1 builds.

    ``chances`` (K,) are the probabilities that anything changes from one build to the next. A reading compares a build
    with the first one, or with the one just before it.
    """
    paths = _Paths(chances, readings, grid, min_effect)
    shares, backward = paths.shares, paths.backward()
    slow_backward = np.where(paths.slow, backward.slow, 0.0)
    after = (shares * paths.forward * slow_backward).sum(axis=1)
    everything = (shares * paths.forward * backward.all).sum(axis=1)
    # Paths that are not slow at a build, and slow from the next one on.
    entering = np.where(paths.slow, 0.0, paths.forward[:-1]) * backward.slow[:-1]
    every = taus(readings.luck)
    tau_shares: Floats = np.bincount(paths.nodes.tau, shares[:, 0], every.size).astype(np.float64)
    return WeighedSeries(
        grid,
        (shares * entering).sum(axis=(1, 2)),
        float((shares * np.where(paths.slow, 0.0, paths.forward[-1])).sum()),
        np.maximum(everything - after, 0.0),
        after,
        float((shares[:, 0] * SIGMAS[paths.nodes.sigma]).sum()),
        float(tau_shares @ every),
        tau_shares,
        paths.evidence.latest,
    )


def chance_later_is_slower(
    chances: Floats, readings: Readings, grid: LevelGrid, min_effect: float, first: int, last: int
) -> float:
    """Return the probability that build ``last`` is slower than build ``first`` by at least half of ``min_effect``.

    The other arguments are as in :func:`weigh_levels`.
    """
    paths = _Paths(chances, readings, grid, min_effect)
    backward, higher = paths.backward().all, 0.0
    belief = (paths.shares * paths.forward[first] * backward[first]).sum(axis=0)
    for level in np.flatnonzero(belief > NEGLIGIBLE):
        moved = np.where(np.arange(belief.size) == level, paths.forward[first], 0.0)
        for k in range(first, last):
            moved = paths.onward(k, moved)
        joint = paths.shares * moved * backward[last]
        higher += joint[:, matters(grid.levels - grid.levels[level], min_effect)].sum()
    return min(float(higher), 1.0)


class _Evidence:
    """The likelihoods of the levels given the readings; arrays of logarithms are (taus, sigmas, levels).

    Levels are relative to the first draw of the first build, including that draw's offset.
    """

    def __init__(self, count: int, readings: Readings, grid: LevelGrid) -> None:
        self._grid, self._luck = grid, readings.luck
        self._taus = taus(readings.luck)
        shape = (count, self._taus.size, SIGMAS.size, grid.levels.size)
        self.seen = np.zeros(shape)
        self.latest: dict[int, tuple[float, ...]] = {}
        self.shifted: list[tuple[int, tuple[float, ...]]] = []
        self.steps: dict[int, Floats] = {}
        firsts: dict[int, tuple[float, ...]] = {}
        for base, head in sorted({*zip(readings.base.tolist(), readings.head.tolist(), strict=True)}):
            blocks = readings.blocks(base, head)
            if base:
                self._add_step(base, blocks, firsts)
                continue
            for (of_base, of_head), values in sorted(blocks.items()):
                if of_base:
                    self.shifted.append((head, values))
                    continue
                if not of_head:
                    firsts[head] = values
                self.latest[head] = values
                self.seen[head] += self.block(values, 1)

    def block(self, values: tuple[float, ...], builds: int, wider: int = 0) -> Floats:
        """Return the log-likelihoods of readings that share offsets, on the grid extended ``wider`` steps each way."""
        levels = (wider + self._grid.origin, self._grid.levels.size + 2 * wider)
        return block_log_likelihood(values, (-levels[0], levels[1], self._grid.step), self._luck, builds)

    def _add_step(
        self,
        k: int,
        blocks: dict[tuple[int, int], tuple[float, ...]],
        firsts: dict[int, tuple[float, ...]],
    ) -> None:
        """Add readings of build k + 1 against build k: a factor for each two levels, (taus, sigmas, levels, levels)."""
        size = self._grid.levels.size
        joint, apart = np.zeros((1, 1, 1, 1)), np.zeros((self._taus.size, SIGMAS.size, 2 * size - 1))
        differences = (1 - size, 2 * size - 1, self._grid.step)
        for draws, values in blocks.items():
            if self._luck and draws == (0, 0) and {k, k + 1} & {*firsts}:
                joint = joint + self._joint(k, values, firsts)
            else:
                apart += block_log_likelihood(values, differences, self._luck, 2)
        self.steps[k] = joint + apart[..., np.arange(size) - np.arange(size)[:, np.newaxis] + size - 1]

    def _joint(self, k: int, values: tuple[float, ...], firsts: dict[int, tuple[float, ...]]) -> Floats:
        """Return the factor of two builds read against each other and against the first one, with one offset each.

        The readings against the first one move from ``seen`` into the factor. If a build is in two such factors, its
        offset is drawn anew in the second.
        """
        size, levels = self._grid.levels.size, self._grid.levels
        between = np.arange(size) - np.arange(size)[:, np.newaxis] + size - 1
        sides = []
        for build in (k, k + 1):
            readings = firsts.pop(build, None)
            if readings is not None:
                self.seen[build] -= self.block(readings, 1)
            sides.append(
                np.zeros((SIGMAS.size, size))
                if readings is None
                else log_likelihood(np.array(readings), levels)
            )
        differences: Floats = np.asarray(np.arange(1 - size, size) * self._grid.step, np.float64)
        each = log_likelihood(np.array(values), differences)[:, between]
        each = each + sides[0][:, :, np.newaxis] + sides[1][:, np.newaxis, :]
        most = each.max(axis=(1, 2), keepdims=True)
        kernel = offset_kernels(levels, levels, self._taus)
        summed = np.einsum("tui,suv,tvj->tsij", kernel, np.exp(each - most), kernel, optimize=True)
        return np.asarray(np.log(np.maximum(summed, _LEAST)) + most)


@dataclass(frozen=True)
class _Nodes:
    """Combinations of an error scale, an offset scale and a level of the first build due to its offset.

    All arrays are (nodes,). ``sigma`` and ``tau`` are indices of the scales, ``start`` is that level in steps from
    level 0, and ``logs`` is the log-prior.
    """

    sigma: Places
    tau: Places
    start: Places
    logs: Floats

    @classmethod
    def scales(cls, luck: float) -> _Nodes:
        """Return the nodes of all scales, without an offset of the first build."""
        count = taus(luck).size
        tau, sigma = (each.ravel() for each in np.indices((count, SIGMAS.size)))
        logs = sigma_prior()[sigma] + tau_prior(luck)[tau]
        return cls(sigma, tau, np.zeros_like(sigma), logs)

    def with_offsets(self, shares: Floats, luck: float, step: float) -> _Nodes:
        """Return the nodes of the likelier scales, each with all candidate offsets of the first build."""
        chosen = np.flatnonzero(shares > UNLIKELY * shares.max())
        spreads = taus(luck)[self.tau[chosen]]
        rounded = np.round(_OFFSETS * spreads[:, np.newaxis] / step).astype(int)
        starts = [np.unique(row) for row in rounded]
        weights = [
            np.exp(-0.5 * (start * step / spread) ** 2) for start, spread in zip(starts, spreads, strict=True)
        ]
        nodes = np.repeat(chosen, [start.size for start in starts])
        logs = np.concatenate([np.log(weight / weight.sum()) for weight in weights])
        return _Nodes(self.sigma[nodes], self.tau[nodes], np.concatenate(starts), self.logs[nodes] + logs)

    @property
    def scale(self) -> Places:
        """The index of each node's combination of the two scales, in ascending order."""
        return np.asarray(self.tau * SIGMAS.size + self.sigma)


@dataclass(frozen=True)
class _Backward:
    """Probabilities of the later readings given each level, in units of the scaling factors of the forward pass.

    ``all`` sums over all paths; ``slow`` only over those that are slow from the next build to the last one, and is 1
    at the last build.
    """

    slow: Floats
    all: Floats


class _Paths:
    """The forward and the backward recursion, for all nodes at once; arrays are (K + 1, nodes, levels)."""

    def __init__(self, chances: Floats, readings: Readings, grid: LevelGrid, min_effect: float) -> None:
        self._chances, self._grid = chances, grid
        self._jumps = jump_probabilities(grid, min_effect)
        self.evidence = _Evidence(chances.size + 1, readings, grid)
        self._by_scale = _scaled(self.evidence.seen.reshape(chances.size + 1, -1, grid.levels.size))
        self._moves_by_scale = {k: self._moves_of(k) for k in self.evidence.steps}
        self._luck = luck = readings.luck
        nodes = _Nodes.scales(luck)
        if luck:
            nodes = nodes.with_offsets(self._shares_of_scales(nodes), luck, grid.step)
        self._use(nodes)
        start = np.zeros((nodes.sigma.size, grid.levels.size))
        start[np.arange(nodes.sigma.size), self._starts()] = 1.0
        self.forward, self.shares = self._forward(start)

    def _shares_of_scales(self, nodes: _Nodes) -> Floats:
        """Return the posterior of all scales; for this, the offset of the first build needs no nodes of its own."""
        self._use(nodes)
        start = offset_kernels(np.zeros(1), self._grid.levels, taus(self._luck))[nodes.tau, :, 0]
        return self._forward(start)[1][:, 0]

    def _use(self, nodes: _Nodes) -> None:
        """Arrange the likelihoods of the readings for the given nodes."""
        self.nodes = nodes
        self._seen, self._scale = (by_scale[:, nodes.scale] for by_scale in self._by_scale)
        places = np.arange(self._grid.levels.size)
        # Wide enough for every start, by which levels relative to the first build are shifted.
        wider = int(np.abs(nodes.start).max())
        shifted = {k: self.evidence.seen[k, nodes.tau, nodes.sigma] for k, _ in self.evidence.shifted}
        for k, values in self.evidence.shifted:
            block = self.evidence.block(values, 2 if wider else 3, wider)[nodes.tau, nodes.sigma]
            shifted[k] += np.take_along_axis(block, places - nodes.start[:, np.newaxis] + wider, axis=1)
        for k, logs in shifted.items():
            self._seen[k], self._scale[k] = _scaled(logs)
        self._of_scale = np.searchsorted(nodes.scale, np.arange(taus(self._luck).size * SIGMAS.size + 1))
        for k, (_, scale) in self._moves_by_scale.items():
            self._scale[k + 1] += scale[nodes.scale]

    def _moves_of(self, k: int) -> tuple[Floats, Floats]:
        """Return the transitions from build k to the next, times the likelihood of readings between the two.

        They are scaled; the second result is the logarithm of the scaling factor. The shapes are (scales, levels,
        levels) and (scales,), with one entry for each combination of scales.
        """
        size, chance = self._grid.levels.size, self._chances[k]
        flat, scale = _scaled(self.evidence.steps[k].reshape(-1, size * size))
        moves = (1 - chance) * np.eye(size) + chance * self._jumps
        return flat.reshape(-1, size, size) * moves, scale

    def _starts(self) -> Places:
        """Return the level index of the first build in each node, clipped to the grid."""
        return np.clip(self.nodes.start + self._grid.origin, 0, self._grid.levels.size - 1)

    @cached_property
    def slow(self) -> Flags:
        """Which levels are slow relative to that of the first build: (nodes, levels)."""
        threshold = int(np.argmax(self._grid.slow)) if self._grid.slow.any() else self._grid.levels.size
        least = self._starts() + threshold - self._grid.origin
        return np.asarray(np.arange(self._grid.levels.size) >= least[:, np.newaxis])

    def _forward(self, start: Floats) -> tuple[Floats, Floats]:
        """Return the probabilities of the levels given the readings up to each build, and of the nodes, (nodes, 1)."""
        filtered, self._totals = np.zeros_like(self._seen), np.ones(self._scale.shape)
        filtered[0] = start
        for k in range(self._chances.size):
            filtered[k + 1] = self._moved(k, filtered[k]) * self._seen[k + 1]
            self._totals[k + 1] = np.maximum(filtered[k + 1].sum(axis=-1), _LEAST)
            filtered[k + 1] /= self._totals[k + 1][:, np.newaxis]
        logs = self.nodes.logs + (np.log(self._totals) + self._scale).sum(axis=0)
        shares = np.exp(logs - logs.max())[:, np.newaxis]
        return filtered, shares / shares.sum()

    def backward(self) -> _Backward:
        """Sum over all later levels."""
        slow, every = np.ones_like(self._seen), np.ones_like(self._seen)
        for k in reversed(range(self._chances.size)):
            fit = self._fit(k + 1)
            later = np.concatenate([fit * np.where(self.slow, slow[k + 1], 0.0), fit * every[k + 1]])
            slow[k], every[k] = np.split(without_traces(self._moved(k, later, back=True)), 2)
        return _Backward(slow, every)

    def onward(self, k: int, here: Floats) -> Floats:
        """Move probabilities from build k to the next one including its readings, scaled as in the forward pass."""
        return np.asarray(self._moved(k, here) * self._fit(k + 1))

    def _fit(self, k: int) -> Floats:
        """Return the likelihood of each level given the readings of build k, scaled as in the forward pass."""
        return np.asarray(self._seen[k] / self._totals[k][:, np.newaxis])

    def _moved(self, k: int, levels: Floats, *, back: bool = False) -> Floats:
        """Move levels by one build; the rows are the nodes, or several repetitions of them."""
        if k not in self._moves_by_scale:
            chance = self._chances[k]
            jumped = small_product(levels, self._jumps.T if back else self._jumps)
            return np.asarray((1 - chance) * levels + chance * jumped)
        moves, _ = self._moves_by_scale[k]
        nodes = self.nodes.sigma.size
        rows = levels.reshape(-1, nodes, levels.shape[-1]).swapaxes(0, 1)
        moved = np.empty_like(rows)
        for scale, (first, end) in enumerate(pairwise(self._of_scale.tolist())):
            if first < end:
                moved[first:end] = rows[first:end] @ (moves[scale].T if back else moves[scale])
        return np.asarray(moved.swapaxes(0, 1).reshape(levels.shape))


def _scaled(logs: Floats) -> tuple[Floats, Floats]:
    """Return likelihoods scaled to a maximum of 1 along the last axis, and the logarithm of the scaling factor."""
    most = logs.max(axis=-1)
    return np.maximum(np.exp(logs - most[..., np.newaxis]), _LEAST), most
