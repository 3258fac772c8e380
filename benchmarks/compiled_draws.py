"""Measure how often one of two equal builds is called slower because its compiler autotunes between variants.

    python benchmarks/compiled_draws.py [COMPARISONS]
    python benchmarks/compiled_draws.py --real [PYTHON]

In the simulation, each side's winner is off by a normal error of 0, 1 or 3%, drawn either once per side for all pairs,
as was done formerly, or anew for each pair. ``--real`` measures tests/support/autotuned_suite.py, whose two variants
differ by 10%, both ways.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from unittest.mock import patch

import numpy as np
from report import print_table

from torchperf_ci.bench import pairs
from torchperf_ci.bench.case import Case, Settings
from torchperf_ci.stats.sequential_test import decide

SEED = 15
MAX_PAIRS = 24
NOISE = 0.01
MIN_EFFECT = 0.03
DRAWS = (0.0, 0.01, 0.03)
CHANGES = (0.0, 0.07)
SUITE = Path(__file__).parents[1] / "tests" / "support" / "autotuned_suite.py"
CASE = Case("autotuned/products", "inference", "fp32", "inductor", 128)
REAL_PAIRS = 12


def word(log_ratios: np.ndarray) -> str:
    """What the sequential test comes to, pair by pair."""
    words = (decide(log_ratios[:count], MIN_EFFECT).word for count in range(1, log_ratios.size + 1))
    return next((one for one in words if one != "open"), "open")


def simulated(comparisons: int) -> None:
    """Both rules on the same luck."""
    random = np.random.default_rng(SEED)
    rows = []
    for change in CHANGES:
        for draw in DRAWS:
            noise = random.normal(0, NOISE, (comparisons, MAX_PAIRS))
            drawn = random.normal(0, draw * 2**0.5, (comparisons, MAX_PAIRS))
            for rule, offsets in (("one draw a side", drawn[:, :1]), ("a draw a pair", drawn)):
                words = [word(row) for row in np.log1p(change) + noise + offsets]
                shares = [
                    f"{words.count(one) / comparisons:.1%}"
                    for one in ("increase", "decrease", "none", "open")
                ]
                rows.append([f"{change:.0%}", f"{draw:.0%}", rule, *shares])
    title = f"{comparisons} comparisons a row, at most {MAX_PAIRS} pairs that spread by {NOISE:.0%}"
    header = ("head is slower by", "sd of a draw", "rule", "slower", "faster", "unchanged", "open")
    print_table(title, header, rows)


def real(python: str) -> None:
    """The same suite on both sides."""
    rows = []
    with tempfile.TemporaryDirectory() as name:
        for rule in ("one draw a side", "a draw a pair"):
            folder = Path(name) / rule
            folder.mkdir()
            settings = Settings(python, "cpu", (str(shutil.copy(SUITE, folder / "suite.py")),), timeout=300)
            ratios = []
            with patch.object(
                pairs, "forget_choices", pairs.forget_choices if "pair" in rule else lambda _: None
            ):
                sides = pairs.on_same_cpus(settings, settings)
                for pair in (pairs.measure_pair(CASE, *sides, folder / "scratch") for _ in range(REAL_PAIRS)):
                    ratios.append(pair.log_ratio)
                    print(rule, f"{pair.log_ratio:+.4f}", file=sys.stderr, flush=True)
            timed = (folder / "timed").read_text().split()
            said = ", ".join(f"{ratio:+.1%}" for ratio in np.expm1(ratios))
            rows.append([rule, " ".join(timed), said, word(np.array(ratios))])
    print_table("Two equal builds", ("rule", "products that won", "pairs", "told"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description="Winners that noise decides.")
    parser.add_argument("comparisons", type=int, nargs="?", default=300)
    parser.add_argument("--real", nargs="?", const=sys.executable, metavar="PYTHON")
    given = parser.parse_args()
    if given.real:
        real(given.real)
    else:
        simulated(given.comparisons)


if __name__ == "__main__":
    main()
