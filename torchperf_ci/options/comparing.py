"""The options of ``compare``."""

from __future__ import annotations

from torchperf_ci.options.common import JSON
from torchperf_ci.options.measuring import PYTHON, RUN_OPTIONS
from torchperf_ci.options.option import Option
from torchperf_ci.options.values import positive, share

_OF_RUN = {option.flag: option for option in RUN_OPTIONS}
_A_BUILD = "a Python, a wheel (FILE.whl or NAME==VERSION), a revision of --repo, or a directory of records"

COMPARE_OPTIONS = (
    Option("--base", f"What to compare with: {_A_BUILD}", metavar="BUILD"),
    Option("--head", "What is to be judged: as for --base", metavar="BUILD"),
    Option("--repo", "Checkout of the repository that revisions are of", metavar="DIR", default="."),
    Option(
        PYTHON.flag,
        "Python that revisions run on, imported from a worktree, and that environments for wheels are made with",
        metavar="PATH",
        default=PYTHON.default,
    ),
    Option(
        "--build",
        "Shell line that installs a revision: it runs in a worktree, with a fresh virtual environment active; {sha}, "
        "{worktree} and {env}, or $SHA, $WORKTREE and $ENV, name the three",
        metavar="CMD",
        default="revisions are imported as they are",
    ),
    Option(
        "--build-timeout", "Most seconds that a build may take", positive, metavar="SECONDS", default="7200"
    ),
    *(
        _OF_RUN[flag]
        for flag in (
            "--config",
            "--suite",
            "--filter",
            "--device",
            "--mode",
            "--dtype",
            "--backend",
            "--batch-size",
            "--threads",
            "--timeout",
            "--shard",
        )
    ),
    Option(
        "--min-effect",
        "The smallest relative change that matters",
        share,
        metavar="X",
        default="the policy's, else 0.03",
    ),
    Option(
        "--budget",
        "Most seconds of measuring: what is not clear by then stays open",
        positive,
        metavar="SECONDS",
        default="600, or 60 a case where that is more",
    ),
    Option("--out", "File for the verdicts", metavar="FILE", default="verdicts.json"),
    Option(
        "--on-failure",
        "warn: exit with 0 even where head is worse, or nobody can tell",
        metavar="error|warn",
        default="error",
        choices=("error", "warn"),
    ),
    JSON,
)
