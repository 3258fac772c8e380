"""Compare our sampling with ``torch.utils.benchmark.Timer.blocked_autorange``, alternating in one process.

python benchmarks/versus_timer.py
"""

from __future__ import annotations

from statistics import median

import torch
from report import print_table
from torch.utils.benchmark import Timer

from torchperf_ci.bench.worker.step import StepRequest, build_step
from torchperf_ci.bench.worker.timing import sample, warm_up
from torchperf_ci.machine.devices import device
from torchperf_ci.suite.registry import catalogue

WORKLOADS = (
    "vision/resnet18",
    "language/lstm_language_model",
    "recommendation/dlrm",
    "reinforcement/soft_actor_critic",
    "operators/matmul_512x512x512",
    "operators/scatter_add_8192x64",
)
ROUNDS = 24
SECONDS = 0.25


def main() -> None:
    torch.set_num_threads(1)
    cpu, workloads = device("cpu"), catalogue().workloads
    rows = []
    for name in WORKLOADS:
        workload = workloads[name]
        step = build_step(
            workload, StepRequest("inference", "fp32", "eager", workload.batch_sizes["inference"]), cpu
        )
        inner = warm_up(cpu, step.run, 2.0).inner
        timer = Timer("run()", globals={"run": step.run}, num_threads=1)
        ours, theirs = [], []
        for number in range(ROUNDS):
            turns = [
                lambda: ours.extend(sample(cpu, step.run, inner, 0.0, SECONDS).seconds),  # noqa: B023
                lambda: theirs.extend(timer.blocked_autorange(min_run_time=SECONDS).times),  # noqa: B023
            ]
            for turn in turns if number % 2 else reversed(turns):
                turn()
        ratio = median(ours) / median(theirs)
        rows.append([name, f"{median(ours) * 1e3:.4g} ms", f"{median(theirs) * 1e3:.4g} ms", f"{ratio:.4f}"])
    print_table("Median of torchperf beside Timer", ("workload", "torchperf", "Timer", "ratio"), rows)


if __name__ == "__main__":
    main()
