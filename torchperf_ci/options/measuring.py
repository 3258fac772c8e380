"""The options of ``run``, ``list`` and ``doctor``."""

from __future__ import annotations

from torchperf_ci.bench.case import BACKENDS, DEVICES, DTYPES, MODES
from torchperf_ci.options.common import CONFIG, JSON
from torchperf_ci.options.option import Option
from torchperf_ci.options.values import batch_size, positive, positive_int, shard, share, truth


def device(value: str) -> str:
    """auto, cpu, or a GPU by torch's name for it: cuda (of NVIDIA, and of AMD with ROCm), mps (Apple), xpu (Intel)."""
    if value not in DEVICES:
        raise ValueError
    return value


SUITE = Option(
    "--suite",
    "What to measure: quick, core, operators, all, a suite of the config, or a Python file of workloads",
    metavar="NAME",
    default="the config's suites, else quick",
    many=True,
)
FILTER = Option("--filter", "Only workloads whose name matches one of these globs", metavar="GLOB", many=True)
DEVICE = Option("--device", "Device to measure on", device, metavar="NAME", default="auto")
PYTHON = Option(
    "--python", "Python of the environment under test: it has torch", metavar="PATH", default="this one"
)
OUT = Option(
    "--out", "Directory for the records, one file a case", metavar="DIR", default="torchperf-records"
)

RUN_OPTIONS = (
    CONFIG,
    SUITE,
    FILTER,
    DEVICE,
    Option("--mode", "inference, training", metavar="MODE", default="inference", choices=MODES, many=True),
    Option(
        "--dtype", "fp32, tf32, bf16, fp16, amp", metavar="DTYPE", default="fp32", choices=DTYPES, many=True
    ),
    Option(
        "--backend",
        "eager, inductor, or inductor:MODE with a mode of torch.compile",
        metavar="BACKEND",
        default="eager",
        choices=BACKENDS,
        many=True,
    ),
    Option(
        "--batch-size",
        "Samples a step; auto doubles until throughput stops growing or memory ends",
        batch_size,
        metavar="N|auto",
        default="each workload's own",
    ),
    PYTHON,
    Option(
        "--anchor",
        "Python with a torch that stays the same, such as the last release: measured against it as well, in pairs",
        metavar="PATH",
        default="none",
    ),
    Option(
        "--processes",
        "Fresh worker processes a case, and pairs with the anchor",
        positive_int,
        metavar="N",
        default="3",
    ),
    Option(
        "--target-ci",
        "Sample until the relative half-width of the median's 95% interval is this small",
        share,
        metavar="X",
        default="0.01",
    ),
    Option("--budget", "Most seconds of sampling a process", positive, metavar="SECONDS", default="3"),
    Option(
        "--timeout",
        "Most seconds of a process's first step, and of the rest",
        positive,
        metavar="SECONDS",
        default="300",
    ),
    Option(
        "--threads", "Threads that torch computes with on the CPU", positive_int, metavar="N", default="1"
    ),
    Option("--shard", "Measure the I-th of N equal parts of the cases", shard, metavar="I/N"),
    Option(
        "--costs",
        "File from `torchperf plan --costs`, the same for all shards: they take equally long then",
        metavar="FILE",
        default="none: all shards have equally many cases",
    ),
    Option("--tune", "Quieten the machine as far as allowed, and restore it afterwards", truth),
    Option(
        "--no-pin", "Leave workers where the system puts them, for workloads with threads of their own", truth
    ),
    Option("--resume", "Continue the interrupted run in --out", truth),
    Option("--benchmark-name", "benchmark.name of the records", metavar="NAME", default="the config's name"),
    OUT,
    Option(
        "--on-failure",
        "warn: exit with 0 even where workloads failed",
        metavar="error|warn",
        default="error",
        choices=("error", "warn"),
    ),
    Option("--dry-run", "Show what would be measured, and stop", truth),
    JSON,
)
LIST_OPTIONS = (CONFIG, SUITE, FILTER, DEVICE, PYTHON, JSON)
DOCTOR_OPTIONS = (DEVICE, PYTHON, JSON)
