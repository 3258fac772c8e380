"""The options of ``bisect``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torchperf_ci.metrics import LATENCY, PAIRED
from torchperf_ci.options.common import CONFIG, JSON
from torchperf_ci.options.comparing import BUILD, BUILD_TIMEOUT, MIN_EFFECT, REVISIONS_PYTHON
from torchperf_ci.options.measuring import (
    BACKEND,
    BATCH_SIZE,
    DEVICE,
    DTYPE,
    MODE,
    SUITE,
    THREADS,
    TIMEOUT,
)
from torchperf_ci.options.option import option, shared
from torchperf_ci.options.values import positive, positive_int, truth

if TYPE_CHECKING:
    from collections.abc import Sequence

BUILDERS = ("worktree", "command", "wheel", "nightly")


@dataclass(frozen=True)
class BisectOptions:
    """The options of ``torchperf bisect``."""

    repo: str | None = option(
        "--repo", "Checkout whose commits are the suspects, with their history", metavar="DIR", default="."
    )
    good: str | None = option(
        "--good",
        "Commit, branch or tag that is known to be fast; with --builder nightly a date",
        metavar="SHA",
        default="what the verdicts say",
    )
    bad: str | None = option(
        "--bad",
        "Commit, branch or tag that got slower; with --builder nightly a date",
        metavar="SHA",
        default="what the verdicts say",
    )
    verdicts: str | None = option(
        "--verdicts", "File of verdicts: what got worse is measured, over the range it names", metavar="FILE"
    )
    workload: Sequence[str] = option(
        "--workload",
        "Workloads to measure, by names or globs; those of --suite",
        metavar="NAME",
        many=True,
    )
    suite: Sequence[str] = shared(replace(SUITE, default="all"))
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
        default=f"{LATENCY}, or all that the command prints",
    )
    builder: str | None = option(
        "--builder",
        "How a commit becomes an environment: worktree (its files, imported as they are), command (--build), wheel or "
        "nightly (--wheels)",
        metavar="|".join(BUILDERS),
        default="command with --build, else worktree",
        choices=BUILDERS,
    )
    build: str | None = shared(BUILD)
    build_timeout: float | None = shared(BUILD_TIMEOUT)
    wheels: str | None = option(
        "--wheels",
        "Where wheels are: of commits a directory, or a URL, path or requirement with {sha} or {short_sha} in it; of "
        "nightlies a directory or the URL of an index",
        metavar="WHERE",
    )
    python: str | None = shared(REVISIONS_PYTHON)
    config: str | None = shared(CONFIG)
    device: str | None = shared(DEVICE)
    mode: Sequence[str] = shared(MODE)
    dtype: Sequence[str] = shared(DTYPE)
    backend: Sequence[str] = shared(BACKEND)
    batch_size: int | None = shared(BATCH_SIZE)
    threads: int | None = shared(THREADS)
    timeout: float | None = shared(TIMEOUT)
    min_effect: float | None = shared(MIN_EFFECT)
    paths: Sequence[str] = option(
        "--paths",
        "Files, directories or globs that make a commit which changes them ten times as suspect; none is ruled out",
        metavar="PATH",
        many=True,
    )
    full_history: bool = option(
        "--full-history", "Where the culprit is a merge, go on among the commits that it brought in", truth
    )
    max_builds: int | None = option(
        "--max-builds", "Most builds in all", positive_int, metavar="N", default="no limit"
    )
    max_runs: int | None = option(
        "--max-runs",
        "Most pairs of processes to measure in all",
        positive_int,
        metavar="N",
        default="no limit",
    )
    deadline: float | None = option(
        "--deadline",
        "Most seconds that this call may take: the next one with the same --state goes on",
        positive,
        metavar="SECONDS",
        default="no limit",
    )
    state: str | None = option(
        "--state",
        "File in which every step is kept: an interrupted bisection goes on from there",
        metavar="FILE",
        default="the name of --out, with .state.jsonl",
    )
    out: str | None = option("--out", "File for what was found", metavar="FILE", default="culprits.json")
    dry_run: bool = option("--dry-run", "Show the plan, and stop", truth)
    on_failure: str | None = option(
        "--on-failure",
        "warn: exit with 0 even where nothing could be concluded",
        metavar="error|warn",
        default="error",
        choices=("error", "warn"),
    )
    json: bool = shared(JSON)
