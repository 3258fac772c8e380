"""The options of the commands that measure builds against each other: ``compare`` and ``bisect``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torchperf_ci.metrics import LATENCY, PAIRED
from torchperf_ci.options.measuring_commands import (
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
    positive,
    positive_int,
    share,
    shared,
    truth,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

RANGE = "among which commits"
BUILDS = "builds"
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
    affected: bool = option(
        "--affected",
        "Leave out the workloads that read none of the files that two commits differ in; where that is not known, all "
        "are measured",
        truth,
    )
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
    on_failure: str = failure_option("head is worse, or nobody can tell")


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
    on_failure: str = failure_option("nothing could be concluded")
