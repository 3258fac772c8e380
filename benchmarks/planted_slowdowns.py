"""Measure typical slowdowns, planted as commits of a repository: how large each is, and whether ``compare`` names it.

    python benchmarks/planted_slowdowns.py PYTHON

``PYTHON`` is an interpreter with torch. The commits are those of slowdowns.py, including one that slows nothing down.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from report import print_table
from slowdowns import HARMLESS, SLOWER, make_repository

from torchperf_ci import cli
from torchperf_ci.verdicts.verdict import read_verdicts


def main() -> None:
    """Compare the first commit with the last, and show what was said of each workload."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_repository(folder / "repo")
        where = ("--repo", str(folder / "repo"), "--suite", str(folder / "suite.py"), "--python", sys.argv[1])
        out = folder / "verdicts.json"
        cli.main(
            ["compare", "--base", "base", "--head", "main", *where, "--out", str(out), "--budget", "520"]
        )
        verdicts = [one for one in read_verdicts(out).verdicts if one.series.metric == "latency(ms)"]
    rows = [
        (
            one.series.model,
            SLOWER.get(one.series.model, HARMLESS).subject,
            one.verdict,
            f"{one.effect.ratio - 1:+.0%}" if one.effect else "",
            f"{one.effect.pairs}" if one.effect else "",
        )
        for one in verdicts
    ]
    print_table("Planted slowdowns", ("workload", "commit", "verdict", "change", "pairs"), rows)


if __name__ == "__main__":
    main()
