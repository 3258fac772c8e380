"""The options of the commands that measure builds against each other: ``compare`` and ``bisect``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torchperf_ci.metrics import LATENCY, PAIRED
from torchperf_ci.options.measurement_commands import (
    BACKEND,
    BATCH_SIZE,
    DEVICE,
    DTYPE,
    FILTER,
    HOW_LONG,
    MODE,
    OUTCOME,
    PYTHON,
    SHARD,
    SUITE,
    THREADS,
    TIMEOUT,
    WHAT,
    WHERE,
)
from torchperf_ci.options.option import (
    CONFIG,
    FORMAT,
    JSON,
    Option,
    failure_option,
    option,
    positive_int,
    seconds,
    share,
    shared,
    switch,
)

RANGE = "commit range"
BUILDS = "builds"
_A_BUILD = "a Python, a wheel (FILE.whl or NAME==VERSION), a revision of --repo, or a directory of records"

REVISIONS_PYTHON = replace(
    PYTHON,
    help="Python that runs revisions imported from a worktree, and that creates the environments for wheels",
)
BUILD = Option(
    "Shell command that installs a revision, run in a worktree with a fresh virtual environment active; {sha}, "
    "{worktree}, {env} and {seed}, or $SHA, $WORKTREE, $ENV and $SEED, stand for the commit, the worktree, the "
    "environment and, in a bisection, the number of the rebuild",
    metavar="CMD",
    otherwise="revisions are imported as is",
)
BUILD_TIMEOUT = Option("Maximum seconds for a build", seconds, default="7200")
MIN_EFFECT = Option(
    "Smallest relative change that matters",
    share,
    otherwise="the policy's, else 0.03",
)


@dataclass(frozen=True)
class CompareOptions:
    """Measure two builds alternately on this machine, and judge whether head is slower than base.

    torchperf compare --base origin/main --head HEAD --python .venv/bin/python --suite benchmarks/suite.py
    """

    base: str | None = option(f"Build to compare against: {_A_BUILD}", metavar="BUILD", heading=BUILDS)
    head: str | None = option("Build to judge, in any of the forms that --base takes", metavar="BUILD")
    repo: str = option("Checkout of the repository that contains the revisions", metavar="DIR", default=".")
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
    affected: bool = switch(
        "Skip workloads that read none of the files that differ between the two commits; if that is unknown, measure "
        "all",
    )
    config: str | None = shared(CONFIG)
    device: str | None = shared(DEVICE, WHERE)
    threads: int | None = shared(THREADS)
    min_effect: float | None = shared(MIN_EFFECT, HOW_LONG)
    budget: float | None = option(
        "Seconds, from the end of all builds and installs, in which pairs may start, compilation included; whatever is "
        "unclear by then stays undecided",
        seconds,
        otherwise="600, or 60 per case if that is more",
    )
    timeout: float = shared(TIMEOUT)
    out: str = option(
        "File to write the verdicts to", metavar="FILE", default="verdicts.json", heading=OUTCOME
    )
    json: bool = shared(JSON)
    on_failure: str = failure_option("head is worse or the result is inconclusive")


BUILDERS = ("worktree", "command", "wheel", "nightly")


@dataclass(frozen=True)
class BisectOptions:
    """Find the commit that made something slower, and prove it.

    torchperf bisect --good v2.12.0 --bad main --workload vision/resnet18 --build './build.sh {env}'
    """

    good: str | None = option(
        "Commit, branch or tag known to be fast; with --builder nightly, a date",
        metavar="SHA",
        otherwise="the one in the verdicts",
        heading=RANGE,
    )
    bad: str | None = option(
        "Commit, branch or tag known to be slow; with --builder nightly, a date",
        metavar="SHA",
        otherwise="the one in the verdicts",
    )
    verdicts: str | None = option(
        "Verdicts file: bisect what got worse, over the commit range in the file",
        metavar="FILE",
    )
    repo: str = option("Checkout to search for the culprit, with its history", metavar="DIR", default=".")
    paths: Sequence[str] = option(
        "Files, directories or globs: a commit that changes any of them is ten times as suspect; no commit is ruled "
        "out",
        metavar="PATH",
        many=True,
    )
    full_history: bool = switch("If the culprit is a merge, continue among the commits that it merged")
    builder: str | None = option(
        "How to turn a commit into an environment: worktree (import its files as is), command (--build), wheel or "
        "nightly (--wheels)",
        otherwise="command with --build, else worktree",
        choices=BUILDERS,
        heading=BUILDS,
    )
    build: str | None = shared(BUILD)
    build_timeout: float = shared(BUILD_TIMEOUT)
    wheels: str | None = option(
        "Where to find wheels: for commits, a directory, or a URL, path or requirement that contains {sha} or "
        "{short_sha}; for nightlies, a directory or the URL of an index",
        metavar="WHERE",
    )
    python: str | None = shared(REVISIONS_PYTHON)
    workload: Sequence[str] = option(
        "Workloads of --suite to measure: names or globs",
        metavar="NAME",
        many=True,
        heading=WHAT,
    )
    suite: Sequence[str] = shared(replace(SUITE, otherwise="all, and the config's suite files"))
    mode: Sequence[str] = shared(MODE)
    dtype: Sequence[str] = shared(DTYPE)
    backend: Sequence[str] = shared(BACKEND)
    batch_size: int | None = shared(BATCH_SIZE)
    command: str | None = option(
        "Shell command to measure instead, which prints a number on its last line, or v3 records; {sha}, {worktree} "
        "and {python}, or $SHA, $WORKTREE and $PYTHON, identify the build",
        metavar="CMD",
    )
    metric: str | None = option(
        f"Metric to bisect: {', '.join(PAIRED)}, or one that --command prints",
        metavar="NAME",
        otherwise=f"{LATENCY}, or all that the command prints",
    )
    config: str | None = shared(CONFIG)
    device: str | None = shared(DEVICE, WHERE)
    threads: int | None = shared(THREADS)
    min_effect: float | None = shared(MIN_EFFECT, HOW_LONG)
    max_builds: int | None = option("Maximum number of builds in total", positive_int, otherwise="no limit")
    max_runs: int | None = option(
        "Maximum number of process pairs to measure in total",
        positive_int,
        otherwise="no limit",
    )
    deadline: float | None = option(
        "Maximum seconds for this run; the next one with the same --state continues",
        seconds,
        otherwise="no limit",
    )
    timeout: float = shared(TIMEOUT)
    out: str = option("File to write the result to", metavar="FILE", default="culprits.json", heading=OUTCOME)
    state: str | None = option(
        "File that records every step, so that an interrupted bisection can continue",
        metavar="FILE",
        otherwise="the name of --out, with .state.jsonl",
    )
    dry_run: bool = switch("Show the plan and exit")
    json: bool = shared(JSON)
    on_failure: str = failure_option("the bisection is inconclusive")
