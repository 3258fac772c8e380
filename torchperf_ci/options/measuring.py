"""The options of ``run``, ``list`` and ``doctor``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchperf_ci.options.common import CONFIG, JSON
from torchperf_ci.options.option import Option, option, shared
from torchperf_ci.options.values import (
    BACKENDS,
    DEVICES,
    DTYPES,
    MODES,
    batch_size,
    positive,
    positive_int,
    shard,
    share,
    truth,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


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

MODE = Option("--mode", "inference, training", metavar="MODE", default="inference", choices=MODES, many=True)
DTYPE = Option(
    "--dtype", "fp32, tf32, bf16, fp16, amp", metavar="DTYPE", default="fp32", choices=DTYPES, many=True
)
BACKEND = Option(
    "--backend",
    "eager, inductor, or inductor:MODE with a mode of torch.compile",
    metavar="BACKEND",
    default="eager",
    choices=BACKENDS,
    many=True,
)
BATCH_SIZE = Option(
    "--batch-size",
    "Samples a step; auto doubles until throughput stops growing or memory ends",
    batch_size,
    metavar="N|auto",
    default="each workload's own",
)
TIMEOUT = Option(
    "--timeout",
    "Most seconds of a process's first step, and of the rest",
    positive,
    metavar="SECONDS",
    default="300",
)
THREADS = Option(
    "--threads", "Threads that torch computes with on the CPU", positive_int, metavar="N", default="1"
)
SHARD = Option("--shard", "Measure the I-th of N equal parts of the cases", shard, metavar="I/N")


@dataclass(frozen=True)
class RunOptions:
    """The options of ``torchperf run``."""

    config: str | None = shared(CONFIG)
    suite: Sequence[str] = shared(SUITE)
    filter: Sequence[str] = shared(FILTER)
    device: str | None = shared(DEVICE)
    mode: Sequence[str] = shared(MODE)
    dtype: Sequence[str] = shared(DTYPE)
    backend: Sequence[str] = shared(BACKEND)
    batch_size: int | None = shared(BATCH_SIZE)
    python: str | None = shared(PYTHON)
    anchor: str | None = option(
        "--anchor",
        "Python with a torch that stays the same, such as the last release: measured against it as well, in pairs",
        metavar="PATH",
        default="none",
    )
    processes: int | None = option(
        "--processes",
        "Fresh worker processes a case, and pairs with the anchor",
        positive_int,
        metavar="N",
        default="3",
    )
    target_ci: float | None = option(
        "--target-ci",
        "Sample until the relative half-width of the median's 95% interval is this small",
        share,
        metavar="X",
        default="0.01",
    )
    budget: float | None = option(
        "--budget", "Most seconds of sampling a process", positive, metavar="SECONDS", default="3"
    )
    timeout: float | None = shared(TIMEOUT)
    threads: int | None = shared(THREADS)
    shard: tuple[int, int] | None = shared(SHARD)
    costs: str | None = option(
        "--costs",
        "File from `torchperf plan --costs`, the same for all shards: they take equally long then",
        metavar="FILE",
        default="none: all shards have equally many cases",
    )
    tune: bool = option("--tune", "Quieten the machine as far as allowed, and restore it afterwards", truth)
    no_pin: bool = option(
        "--no-pin", "Leave workers where the system puts them, for workloads with threads of their own", truth
    )
    resume: bool = option("--resume", "Continue the interrupted run in --out", truth)
    benchmark_name: str | None = option(
        "--benchmark-name", "benchmark.name of the records", metavar="NAME", default="the config's name"
    )
    out: str | None = shared(OUT)
    on_failure: str | None = option(
        "--on-failure",
        "warn: exit with 0 even where workloads failed",
        metavar="error|warn",
        default="error",
        choices=("error", "warn"),
    )
    dry_run: bool = option("--dry-run", "Show what would be measured, and stop", truth)
    json: bool = shared(JSON)


@dataclass(frozen=True)
class ListOptions:
    """The options of ``torchperf list``."""

    config: str | None = shared(CONFIG)
    suite: Sequence[str] = shared(SUITE)
    filter: Sequence[str] = shared(FILTER)
    device: str | None = shared(DEVICE)
    python: str | None = shared(PYTHON)
    json: bool = shared(JSON)


@dataclass(frozen=True)
class DoctorOptions:
    """The options of ``torchperf doctor``."""

    device: str | None = shared(DEVICE)
    python: str | None = shared(PYTHON)
    json: bool = shared(JSON)
