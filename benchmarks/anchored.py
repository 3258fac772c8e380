"""Compare anchored with absolute series over nights without changes: their noise and their false alarms.

    python benchmarks/anchored.py [NIGHTS [PROCESSES]]

A night is a real ``torchperf run --anchor`` with the same torch on both sides, by default with one process and one pair
per case. From the tenth night on, the gate of ``torchperf check`` judges each night against those before it; as nothing
has changed, every slowdown or speedup that it reports is false.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
from report import cv, print_table

from torchperf_ci.stats.gate import judge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

WORKLOADS = ("recommendation/dlrm", "reinforcement/soft_actor_critic", "operators/matmul_512x512x512")
SERIES = {"absolute": "latency(ms)", "anchored": "latency_vs_anchor(ratio)"}
FIRST_JUDGED = 10
MIN_EFFECT = 0.03
NIGHT_DEADLINE = 600


def night(processes: int, out: Path) -> dict[str, list[float]]:
    """One run; the values of each kind of series, in the order of the workloads."""
    command = [
        *(sys.executable, "-m", "torchperf_ci", "run", "--anchor", sys.executable, "--out", str(out)),
        *("--suite", *WORKLOADS, "--processes", str(processes), "--budget", "1"),
    ]
    subprocess.run(command, check=True, timeout=NIGHT_DEADLINE, capture_output=True)
    records = [record for file in out.glob("*.json") for record in json.loads(file.read_text())]
    values = {
        (record["model"]["name"], record["metric"]["name"]): median(record["metric"]["benchmark_values"])
        for record in records
    }
    return {kind: [values[name, metric] for name in WORKLOADS] for kind, metric in SERIES.items()}


def false_candidates(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """How often the gate would have each series measured again; ``values`` has the shape (series, nights)."""
    min_effect = np.full(len(values), np.log1p(MIN_EFFECT))
    candidates = np.zeros(len(values), dtype=np.int64)
    for nights in range(FIRST_JUDGED, values.shape[1] + 1):
        judged = judge(np.log(values[:, :nights]), min_effect)
        candidates += judged.up.candidate | judged.down.candidate
    return candidates


def rows(values: dict[str, NDArray[np.float64]]) -> Sequence[Sequence[str]]:
    """One row a workload, and the sum of the candidates."""
    found = {kind: false_candidates(array) for kind, array in values.items()}
    each = [
        [
            name,
            *(f"{cv(list(array[index])):.1%}" for array in values.values()),
            *(str(counts[index]) for counts in found.values()),
        ]
        for index, name in enumerate(WORKLOADS)
    ]
    return [*each, ["all", *[""] * len(values), *(str(counts.sum()) for counts in found.values())]]


def main() -> None:
    nights, processes = ([int(given) for given in sys.argv[1:]] + [30, 1][len(sys.argv) - 1 :])[:2]
    with tempfile.TemporaryDirectory() as folder:
        measured = [night(processes, Path(folder, str(number))) for number in range(nights)]
    values = {kind: np.array([one[kind] for one in measured]).T for kind in SERIES}
    header = (
        "workload",
        *(f"{kind}: CV" for kind in SERIES),
        *(f"{kind}: false candidates" for kind in SERIES),
    )
    judged = max(0, nights - FIRST_JUDGED + 1)
    print_table(f"{nights} nights without a change, {judged} of them judged", header, rows(values))


if __name__ == "__main__":
    main()
