"""A report as issues, one for each cause."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from torchperf_ci import actions, config
from torchperf_ci.console import say
from torchperf_ci.culprits.words import count
from torchperf_ci.deadline import Deadline
from torchperf_ci.errors import NotDeliveredError
from torchperf_ci.report.authors import author_login
from torchperf_ci.report.destinations import summary
from torchperf_ci.report.destinations.outside import out, repository, server, why_silent, write
from torchperf_ci.report.github import asking
from torchperf_ci.report.issues.account import account
from torchperf_ci.report.issues.board import Board
from torchperf_ci.report.issues.causes.findings import findings_of
from torchperf_ci.report.issues.life.lifecycle import plan
from torchperf_ci.report.issues.life.rules import Rules
from torchperf_ci.report.issues.publishing import Tonight, publish
from torchperf_ci.report.issues.texts.context import Context
from torchperf_ci.report.issues.texts.text import text_of
from torchperf_ci.report.measured import run_url

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.config import Issues
    from torchperf_ci.options import ReportOptions
    from torchperf_ci.report.github import Asking
    from torchperf_ci.report.issues.life.action import Action
    from torchperf_ci.report.issues.publishing import Published
    from torchperf_ci.report.told import Told

_SECONDS = 600.0
"""Most of them that GitHub may take in all: what is written has to be a second apart."""


class Draft(NamedTuple):
    """An issue that is not opened, and the name of its file."""

    file: str
    title: str
    body: str


def tell(told: Told, options: ReportOptions) -> None:
    """Open, update and close issues. Raises :class:`NotDeliveredError`, in the end, for all that was not told."""
    if why := why_silent(options, os.environ):
        texts = {
            one.file: f"# {actions.markdown_cell(one.title)}\n\n{one.body}" for one in drafts(told, options)
        }
        write(out(options), texts)
        say(f"no issue is touched, {count(len(texts), 'draft')} written: {why}")
        return
    chosen, rules = _chosen(options)
    name = repository(options, os.environ, chosen.repo)
    findings = findings_of(told.judgements, told.locations, rules.night, chosen.broken_nights)
    with asking(name, os.environ, Deadline.after(_SECONDS)) as ask:
        context = partial(_context, ask if chosen.mention_authors else None, rules.night)
        _tell(publish(Board(ask, chosen.labels), Tonight(findings, told.verdicts, rules, context)))


def drafts(told: Told, options: ReportOptions) -> Sequence[Draft]:
    """What would be opened where no issue is known."""
    chosen, rules = _chosen(options)
    findings = findings_of(told.judgements, told.locations, rules.night, chosen.broken_nights)
    planned = plan(findings, told.verdicts, (), rules)
    return [_draft(action, rules.night) for action in planned.actions]


def _draft(action: Action, night: str) -> Draft:
    text = text_of(action, _context(None, night, action))
    return Draft(f"issue-{action.memory.fingerprints[0]}.md", text.title, text.body)


def _chosen(options: ReportOptions) -> tuple[Issues, Rules]:
    issues = config.find(options.config).issues
    night = options.night or f"{datetime.now(timezone.utc):%Y-%m-%d}"
    return issues, Rules(night, issues.recovered_nights, issues.max_per_night)


def _context(ask: Asking | None, night: str, action: Action) -> Context:
    """What the text of an action needs to know; ``ask`` where the author of a culprit is to be told."""
    at = server(os.environ)
    culprit = next((one.culprit for one in action.findings if one.culprit), None)
    login = author_login(ask, culprit, at) if ask and culprit and action.what != "remember" else None
    return Context(night, run_url(os.environ), at, login)


def _tell(done: Published) -> None:
    """Say what was done, where a job's readers look."""
    text = account(done)
    say(text.headline)
    if actions.in_actions():
        summary.tell(text.markdown)
    for name, value in text.outputs.items():
        actions.set_output(name, value)
    actions.annotate(actions.Annotation("notice", note, title="Issues") for note in done.notes)
    if done.failed:
        msg = f"not told: {'; '.join(done.failed)}"
        raise NotDeliveredError(msg)
