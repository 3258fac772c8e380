"""What became of tonight's findings, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchperf_ci.actions import markdown_cell
from torchperf_ci.culprits.words import count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchperf_ci.report.issues.life.ours import Ours
    from torchperf_ci.report.issues.publishing import Published


@dataclass(frozen=True)
class Account:
    """One line for the log, the job summary, and the outputs of the step."""

    headline: str
    markdown: str
    outputs: Mapping[str, str]


def account(done: Published) -> Account:
    """Everything that was done, and what was not."""
    lists: Mapping[str, Sequence[Ours]] = {
        "opened": done.opened,
        "reopened": done.reopened,
        "updated": done.updated,
        "closed": done.closed,
    }
    counted = [f"{len(issues)} {word}" for word, issues in lists.items() if issues]
    if done.left:
        counted.append(f"{len(done.left)} without room")
    if done.failed:
        counted.append(f"{count(len(done.failed), 'finding')} not told")
    headline = f"issues: {', '.join(counted) or 'nothing new'}"
    lines = [f"- {word} {_link(issue)}" for word, issues in lists.items() for issue in issues]
    news = {issue.number for issues in lists.values() for issue in issues}
    lines += [f"- known {_link(issue)}" for issue in done.about if issue.number not in news]
    lines += [f"- no room tonight: {markdown_cell(title)}" for title in done.left]
    lines += [f"- {markdown_cell(note)}" for note in (*done.settled, *done.notes)]
    lines += [f"- ❌ not told: {markdown_cell(failure)}" for failure in done.failed]
    title = f"### {headline[:1].upper()}{headline[1:]}"
    outputs = {
        "issues": "\n".join(issue.url for issue in done.about),
        "opened": str(len(done.opened)),
        "closed": str(len(done.closed)),
    }
    return Account(headline, "\n".join([title, "", *lines]).rstrip() + "\n", outputs)


def _link(issue: Ours) -> str:
    return f"[#{issue.number} {markdown_cell(issue.title)}]({issue.url})"
