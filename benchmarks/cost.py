"""Measure what an accuracy of ±1% costs, and which accuracy a fixed number of iterations really gives.

    python benchmarks/cost.py

In a warmed-up process, it takes the seconds and samples until our rule knows the median to ±1% (or gives up after
20 s), and for comparison the half-width of the median's interval after ten steps.
"""

from __future__ import annotations

from statistics import median

import torch
from report import print_table

from torchperf_ci.bench.worker.step import StepRequest, build_step
from torchperf_ci.bench.worker.timing import median_half_width, sample, warm_up
from torchperf_ci.machine.devices import device
from torchperf_ci.suite.registry import catalogue

TARGET = 0.01
LIMIT = 20.0
FIXED = 10
REPEATS = 5


def main() -> None:
    torch.set_num_threads(1)
    cpu, known = device("cpu"), catalogue()
    rows = []
    for name in known.suites["quick"]:
        workload = known.workloads[name]
        step = build_step(
            workload, StepRequest("inference", "fp32", "eager", workload.batch_sizes["inference"]), cpu
        )
        warm = warm_up(cpu, step.run, 3.0)
        ruled = [sample(cpu, step.run, warm.inner, TARGET, LIMIT) for _ in range(REPEATS)]
        fixed = [cpu.time_steps(step.run, FIXED) for _ in range(REPEATS)]
        seconds = median(r.wall_per_step * r.inner * len(r.seconds) for r in ruled)
        rows.append(
            [
                name,
                f"{seconds:.2f} s",
                f"{median(len(r.seconds) * r.inner for r in ruled):.0f}",
                f"{median(r.half_width for r in ruled):.2%}",
                f"{sum(r.converged for r in ruled)} of {REPEATS}",
                f"{median(map(sum, fixed)):.2f} s",
                f"{median(map(median_half_width, fixed)):.2%}",
            ]
        )
    header = (
        "workload",
        "until ±1%",
        "steps",
        "reached",
        "converged",
        f"fixed {FIXED}×",
        f"precision of {FIXED}×",
    )
    print_table("Cost of ±1%", header, rows)


if __name__ == "__main__":
    main()
