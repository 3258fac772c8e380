"""The command ``torchperf report``."""

from __future__ import annotations

import os
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci import actions
from torchperf_ci.console import say
from torchperf_ci.culprits.culprit_document import bisection_headline
from torchperf_ci.errors import NotDeliveredError, TorchperfError, UsageError
from torchperf_ci.github import github_server
from torchperf_ci.report.contents import ReportInputs, publish_to_summary, read_inputs, report_markdown
from torchperf_ci.verdicts.headline import headline

if TYPE_CHECKING:
    from torchperf_ci.options.analysis_commands import ReportOptions


_WORDS = ("summary", "comment", "issues")
"""Values of ``--to`` other than a directory."""


def report_command(options: ReportOptions) -> int:
    """Publish the report. A regression does not make this command fail, only the command that judged.

    A destination that fails, such as a pull request that does not exist, does not keep the report from the others.
    """
    destinations = options.to or ["summary"]
    for to in destinations:
        _check_destination(to)
    inputs = read_inputs(options)
    if inputs.judgements:
        say(headline(inputs.judgements))
    for bisection in inputs.bisections:
        say(f"bisection: {bisection_headline(bisection)}")
    failures: list[TorchperfError] = []
    for to in destinations:
        try:
            _publish_to(to, inputs, options)
        except TorchperfError as error:
            failures.append(error)
    only_unsent = all(isinstance(failure, NotDeliveredError) for failure in failures)
    if failures and not (only_unsent and options.on_failure == "warn"):
        kind = NotDeliveredError if only_unsent else UsageError
        raise kind("; ".join(map(str, failures))) from failures[0]
    for failure in failures:
        say(f"warning: {failure}")
        actions.annotate([actions.Annotation("warning", str(failure), title="Not reported")])
    return 0


def _check_destination(to: str) -> None:
    """Raise :class:`UsageError` for a misspelled word, which would otherwise become a directory."""
    near = get_close_matches(to, _WORDS, n=1, cutoff=0.7)
    if near and to not in _WORDS and not Path(to).exists():
        raise UsageError(f"--to {to}: did you mean {near[0]}? For a directory of that name write ./{to}")


def _publish_to(to: str, inputs: ReportInputs, options: ReportOptions) -> None:
    """Publish to the destination. Its module is imported on use, as only some need the GitHub client or renderer."""
    match to:
        case "comment":
            from torchperf_ci.report import pull_request_comment

            pull_request_comment.publish_to_comment(inputs, options)
        case "issues":
            from torchperf_ci.report import issue_report

            issue_report.publish_to_issues(inputs, options)
        case "summary":
            publish_to_summary(report_markdown(inputs, actions.SUMMARY_ROOM, github_server(os.environ)))
        case folder:
            from torchperf_ci.report import report_page

            report_page.write_page(inputs, Path(folder), options)
