"""The options of ``compare``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchperf_ci.options.common import CONFIG, JSON
from torchperf_ci.options.measuring import (
    BACKEND,
    BATCH_SIZE,
    DEVICE,
    DTYPE,
    FILTER,
    MODE,
    PYTHON,
    SHARD,
    SUITE,
    THREADS,
    TIMEOUT,
)
from torchperf_ci.options.option import Option, option, shared
from torchperf_ci.options.values import positive, share

if TYPE_CHECKING:
    from collections.abc import Sequence

_A_BUILD = "a Python, a wheel (FILE.whl or NAME==VERSION), a revision of --repo, or a directory of records"

REVISIONS_PYTHON = Option(
    PYTHON.flag,
    "Python that revisions run on, imported from a worktree, and that environments for wheels are made with",
    metavar="PATH",
    default=PYTHON.default,
)
BUILD = Option(
    "--build",
    "Shell line that installs a revision: it runs in a worktree, with a fresh virtual environment active; {sha}, "
    "{worktree} and {env}, or $SHA, $WORKTREE and $ENV, name the three",
    metavar="CMD",
    default="revisions are imported as they are",
)
BUILD_TIMEOUT = Option(
    "--build-timeout", "Most seconds that a build may take", positive, metavar="SECONDS", default="7200"
)
MIN_EFFECT = Option(
    "--min-effect",
    "The smallest relative change that matters",
    share,
    metavar="X",
    default="the policy's, else 0.03",
)


@dataclass(frozen=True)
class CompareOptions:
    """The options of ``torchperf compare``."""

    base: str | None = option("--base", f"What to compare with: {_A_BUILD}", metavar="BUILD")
    head: str | None = option("--head", "What is to be judged: as for --base", metavar="BUILD")
    repo: str | None = option(
        "--repo", "Checkout of the repository that revisions are of", metavar="DIR", default="."
    )
    python: str | None = shared(REVISIONS_PYTHON)
    build: str | None = shared(BUILD)
    build_timeout: float | None = shared(BUILD_TIMEOUT)
    config: str | None = shared(CONFIG)
    suite: Sequence[str] = shared(SUITE)
    filter: Sequence[str] = shared(FILTER)
    device: str | None = shared(DEVICE)
    mode: Sequence[str] = shared(MODE)
    dtype: Sequence[str] = shared(DTYPE)
    backend: Sequence[str] = shared(BACKEND)
    batch_size: int | None = shared(BATCH_SIZE)
    threads: int | None = shared(THREADS)
    timeout: float | None = shared(TIMEOUT)
    shard: tuple[int, int] | None = shared(SHARD)
    min_effect: float | None = shared(MIN_EFFECT)
    budget: float | None = option(
        "--budget",
        "Most seconds of measuring: what is not clear by then stays open",
        positive,
        metavar="SECONDS",
        default="600, or 60 a case where that is more",
    )
    out: str | None = option("--out", "File for the verdicts", metavar="FILE", default="verdicts.json")
    on_failure: str | None = option(
        "--on-failure",
        "warn: exit with 0 even where head is worse, or nobody can tell",
        metavar="error|warn",
        default="error",
        choices=("error", "warn"),
    )
    json: bool = shared(JSON)
