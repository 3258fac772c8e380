"""The options of ``report``."""

from __future__ import annotations

from torchperf_ci.options.option import Option
from torchperf_ci.options.values import full_sha, positive_int, truth

REPORT_OPTIONS = (
    Option("--verdicts", "Files of verdicts, from check or compare", metavar="FILE", many=True),
    Option(
        "--to",
        "summary (of the job; elsewhere it is printed), comment (one on the pull request, updated), or a directory "
        "for report.md",
        metavar="summary|comment|DIR",
        default="summary",
    ),
    Option("--repo", "owner/name whose pull request it is", metavar="REPO", default="the job's repository"),
    Option("--pull-request", "Number of the pull request", positive_int, metavar="N", default="the job's"),
    Option(
        "--head-sha",
        "Commit that was measured: only a pull request whose head it still is gets the comment",
        full_sha,
        metavar="SHA",
        default="the job's",
    ),
    Option("--head-repository", "owner/name that this commit is in", metavar="REPO", default="the job's"),
    Option("--head-branch", "Branch that this commit is on", metavar="NAME", default="the job's"),
    Option("--dry-run", "Print the comment, and ask GitHub nothing", truth),
)
