"""A report as issues, one for each cause."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from torchperf_ci import actions, config
from torchperf_ci.console import say
from torchperf_ci.culprits.culprit_text import count
from torchperf_ci.deadline import Deadline
from torchperf_ci.errors import NotDeliveredError
from torchperf_ci.github import github_client, github_server
from torchperf_ci.identity import run_url
from torchperf_ci.issues.body import IssueContext
from torchperf_ci.issues.comments import text_of_action
from torchperf_ci.issues.findings import findings_of
from torchperf_ci.issues.lifecycle import plan_actions
from torchperf_ci.issues.matching import IssueRules
from torchperf_ci.issues.publishing import NightToPublish, publish_issues, summarize_published
from torchperf_ci.issues.tracker import IssueTracker, author_login
from torchperf_ci.report.output import (
    output_folder,
    repository_name,
    tell_in_summary,
    why_silent,
    write_files,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.config import Issues
    from torchperf_ci.github import GitHubClient
    from torchperf_ci.issues.lifecycle import IssueAction
    from torchperf_ci.issues.publishing import PublishedIssues
    from torchperf_ci.options import ReportOptions
    from torchperf_ci.report.inputs import ReportInputs

_SECONDS = 600.0
"""Most of them that GitHub may take in all: what is written has to be a second apart."""


class IssueDraft(NamedTuple):
    """An issue that is not opened, and the name of its file."""

    file: str
    title: str
    body: str


def tell_in_issues(told: ReportInputs, options: ReportOptions) -> None:
    """Open, update and close issues. Raises :class:`NotDeliveredError`, in the end, for all that was not told."""
    if why := why_silent(options, os.environ):
        texts = {
            one.file: f"# {actions.markdown_cell(one.title)}\n\n{one.body}"
            for one in issue_drafts(told, options)
        }
        write_files(output_folder(options), texts)
        say(f"no issue is touched, {count(len(texts), 'draft')} written: {why}")
        return
    chosen, rules = _chosen(options)
    name = repository_name(options, os.environ, chosen.repo)
    findings = findings_of(told.judgements, told.locations, rules.night, chosen.broken_nights)
    with github_client(name, os.environ, Deadline.after(_SECONDS)) as ask:
        context = partial(_context, ask if chosen.mention_authors else None, rules.night)
        _tell(
            publish_issues(
                IssueTracker(ask, chosen.labels), NightToPublish(findings, told.verdicts, rules, context)
            )
        )


def issue_drafts(told: ReportInputs, options: ReportOptions) -> Sequence[IssueDraft]:
    """What would be opened where no issue is known."""
    chosen, rules = _chosen(options)
    findings = findings_of(told.judgements, told.locations, rules.night, chosen.broken_nights)
    planned = plan_actions(findings, told.verdicts, (), rules)
    return [_draft(action, rules.night) for action in planned.actions]


def _draft(action: IssueAction, night: str) -> IssueDraft:
    text = text_of_action(action, _context(None, night, action))
    return IssueDraft(f"issue-{action.memory.fingerprints[0]}.md", text.title, text.body)


def _chosen(options: ReportOptions) -> tuple[Issues, IssueRules]:
    issues = config.find(options.config).issues
    night = options.night or f"{datetime.now(timezone.utc):%Y-%m-%d}"
    return issues, IssueRules(night, issues.recovered_nights, issues.max_per_night)


def _context(ask: GitHubClient | None, night: str, action: IssueAction) -> IssueContext:
    """What the text of an action needs to know; ``ask`` where the author of a culprit is to be told."""
    at = github_server(os.environ)
    culprit = next((one.culprit for one in action.findings if one.culprit), None)
    login = author_login(ask, culprit, at) if ask and culprit and action.what != "remember" else None
    return IssueContext(night, run_url(os.environ), at, login)


def _tell(done: PublishedIssues) -> None:
    """Say what was done, where a job's readers look."""
    text = summarize_published(done)
    say(text.headline)
    if actions.in_actions():
        tell_in_summary(text.markdown)
    for name, value in text.outputs.items():
        actions.set_output(name, value)
    actions.annotate(actions.Annotation("notice", note, title="Issues") for note in done.notes)
    if done.failed:
        msg = f"not told: {'; '.join(done.failed)}"
        raise NotDeliveredError(msg)
