"""Publish a report as issues, one for each cause."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci import actions
from torchperf_ci.config import Issues, find_config
from torchperf_ci.console import say
from torchperf_ci.document import Document, counted, text_of
from torchperf_ci.github import GitHubClient, github_client, github_server
from torchperf_ci.identity import UnknownIdentityError, read_event, run_url
from torchperf_ci.issues.body import BODY_LIMIT, IssueContext, issue_document
from torchperf_ci.issues.findings import findings_of
from torchperf_ci.issues.lifecycle import IssueAction, plan_actions
from torchperf_ci.issues.matching import IssueRules
from torchperf_ci.issues.publishing import NightToPublish, PublishedIssues, publish_issues, published_document
from torchperf_ci.issues.tracker import IssueTracker, author_login
from torchperf_ci.markdown import escaped, to_markdown
from torchperf_ci.report.contents import ReportInputs, why_silent, write_files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchperf_ci.options.analysis_commands import ReportOptions

_SECONDS = 600.0
"""Most seconds for all requests to GitHub, where writes must be a second apart."""


def publish_to_issues(inputs: ReportInputs, options: ReportOptions) -> None:
    """Open, update and close issues. Raises :class:`NotDeliveredError` at the end if some could not be published."""
    if why := why_silent(options, os.environ) or _of_other_branch(os.environ):
        drafts = issue_drafts(inputs, options)
        write_files(Path(options.out), {name: _draft_text(draft) for name, draft in drafts.items()})
        say(f"no issue was changed, {counted(len(drafts), 'draft')} written: {why}")
        return
    config, rules = _config_and_rules(options)
    findings = findings_of(inputs.judgements, inputs.bisections, rules.night, config.broken_nights)
    with github_client(options.repo or config.repo, os.environ, _SECONDS) as client:
        context = partial(_context, client if config.mention_authors else None, rules.night)
        night = NightToPublish(findings, inputs.verdicts, rules, context)
        _report_published(publish_issues(IssueTracker(client, config.labels), night))


def _of_other_branch(environ: Mapping[str, str]) -> str:
    """Say that something else was measured than the default branch, which issues are about; else empty.

    A ``workflow_run`` job always runs on the default branch, also after a run on another one or of a pull request.
    """
    ref = environ.get("GITHUB_REF", "").removeprefix("refs/heads/")
    with suppress(UnknownIdentityError):
        event = read_event(environ)
        run, default = event.workflow_run, event.repository.default_branch
        if run:
            ref = "a pull request" if run.event.startswith("pull_request") else run.head_branch or ref
        if ref and default not in ("", ref):
            return f"this job is about {ref}, and issues are about {default}"
    return ""


def issue_drafts(inputs: ReportInputs, options: ReportOptions) -> Mapping[str, Document]:
    """Return drafts, by file name, of the issues that would be opened if there were none yet."""
    config, rules = _config_and_rules(options)
    findings = findings_of(inputs.judgements, inputs.bisections, rules.night, config.broken_nights)
    planned = plan_actions(findings, inputs.verdicts, (), rules)
    return {
        f"issue-{action.memory.fingerprints[0]}.md": issue_document(
            action.findings[0], action.memory, _context(None, rules.night, action)
        )
        for action in planned.actions
    }


def _draft_text(draft: Document) -> str:
    return f"# {escaped(text_of(draft.title))}\n\n{to_markdown(Document('', draft.blocks), BODY_LIMIT)}"


def _config_and_rules(options: ReportOptions) -> tuple[Issues, IssueRules]:
    config = find_config(options.config).issues
    night = options.night or f"{datetime.now(timezone.utc):%Y-%m-%d}"
    return config, IssueRules(night, config.recovered_nights, config.max_per_night)


def _context(client: GitHubClient | None, night: str, action: IssueAction) -> IssueContext:
    """Return the context for the text of an action. ``client`` is given if the culprit's author is to be mentioned."""
    at = github_server(os.environ)
    culprit = next((finding.culprit for finding in action.findings if finding.culprit), None)
    login = author_login(client, culprit, at) if client and culprit and action.what != "remember" else None
    return IssueContext(night, run_url(os.environ), at, login)


def _report_published(done: PublishedIssues) -> None:
    """Report what was done in the log, the summary, outputs and annotations of a job.

    Raises :class:`NotDeliveredError` if something failed.
    """
    document = published_document(done)
    say(text_of(document.title))
    actions.append_summary(to_markdown(document))
    actions.set_output("issues", "\n".join(issue.url for issue in done.about))
    actions.set_output("opened", str(len(done.opened)))
    actions.set_output("closed", str(len(done.closed)))
    actions.annotate(actions.Annotation("notice", note, title="Issues") for note in done.notes)
    done.check_published()
