"""A/A test: the spread of repeated measurements of the same code by three methods, taken in turn.

    python benchmarks/repeatability.py [REPEATS]

``plain loop``: a fresh process, one warm-up, the mean of 10 steps (TorchBench's method). ``harness``: what
``torchperf run`` reports, the median over three fresh processes of each one's median. ``pairs``: the ratio of one pair
of persistent workers on the same CPU (`bench/pairs`), which compare, bisect and anchored runs use.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median

from report import cv, print_table

from torchperf_ci.bench.case import Case, Settings
from torchperf_ci.bench.pairs import measure_pair, on_same_cpus
from torchperf_ci.bench.process import WorkerConversation, build, measure, open_worker
from torchperf_ci.bench.worker.protocol import Block, FirstStep

CASES = (
    Case("vision/resnet18", "inference", "fp32", "eager", 1),
    Case("recommendation/dlrm", "inference", "fp32", "eager", 256),
    Case("reinforcement/soft_actor_critic", "inference", "fp32", "eager", 256),
    Case("operators/matmul_512x512x512", "inference", "fp32", "eager", 1),
)
PROCESSES = 3
LOOP = 10


def plain_loop(case: Case, settings: Settings, scratch: Path) -> float:
    """Mean seconds of ten steps after one."""
    with open_worker(case, settings, scratch) as worker:
        conversation = WorkerConversation(worker, settings.timeout)
        build(conversation, case, settings)
        conversation.ask("first_step", FirstStep)
        return conversation.ask("block", Block, steps=LOOP)


def harness(case: Case, settings: Settings, scratch: Path) -> float:
    """The value that ``torchperf run`` reports."""
    outcomes = [measure(case, settings, scratch, first=False) for _ in range(PROCESSES)]
    return median(median(outcome.answers.sample.seconds) for outcome in outcomes)


def paired(case: Case, settings: Settings, scratch: Path) -> float:
    """The ratio of a pair whose sides are the same."""
    pair = measure_pair(case, *on_same_cpus(settings, settings), scratch)
    return math.exp(pair.log_ratio)


METHODS = {"plain loop": plain_loop, "harness": harness, "pairs": paired}


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    settings = Settings(sys.executable, "cpu", budget=1.0)
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(repeats):
            for case in CASES:
                for name, method in METHODS.items():
                    values[case.workload, name].append(method(case, settings, Path(folder)))
    rows = [
        [case.workload, *(f"{cv(values[case.workload, name]):.2%}" for name in METHODS)] for case in CASES
    ]
    print_table(f"Between-run CV of {repeats} repeats", ("workload", *METHODS), rows)


if __name__ == "__main__":
    main()
