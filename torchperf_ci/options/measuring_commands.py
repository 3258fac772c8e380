"""The options of the commands that measure: ``run``, ``list``, ``doctor``, ``compare`` and ``bisect``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torchperf_ci.metrics import LATENCY, PAIRED
from torchperf_ci.options.option import (
    BACKENDS,
    CONFIG,
    DEVICES,
    DTYPES,
    FORMAT,
    JSON,
    MODES,
    Option,
    batch_size,
    option,
    positive,
    positive_int,
    shard,
    share,
    shared,
    truth,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


def device(value: str) -> str:
    """auto, cpu, or a GPU by torch's name for it: cuda (of NVIDIA, and of AMD with ROCm), mps (Apple), xpu (Intel)."""
    if value not in DEVICES:
        raise ValueError
    return value


# Headings of their help.
WHAT = "what is measured"
WHERE = "where"
HOW_LONG = "how precisely, and for how long"
RECORDS = "records"
OUTCOME = "outcome"
BUILDS = "builds"
RANGE = "among which commits"

SUITES = ("quick", "core", "operators", "transformers", "all")
"""The built-in ones, which the suite itself names, too: but that is code for the environment under test."""
_SUITES = f"{', '.join(SUITES)}, a suite of the config, or a Python file of workloads"
SUITE = Option(
    "--suite",
    f"What to measure: {_SUITES}",
    metavar="NAME",
    otherwise="the config's suites, else quick",
    many=True,
)
FILTER = Option("--filter", "Only workloads whose name matches one of these globs", metavar="GLOB", many=True)
DEVICE = Option("--device", "Device to measure on", device, metavar="NAME", otherwise="auto")
PYTHON = Option(
    "--python", "Python of the environment under test: it has torch", metavar="PATH", otherwise="this one"
)
MODE = Option(
    "--mode", "inference, training", metavar="MODE", otherwise="inference", choices=MODES, many=True
)
DTYPE = Option(
    "--dtype", "fp32, tf32, bf16, fp16, amp", metavar="DTYPE", otherwise="fp32", choices=DTYPES, many=True
)
BACKEND = Option(
    "--backend",
    "eager, inductor, or inductor:MODE with a mode of torch.compile",
    metavar="BACKEND",
    otherwise="eager",
    choices=BACKENDS,
    many=True,
)
BATCH_SIZE = Option(
    "--batch-size",
    "Samples a step; auto doubles until throughput stops growing or memory ends",
    batch_size,
    metavar="N|auto",
    otherwise="each workload's own",
)
TIMEOUT = Option(
    "--timeout",
    "Most seconds of a process's first step, and of the rest",
    positive,
    metavar="SECONDS",
    default="300",
)
THREADS = Option(
    "--threads", "Threads that torch computes with on the CPU", positive_int, metavar="N", otherwise="1"
)
SHARD = Option("--shard", "Measure the I-th of N equal parts of the cases", shard, metavar="I/N")


@dataclass(frozen=True)
class RunOptions:
    """The options of ``torchperf run``."""

    suite: Sequence[str] = shared(SUITE, WHAT)
    filter: Sequence[str] = shared(FILTER)
    mode: Sequence[str] = shared(MODE)
    dtype: Sequence[str] = shared(DTYPE)
    backend: Sequence[str] = shared(BACKEND)
    batch_size: int | None = shared(BATCH_SIZE)
    shard: tuple[int, int] | None = shared(SHARD)
    costs: str | None = option(
        "--costs",
        "File from `torchperf plan --costs`, the same for all shards: they take equally long then",
        metavar="FILE",
        otherwise="none: all shards have equally many cases",
    )
    config: str | None = shared(CONFIG)
    device: str | None = shared(DEVICE, WHERE)
    python: str | None = shared(PYTHON)
    anchor: str | None = option(
        "--anchor",
        "Python with a torch that stays the same, such as the last release: measured against it as well, in pairs",
        metavar="PATH",
        otherwise="none",
    )
    threads: int | None = shared(THREADS)
    no_pin: bool = option(
        "--no-pin", "Leave workers where the system puts them, for workloads with threads of their own", truth
    )
    tune: bool = option("--tune", "Quieten the machine as far as allowed, and restore it afterwards", truth)
    processes: int = option(
        "--processes",
        "Fresh worker processes a case, and pairs with the anchor",
        positive_int,
        metavar="N",
        default="3",
        heading=HOW_LONG,
    )
    target_ci: float = option(
        "--target-ci",
        "Sample until the relative half-width of the median's 95% interval is this small",
        share,
        metavar="X",
        default="0.01",
    )
    budget: float = option(
        "--budget", "Most seconds of sampling a process", positive, metavar="SECONDS", default="3"
    )
    timeout: float = shared(TIMEOUT)
    out: str | None = option(
        "--out",
        "Directory for the records, one file a case",
        metavar="DIR",
        otherwise="torchperf-records, after that torchperf-records-2 and so on; with --resume the last one",
        heading=RECORDS,
    )
    resume: bool = option("--resume", "Continue the interrupted run in --out", truth)
    benchmark_name: str | None = option(
        "--benchmark-name", "benchmark.name of the records", metavar="NAME", otherwise="the config's name"
    )
    repo: str | None = option(
        "--repo",
        "Checkout that is measured; it tells repository, branch and commit",
        metavar="DIR",
        otherwise="what the job runs on",
    )
    dry_run: bool = option("--dry-run", "Show what would be measured, and stop", truth, heading=OUTCOME)
    json: bool = shared(JSON)
    on_failure: str = option(
        "--on-failure",
        "warn: exit with 0 even where workloads failed",
        metavar="error|warn",
        default="error",
        choices=("error", "warn"),
    )


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
class CoverageOptions:
    """The options of ``torchperf suite coverage``."""

    config: str | None = shared(CONFIG)
    suite: Sequence[str] = shared(replace(SUITE, help=f"What to count: {_SUITES}", otherwise="all"))
    filter: Sequence[str] = shared(FILTER)
    candidate: Sequence[str] = option(
        "--candidate",
        "Workloads to judge by what they would add to the suite: names, globs, suites or Python files",
        metavar="NAME",
        many=True,
    )
    mode: Sequence[str] = shared(replace(MODE, otherwise="both"))
    python: str | None = shared(PYTHON)
    timeout: float = shared(TIMEOUT)
    json: bool = shared(JSON)


@dataclass(frozen=True)
class DoctorOptions:
    """The options of ``torchperf doctor``."""

    device: str | None = shared(DEVICE)
    python: str | None = shared(PYTHON)
    strict: bool = option("--strict", "Exit with 1 unless every check passes", truth)
    json: bool = shared(JSON)


_A_BUILD = "a Python, a wheel (FILE.whl or NAME==VERSION), a revision of --repo, or a directory of records"

REVISIONS_PYTHON = Option(
    PYTHON.flag,
    "Python that revisions run on, imported from a worktree, and that environments for wheels are made with",
    metavar="PATH",
    otherwise=PYTHON.otherwise,
)
BUILD = Option(
    "--build",
    "Shell line that installs a revision: it runs in a worktree, with a fresh virtual environment active; {sha}, "
    "{worktree} and {env}, or $SHA, $WORKTREE and $ENV, name the three",
    metavar="CMD",
    otherwise="revisions are imported as they are",
)
BUILD_TIMEOUT = Option(
    "--build-timeout", "Most seconds that a build may take", positive, metavar="SECONDS", default="7200"
)
MIN_EFFECT = Option(
    "--min-effect",
    "The smallest relative change that matters",
    share,
    metavar="X",
    otherwise="the policy's, else 0.03",
)


@dataclass(frozen=True)
class CompareOptions:
    """The options of ``torchperf compare``."""

    base: str | None = option("--base", f"What to compare with: {_A_BUILD}", metavar="BUILD", heading=BUILDS)
    head: str | None = option("--head", "What is to be judged: as for --base", metavar="BUILD")
    repo: str = option(
        "--repo", "Checkout of the repository that revisions are of", metavar="DIR", default="."
    )
    python: str | None = shared(REVISIONS_PYTHON)
    build: str | None = shared(BUILD)
    build_timeout: float = shared(BUILD_TIMEOUT)
    format: str | None = shared(FORMAT)
    suite: Sequence[str] = shared(SUITE, WHAT)
    filter: Sequence[str] = shared(FILTER)
    mode: Sequence[str] = shared(MODE)
    dtype: Sequence[str] = shared(DTYPE)
    backend: Sequence[str] = shared(BACKEND)
    batch_size: int | None = shared(BATCH_SIZE)
    shard: tuple[int, int] | None = shared(SHARD)
    config: str | None = shared(CONFIG)
    device: str | None = shared(DEVICE, WHERE)
    threads: int | None = shared(THREADS)
    min_effect: float | None = shared(MIN_EFFECT, HOW_LONG)
    budget: float | None = option(
        "--budget",
        "Most seconds of measuring: what is not clear by then stays open",
        positive,
        metavar="SECONDS",
        otherwise="600, or 60 a case where that is more",
    )
    timeout: float = shared(TIMEOUT)
    out: str = option(
        "--out", "File for the verdicts", metavar="FILE", default="verdicts.json", heading=OUTCOME
    )
    json: bool = shared(JSON)
    on_failure: str = option(
        "--on-failure",
        "warn: exit with 0 even where head is worse, or nobody can tell",
        metavar="error|warn",
        default="error",
        choices=("error", "warn"),
    )


BUILDERS = ("worktree", "command", "wheel", "nightly")


@dataclass(frozen=True)
class BisectOptions:
    """The options of ``torchperf bisect``."""

    good: str | None = option(
        "--good",
        "Commit, branch or tag that is known to be fast; with --builder nightly a date",
        metavar="SHA",
        otherwise="what the verdicts say",
        heading=RANGE,
    )
    bad: str | None = option(
        "--bad",
        "Commit, branch or tag that got slower; with --builder nightly a date",
        metavar="SHA",
        otherwise="what the verdicts say",
    )
    verdicts: str | None = option(
        "--verdicts", "File of verdicts: what got worse is measured, over the range it names", metavar="FILE"
    )
    repo: str = option(
        "--repo", "Checkout whose commits are the suspects, with their history", metavar="DIR", default="."
    )
    paths: Sequence[str] = option(
        "--paths",
        "Files, directories or globs that make a commit which changes them ten times as suspect; none is ruled out",
        metavar="PATH",
        many=True,
    )
    full_history: bool = option(
        "--full-history", "Where the culprit is a merge, go on among the commits that it brought in", truth
    )
    builder: str | None = option(
        "--builder",
        "How a commit becomes an environment: worktree (its files, imported as they are), command (--build), wheel or "
        "nightly (--wheels)",
        metavar="|".join(BUILDERS),
        otherwise="command with --build, else worktree",
        choices=BUILDERS,
        heading=BUILDS,
    )
    build: str | None = shared(BUILD)
    build_timeout: float = shared(BUILD_TIMEOUT)
    wheels: str | None = option(
        "--wheels",
        "Where wheels are: of commits a directory, or a URL, path or requirement with {sha} or {short_sha} in it; of "
        "nightlies a directory or the URL of an index",
        metavar="WHERE",
    )
    python: str | None = shared(REVISIONS_PYTHON)
    workload: Sequence[str] = option(
        "--workload",
        "Workloads to measure, by names or globs; those of --suite",
        metavar="NAME",
        many=True,
        heading=WHAT,
    )
    suite: Sequence[str] = shared(replace(SUITE, otherwise="all"))
    mode: Sequence[str] = shared(MODE)
    dtype: Sequence[str] = shared(DTYPE)
    backend: Sequence[str] = shared(BACKEND)
    batch_size: int | None = shared(BATCH_SIZE)
    command: str | None = option(
        "--command",
        "Shell line to measure instead: it prints a number in its last line, or v3 records; {sha}, {worktree} and "
        "{python}, or $SHA, $WORKTREE and $PYTHON, name the build",
        metavar="CMD",
    )
    metric: str | None = option(
        "--metric",
        f"What to look at: {', '.join(PAIRED)}, or one that --command prints",
        metavar="NAME",
        otherwise=f"{LATENCY}, or all that the command prints",
    )
    config: str | None = shared(CONFIG)
    device: str | None = shared(DEVICE, WHERE)
    threads: int | None = shared(THREADS)
    min_effect: float | None = shared(MIN_EFFECT, HOW_LONG)
    max_builds: int | None = option(
        "--max-builds", "Most builds in all", positive_int, metavar="N", otherwise="no limit"
    )
    max_runs: int | None = option(
        "--max-runs",
        "Most pairs of processes to measure in all",
        positive_int,
        metavar="N",
        otherwise="no limit",
    )
    deadline: float | None = option(
        "--deadline",
        "Most seconds that this call may take: the next one with the same --state goes on",
        positive,
        metavar="SECONDS",
        otherwise="no limit",
    )
    timeout: float = shared(TIMEOUT)
    out: str = option(
        "--out", "File for what was found", metavar="FILE", default="culprits.json", heading=OUTCOME
    )
    state: str | None = option(
        "--state",
        "File in which every step is kept: an interrupted bisection goes on from there",
        metavar="FILE",
        otherwise="the name of --out, with .state.jsonl",
    )
    dry_run: bool = option("--dry-run", "Show the plan, and stop", truth)
    json: bool = shared(JSON)
    on_failure: str = option(
        "--on-failure",
        "warn: exit with 0 even where nothing could be concluded",
        metavar="error|warn",
        default="error",
        choices=("error", "warn"),
    )
