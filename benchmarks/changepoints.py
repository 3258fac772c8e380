"""Compare the change points of `torchperf history` with those of its peers, on labeled real and on simulated series.

python benchmarks/changepoints.py SERIES --otava PYTHON
python benchmarks/changepoints.py --worlds --otava PYTHON
python benchmarks/changepoints.py --calibrate

SERIES is a folder with sap_hana_small_2021 and mozilla_talos; PYTHON belongs to an environment that holds apache-otava.
"""

from __future__ import annotations

import argparse
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from ci_world import DEVELOPED, HELD_OUT, made, outcome
from detectors import Otava, OtavaOptions, linearly_weighted_t, medians_of_five, night_against_night
from labelled import NEAR, Score, labelled_series, matched, score
from report import print_table

from torchperf_ci.stats.segmentation import change_points

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from labelled import Labelled
    from numpy.typing import NDArray

    Noise = Callable[[np.random.Generator, tuple[int, int]], NDArray[np.float64]]
    Finder = Callable[[Sequence[NDArray[np.float64]]], list[list[int]]]

SEED = 20261121
TUNING = [
    OtavaOptions(*options)
    for options in product(
        (30, 50, 100), (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-10), (0.0, 0.01, 0.02, 0.03, 0.05)
    )
]


def autocorrelated(rng: np.random.Generator, shape: tuple[int, int], memory: float) -> NDArray[np.float64]:
    """First-order autoregressive normal noise, after it has settled."""
    noise = rng.normal(size=(shape[0], shape[1] + 50))
    for run in range(1, noise.shape[1]):
        noise[:, run] += memory * noise[:, run - 1]
    return noise[:, 50:]


def in_sessions(rng: np.random.Generator, shape: tuple[int, int], share: float) -> NDArray[np.float64]:
    """Normal noise of which the one to four runs of a session have a share of the variance in common."""
    together = rng.random(shape) < 0.6
    for run in range(4, shape[1]):
        together[:, run] &= ~together[:, run - 3 : run].all(axis=1)
    session = np.cumsum(~together, axis=1)
    common = np.take_along_axis(rng.normal(size=(shape[0], shape[1] + 1)), session, axis=1)
    return np.asarray(np.sqrt(share) * common + np.sqrt(1 - share) * rng.normal(size=shape))


NOISES: dict[str, Noise] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "t₃": lambda rng, shape: rng.standard_t(3, size=shape) / np.sqrt(3),
    "10% spikes": lambda rng, shape: (
        rng.normal(size=shape) + 10 * (rng.random(shape) < 0.1) * rng.exponential(size=shape)
    ),
    "two modes": lambda rng, shape: rng.normal(size=shape) * 0.2 + 5 * (rng.random(shape) < 0.3),
    "three modes": lambda rng, shape: rng.normal(size=shape) * 0.2 + 4 * rng.integers(3, size=shape),
    "coarse": lambda rng, shape: np.round(rng.normal(size=shape)),
    "sessions .2": partial(in_sessions, share=0.2),
    "sessions .5": partial(in_sessions, share=0.5),
    "memory .2": partial(autocorrelated, memory=0.2),
    "memory .4": partial(autocorrelated, memory=0.4),
}


def ours(series: Sequence[NDArray[np.float64]]) -> list[list[int]]:
    """What torchperf finds in values that are no logarithms."""
    return [change_points(np.log(values)[None])[0].tolist() for values in series]


def peers(otava: Otava, series: Sequence[Labelled]) -> Iterator[tuple[str, Finder]]:
    """All other detectors; otava also with the options that do best on these very series."""
    yield f"apache-otava {otava.version} ({OtavaOptions()})", partial(_otava, otava, OtavaOptions())
    all_tried = [(score(series, _otava(otava, o, [one.values for one in series])), o) for o in TUNING]
    most = max(all_tried, key=lambda tried: (tried[0].found, -tried[0].false, -tried[0].unlabelled))[1]
    yield f"tuned for recall ({most})", partial(_otava, otava, most)
    fewest = max(all_tried, key=lambda tried: (-tried[0].false, tried[0].found, -tried[0].unlabelled))[1]
    yield f"tuned for few false ones ({fewest})", partial(_otava, otava, fewest)
    rules = {
        "linearly weighted t > 7 (Perfherder)": linearly_weighted_t(),
        "the same, changes from 2% on": linearly_weighted_t(least=0.02),
        "7%, night against night": night_against_night(0.07),
        "10%, night against night": night_against_night(0.10),
        "7%, medians of five": medians_of_five(0.07),
        "10%, medians of five": medians_of_five(0.10),
    }
    for name, rule in rules.items():
        yield name, lambda values, rule=rule: [list(rule(one)) for one in values]


def _otava(otava: Otava, options: OtavaOptions, series: Sequence[NDArray[np.float64]]) -> list[list[int]]:
    return otava.analyze(series, options)[0]


def on_marked_series(series: Sequence[Labelled], finders: dict[str, Finder]) -> None:
    """One row a detector."""
    values = [one.values for one in series]
    scores = {name: score(series, finder(values)) for name, finder in finders.items()}
    print_table(
        f"{len(series)} marked series with {sum(map(len, values)):,} points",
        [
            "detector",
            "marked found",
            "false in stable series",
            "series with one",
            "false beside marked ones",
            "precision",
            "unmarked (Mozilla)",
        ],
        [[name, *_cells(result)] for name, result in scores.items()],
    )


def _cells(result: Score) -> list[str]:
    return [
        f"{result.found} of {result.labels}",
        str(result.false),
        f"{result.hit} of {result.stable}",
        str(result.false_beside),
        f"{result.precision:.0%}",
        str(result.unlabelled),
    ]


def on_simulated_steps(finders: dict[str, Finder], series: int = 200, n: int = 60) -> None:
    """Steps in the middle and ten points before the end, under t₃ noise with a spike in twenty points."""
    cases = [
        (size, cv, at)
        for size, cv, at in product((0.0, 0.03, 0.05, 0.10), (0.01, 0.02, 0.03), (30, 50))
        if (size or at == 30) and size >= cv
    ] + [(0.0, 0.02, 30)]
    rows = []
    for size, cv, at in cases:
        rng = np.random.default_rng(SEED)
        noise = rng.standard_t(3, size=(series, n)) / np.sqrt(3) * cv
        noise += (rng.random((series, n)) < 0.05) * rng.uniform(0.05, 0.4, size=(series, n))
        values = list(np.exp(noise) * np.where(np.arange(n) >= at, 1 + size, 1.0))
        labels = [at] if size else []
        rows.append([f"{size:.0%}" if size else "none", f"{cv:.0%}", str(at) if size else "–"])
        for finder in finders.values():
            found = finder(values)
            hits = sum(matched(points, labels) for points in found)
            false = sum(map(len, found)) - hits
            rows[-1].append((f"{hits / series:.0%}, " if size else "") + f"{1000 * false / series:.0f}")
    print_table(
        f"{series} simulated series of {n} points: steps found within {NEAR} points, false points per 1,000 series",
        ["step", "σ", "at point", *finders],
        rows,
    )


def on_worlds(finders: dict[str, Finder], series: int = 600) -> None:
    """Both simulated worlds: one row a detector."""
    for title, world in (("developed on", DEVELOPED), ("held out", HELD_OUT)):
        some = made(world, series)
        values = [one.labelled.values for one in some]
        scores = {name: outcome(some, finder(values)) for name, finder in finders.items()}
        print_table(
            f"{series} simulated series of continuous integration, the world {title}",
            [
                "detector",
                "marked found",
                "precision",
                "false beside marked ones",
                "false per 60 stable series",
            ],
            [
                [
                    name,
                    f"{result.found} of {result.labels} ({result.found / result.labels:.1%})",
                    f"{result.precision:.1%}",
                    str(result.false_beside),
                    f"{60 * result.false / result.stable:.1f}",
                ]
                for name, result in scores.items()
            ],
        )


def calibrate() -> None:
    """The share of series without change in which a change is found, however small."""
    rows = []
    for n, series in (
        (10, 40_000),
        (20, 40_000),
        (30, 40_000),
        (60, 30_000),
        (120, 10_000),
        (250, 5_000),
        (1000, 1_000),
    ):
        rng = np.random.default_rng(SEED + n)
        found = (change_points(noise(rng, (series, n)), 1e-9) for noise in NOISES.values())
        rates = [np.mean([row.size > 0 for row in rows]) for rows in found]
        rows.append([str(n), f"{series:,}", *(f"{rate:.2%}" for rate in rates)])
    print_table("False alarms, by noise", ["points", "series", *NOISES], rows)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("series", type=Path, nargs="?")
    parser.add_argument("--otava", type=Path)
    parser.add_argument("--worlds", action="store_true")
    parser.add_argument("--calibrate", action="store_true")
    given = parser.parse_args()
    if given.calibrate:
        calibrate()
        return
    if not given.otava or not (given.series or given.worlds):
        parser.error("give the folder of marked series or --worlds, and --otava, or --calibrate")
    if given.worlds:
        with Otava(given.otava) as otava:
            on_worlds(
                {
                    "torchperf history": ours,
                    f"apache-otava {otava.version}": partial(_otava, otava, OtavaOptions()),
                    "linearly weighted t > 7 (Perfherder)": lambda all_values: [
                        list(linearly_weighted_t()(one)) for one in all_values
                    ],
                }
            )
        return
    series = list(labelled_series(given.series))
    with Otava(given.otava) as otava:
        finders: dict[str, Finder] = {"torchperf history": ours} | dict(peers(otava, series))
        on_marked_series(series, finders)
        on_simulated_steps(dict(list(finders.items())[:5]))


if __name__ == "__main__":
    main()
