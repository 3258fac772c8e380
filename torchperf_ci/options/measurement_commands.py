"""The options of the commands that measure one build: ``run``, ``list``, ``suite coverage`` and ``doctor``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torchperf_ci.machine.devices import DEVICE_TYPES
from torchperf_ci.options.option import (
    BACKENDS,
    CONFIG,
    DEVICES,
    DTYPES,
    JSON,
    MODES,
    Option,
    batch_size,
    failure_option,
    local_directory,
    option,
    positive_int,
    seconds,
    shard,
    share,
    shared,
    switch,
)


def device(value: str) -> str:
    """A kind of device."""
    if value not in DEVICES:
        raise ValueError
    return value


_GPUS = ", ".join(f"{name} ({makers})" for name, makers in sorted(DEVICE_TYPES.items()) if makers)
device.__doc__ = f"auto, cpu, or a GPU by torch's name for it: {_GPUS}."


# Headings in the commands' help.
WHAT = "what to measure"
WHERE = "where to measure"
HOW_LONG = "precision and time limits"
RECORDS = "records"
OUTCOME = "output"

SUITES = ("quick", "core", "models", "operators", "transformers", "all")
"""The built-in suites. ``torchperf_ci.suite.registry`` lists them too but runs only in the environment under test."""
_SUITES = (
    f"{', '.join(SUITES)}, a suite from the config, a Python file of workloads, or torchbench:DIR for a checkout of "
    "TorchBench"
)
SUITE = Option(
    f"What to measure: {_SUITES}",
    metavar="NAME",
    otherwise="the config's suites, else quick",
    many=True,
)
FILTER = Option("Only workloads whose name matches one of these globs", metavar="GLOB", many=True)
DEVICE = Option("Device to measure on", device, metavar="NAME", otherwise="auto")
PYTHON = Option(
    "Python of the environment under test, which has torch",
    metavar="PATH",
    otherwise="the one that runs torchperf",
)
MODE = Option(
    "inference, training",
    metavar="MODE",
    otherwise="the suite's in the config, else inference",
    choices=MODES,
    many=True,
)
DTYPE = Option(
    "fp32, tf32, bf16, fp16, amp",
    metavar="DTYPE",
    otherwise="the suite's in the config, else fp32",
    choices=DTYPES,
    many=True,
)
BACKEND = Option(
    "eager, inductor, or inductor:MODE with a mode of torch.compile",
    metavar="BACKEND",
    otherwise="the suite's in the config, else eager",
    choices=BACKENDS,
    many=True,
)
BATCH_SIZE = Option(
    "Samples per step; auto doubles until throughput stops growing or half of the memory is used",
    batch_size,
    metavar="N|auto",
    otherwise="each workload's own",
)
TIMEOUT = Option(
    "Maximum seconds for a process's first step, and again for the rest",
    seconds,
    default="300",
)
THREADS = Option("Number of CPU threads for torch", positive_int, otherwise="1")
SHARD = Option("Measure the I-th of N equal parts of the cases", shard, metavar="I/N")


@dataclass(frozen=True)
class RunOptions:
    """Measure workloads on this machine and write v3 records.

    torchperf run --suite core --dtype bf16 --backend eager,inductor --out records
    """

    suite: Sequence[str] = shared(SUITE, WHAT)
    filter: Sequence[str] = shared(FILTER)
    mode: Sequence[str] = shared(MODE)
    dtype: Sequence[str] = shared(DTYPE)
    backend: Sequence[str] = shared(BACKEND)
    batch_size: int | None = shared(BATCH_SIZE)
    shard: tuple[int, int] | None = shared(SHARD)
    costs: str | None = option(
        "File from `torchperf plan --costs`, the same for all shards, so that they take equally long",
        metavar="FILE",
        otherwise="none; all shards have the same number of cases",
    )
    config: str | None = shared(CONFIG)
    device: str | None = shared(DEVICE, WHERE)
    python: str | None = shared(PYTHON)
    anchor: str | None = option(
        "Python with a fixed torch, such as the last release; each case is also measured against it, in pairs",
        metavar="PATH",
        otherwise="none",
    )
    threads: int | None = shared(THREADS)
    no_pin: bool = switch("Do not pin workers to CPUs, for workloads with threads of their own")
    tune: bool = switch("Reduce noise on the machine as far as permitted, and restore it afterward")
    processes: int = option(
        "Fresh worker processes per case, and pairs with the anchor",
        positive_int,
        default="3",
        heading=HOW_LONG,
    )
    target_ci: float = option(
        "Sample until the relative half-width of the median's 95% interval is this small",
        share,
        default="0.01",
    )
    budget: float = option(
        "Maximum seconds of sampling per process, in addition to starting, compiling and warming up",
        seconds,
        default="3",
    )
    timeout: float = shared(TIMEOUT)
    out: str | None = option(
        "Directory for the records, one file per case",
        local_directory,
        otherwise="torchperf-records, then torchperf-records-2 and so on; with --resume, the last one",
        heading=RECORDS,
    )
    resume: bool = switch("Continue the interrupted run in --out")
    benchmark_name: str | None = option(
        "benchmark.name of the records", metavar="NAME", otherwise="the config's name"
    )
    repo: str | None = option(
        "Checkout that is measured; provides the repository, branch and commit",
        metavar="DIR",
        otherwise="what the job runs on",
    )
    dry_run: bool = switch("Show what would be measured, and exit", heading=OUTCOME)
    json: bool = shared(JSON)
    on_failure: str = failure_option("workloads failed")


@dataclass(frozen=True)
class ListOptions:
    """Show what can be run, what cannot, and why.

    torchperf list --suite all --filter 'vision/*'
    """

    config: str | None = shared(CONFIG)
    suite: Sequence[str] = shared(replace(SUITE, help=f"What to list: {_SUITES}", otherwise="every workload"))
    filter: Sequence[str] = shared(FILTER)
    device: str | None = shared(DEVICE)
    python: str | None = shared(PYTHON)
    torchbench: str | None = option(
        "Show instead whether each model of the TorchBench paper is available here, in this TorchBench checkout, or "
        "not at all",
        metavar="DIR",
    )
    json: bool = shared(JSON)


@dataclass(frozen=True)
class CoverageOptions:
    """Count the PyTorch functions and operators that the workloads use, and what candidates would add.

    torchperf suite coverage --suite core --candidate my_models.py
    """

    config: str | None = shared(CONFIG)
    suite: Sequence[str] = shared(replace(SUITE, help=f"What to count: {_SUITES}", otherwise="all"))
    filter: Sequence[str] = shared(FILTER)
    candidate: Sequence[str] = option(
        "Workloads to rate by what they would add to the suite: names, globs, suites or Python files",
        metavar="NAME",
        many=True,
    )
    mode: Sequence[str] = shared(replace(MODE, otherwise="both"))
    python: str | None = shared(PYTHON)
    timeout: float = shared(TIMEOUT)
    json: bool = shared(JSON)


@dataclass(frozen=True)
class DiscoverOptions:
    """Try architectures of the installed libraries, and write a suite of those that add coverage.

    torchperf suite discover --filter 'vision/timm_*' --out discovered.py
    """

    config: str | None = shared(CONFIG)
    suite: Sequence[str] = shared(replace(SUITE, help=f"Existing suite: {_SUITES}", otherwise="models"))
    filter: Sequence[str] = shared(
        replace(FILTER, help="Only architectures whose workload name would match one of these globs")
    )
    python: str | None = shared(PYTHON)
    timeout: float = shared(TIMEOUT)
    out: str = option(
        "Python file to write the workloads to, as a suite; what it already has is kept",
        metavar="FILE",
        default="discovered.py",
    )


@dataclass(frozen=True)
class DoctorOptions:
    """Check whether this machine can produce trustworthy numbers, and say what to do about each finding.

    torchperf doctor --device cuda
    """

    device: str | None = shared(DEVICE)
    python: str | None = shared(PYTHON)
    strict: bool = switch("Exit with 1 unless every check passes")
    json: bool = shared(JSON)
