"""The options of ``bisect``."""

from __future__ import annotations

from dataclasses import replace

from torchperf_ci.metrics import LATENCY, PAIRED
from torchperf_ci.options.common import JSON
from torchperf_ci.options.comparing import COMPARE_OPTIONS
from torchperf_ci.options.measuring import SUITE
from torchperf_ci.options.option import Option
from torchperf_ci.options.values import positive, positive_int, truth

BUILDERS = ("worktree", "command", "wheel", "nightly")
_OF_COMPARE = {option.flag: option for option in COMPARE_OPTIONS}

BISECT_OPTIONS = (
    Option("--repo", "Checkout whose commits are the suspects, with their history", metavar="DIR", default="."),
    Option(
        "--good",
        "Commit, branch or tag that is known to be fast; with --builder nightly a date",
        metavar="SHA",
        default="what the verdicts say",
    ),
    Option(
        "--bad",
        "Commit, branch or tag that got slower; with --builder nightly a date",
        metavar="SHA",
        default="what the verdicts say",
    ),
    Option("--verdicts", "File of verdicts: what got worse is measured, over the range it names", metavar="FILE"),
    Option(
        "--workload",
        "Workloads to measure, by names or globs; those of --suite",
        metavar="NAME",
        many=True,
    ),
    replace(SUITE, default="all"),
    Option(
        "--command",
        "Shell line to measure instead: it prints a number in its last line, or v3 records; {sha}, {worktree} and "
        "{python}, or $SHA, $WORKTREE and $PYTHON, name the build",
        metavar="CMD",
    ),
    Option(
        "--metric",
        f"What to look at: {', '.join(PAIRED)}, or one that --command prints",
        metavar="NAME",
        default=f"{LATENCY}, or all that the command prints",
    ),
    Option(
        "--builder",
        "How a commit becomes an environment: worktree (its files, imported as they are), command (--build), wheel or "
        "nightly (--wheels)",
        metavar="|".join(BUILDERS),
        default="command with --build, else worktree",
        choices=BUILDERS,
    ),
    _OF_COMPARE["--build"],
    _OF_COMPARE["--build-timeout"],
    Option(
        "--wheels",
        "Where wheels are: of commits a directory, or a URL, path or requirement with {sha} or {short_sha} in it; of "
        "nightlies a directory or the URL of an index",
        metavar="WHERE",
    ),
    *(
        _OF_COMPARE[flag]
        for flag in (
            "--python", "--config", "--device", "--mode", "--dtype", "--backend", "--batch-size",
            "--threads", "--timeout", "--min-effect",
        )
    ),
    Option(
        "--paths",
        "Files, directories or globs that make a commit which changes them ten times as suspect; none is ruled out",
        metavar="PATH",
        many=True,
    ),
    Option("--full-history", "Where the culprit is a merge, go on among the commits that it brought in", truth),
    Option("--max-builds", "Most builds in all", positive_int, metavar="N", default="no limit"),
    Option("--max-runs", "Most pairs of processes to measure in all", positive_int, metavar="N", default="no limit"),
    Option(
        "--deadline",
        "Most seconds that this call may take: the next one with the same --state goes on",
        positive,
        metavar="SECONDS",
        default="no limit",
    ),
    Option(
        "--state",
        "File in which every step is kept: an interrupted bisection goes on from there",
        metavar="FILE",
        default="the name of --out, with .state.jsonl",
    ),
    Option("--out", "File for what was found", metavar="FILE", default="culprits.json"),
    Option("--dry-run", "Show the plan, and stop", truth),
    Option(
        "--on-failure",
        "warn: exit with 0 even where nothing could be concluded",
        metavar="error|warn",
        default="error",
        choices=("error", "warn"),
    ),
    JSON,
)  # fmt: skip
