"""Other change detectors for comparison: rules in use elsewhere, and apache-otava in an environment of its own."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from types import TracebackType

    from numpy.typing import NDArray

    Detector = Callable[[NDArray[np.float64]], Sequence[int]]

OTAVA_WORKER = """
import importlib.metadata, json, sys, time
from otava.analysis import compute_change_points
print(json.dumps(importlib.metadata.version("apache-otava")), flush=True)
for line in sys.stdin:
    series, window, pvalue, magnitude = json.loads(line)
    start = time.process_time()
    points = [compute_change_points(values, window, pvalue, magnitude)[0] for values in series]
    found = [[int(point.index) for point in one] for one in points]
    print(json.dumps([found, time.process_time() - start]), flush=True)
"""


@dataclass(frozen=True)
class OtavaOptions:
    """The options of ``otava analyze`` and its defaults."""

    window: int = 50
    pvalue: float = 0.001
    magnitude: float = 0.0

    def __str__(self) -> str:
        return f"window {self.window}, p {self.pvalue:g}, magnitude {self.magnitude:.0%}"


class Otava:
    """apache-otava, as long as the ``with`` lasts."""

    def __init__(self, python: Path) -> None:
        self._command = [str(python), "-c", OTAVA_WORKER]

    def __enter__(self) -> Otava:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.version: str = self._read()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()

    def analyze(
        self, series: Sequence[NDArray[np.float64]], options: OtavaOptions
    ) -> tuple[list[list[int]], float]:
        """The change points of each series, and the CPU seconds that it took, without start and transfer."""
        assert self._process.stdin is not None
        request = [
            [values.tolist() for values in series],
            options.window,
            options.pvalue,
            options.magnitude,
        ]
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        found, seconds = self._read()
        return found, seconds

    def _read(self) -> list[object]:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())


def night_against_night(threshold: float) -> Detector:
    """Each value against the one before, as TorchBench set one nightly against the last."""
    return lambda values: (1 + np.flatnonzero(np.abs(values[1:] / values[:-1] - 1) >= threshold)).tolist()


def medians_of_five(threshold: float) -> Detector:
    """The median of five values against that of the five before; of places next to each other the largest change."""

    def detect(values: NDArray[np.float64]) -> Sequence[int]:
        if values.size < 10:
            return []
        medians = np.median(sliding_window_view(values, 5), axis=1)
        return _peaks(np.abs(medians[5:] / medians[:-5] - 1), threshold, offset=5)

    return detect


def linearly_weighted_t(least: float = 0.0, window: int = 12, threshold: float = 7.0) -> Detector:
    """Perfherder's rule: 12 values from a place on against the 12 before it, the nearest of which weigh most.

    The t statistic of the weighted means must exceed 7 and be the largest of its neighbours'. ``least`` is the smallest
    relative change that raises an alert.
    """
    weights = np.arange(window, 0, -1) / window

    def detect(values: NDArray[np.float64]) -> Sequence[int]:
        if values.size < 2 * window:
            return []
        windows = sliding_window_view(values, window)
        before, after = windows[:-window, ::-1], windows[window:]
        (old, old_variance), (new, new_variance) = (_weighted(part, weights) for part in (before, after))
        difference = np.abs(new - old)
        noise = np.sqrt((old_variance + new_variance) / window)
        t = np.divide(
            difference, noise, out=np.where(difference > 0, np.inf, 0.0), where=noise > 1e-12 * np.abs(old)
        )
        return [
            place
            for place in _peaks(t, threshold, window)
            if difference[place - window] >= least * old[place - window]
        ]

    return detect


def _weighted(
    windows: NDArray[np.float64], weights: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    mean = windows @ weights / weights.sum()
    return mean, (windows - mean[:, None]) ** 2 @ weights / weights.sum()


def _peaks(score: NDArray[np.float64], threshold: float, offset: int) -> list[int]:
    """Places whose score exceeds the threshold and no neighbour's is higher; of equal neighbours the first."""
    before, after = np.append(-np.inf, score[:-1]), np.append(score[1:], -np.inf)
    return (np.flatnonzero((score >= threshold) & (score > before) & (score >= after)) + offset).tolist()
