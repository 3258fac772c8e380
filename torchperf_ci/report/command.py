"""What ``torchperf report`` does with its options."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchperf_ci import actions
from torchperf_ci.deadline import Deadline
from torchperf_ci.errors import OutputDirectoryError, UsageError
from torchperf_ci.records.files import replace_file
from torchperf_ci.report import comment
from torchperf_ci.report.github import asking
from torchperf_ci.report.measured import measured
from torchperf_ci.report.pull_request import NobodyWaitsError, find
from torchperf_ci.verdicts.file import read
from torchperf_ci.verdicts.groups import headline
from torchperf_ci.verdicts.markdown import markdown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchperf_ci.verdicts.verdict import Judgement

_SECONDS = 120.0
"""Most of them that GitHub may take in all."""
_FILE = "report.md"


def report_command(options: Mapping[str, Any]) -> int:
    """Tell those who must know. What the verdicts say does not make it fail: that is for the command that judged."""
    if not options["verdicts"]:
        msg = "report what? give files of verdicts with --verdicts"
        raise UsageError(msg)
    judgements = [read(Path(path)) for path in options["verdicts"]]
    verdicts = [verdict for judgement in judgements for verdict in judgement.verdicts]
    sys.stderr.write(f"{headline(verdicts)}\n")
    match options["to"]:
        case "comment":
            _comment(judgements, options)
        case "summary" | None:
            _summary(judgements)
        case folder:
            _write(Path(folder), markdown(judgements, actions.SUMMARY_LIMIT))
    return 0


def _summary(judgements: Sequence[Judgement]) -> None:
    text = markdown(judgements, actions.SUMMARY_LIMIT // 2)
    if actions.in_actions():
        actions.append_summary(text)
    else:
        _print(text)


def _write(folder: Path, text: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"{folder}: this directory cannot be made: {error.strerror}"
        raise OutputDirectoryError(msg) from error
    replace_file(folder / _FILE, text)
    _say(f"written to {folder / _FILE}")


def _comment(judgements: Sequence[Judgement], options: Mapping[str, Any]) -> None:
    of = measured(options, os.environ)
    text = comment.body(judgements, of)
    if options["dry_run"] or not os.environ.get("GITHUB_TOKEN"):
        _print(text)
        why = "this is a dry run" if options["dry_run"] else "there is no GITHUB_TOKEN"
        _say(f"nothing is commented: {why}")
        return
    repository = options["repo"] or os.environ.get("GITHUB_REPOSITORY", "")
    if not repository:
        msg = "comment in which repository? give --repo"
        raise UsageError(msg)
    with asking(repository, os.environ, Deadline.after(_SECONDS)) as ask:
        try:
            pull = find(ask, of)
        except NobodyWaitsError as reason:
            _say(f"nothing is commented: {reason}")
            actions.annotate([actions.Annotation("notice", str(reason), title="Nothing is commented")])
            return
        url = comment.put(ask, pull.number, text)
    _say(f"commented: {url}")
    actions.set_output("comment-url", url)


def _print(text: str) -> None:
    with actions.literal():
        sys.stdout.write(text)
        sys.stdout.flush()


def _say(text: str) -> None:
    with actions.literal():
        sys.stderr.write(f"{actions.one_line(text)}\n")
