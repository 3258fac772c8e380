"""Issues without GitHub: planned actions are applied at once, with the same effect."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from torchperf_ci.issues.findings import findings_of
from torchperf_ci.issues.lifecycle import plan_actions
from torchperf_ci.issues.matching import IssueRules
from torchperf_ci.issues.memory import memory_line, parse_memory
from torchperf_ci.issues.tracker import TrackedIssue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.culprits.culprit import Bisection
    from torchperf_ci.issues.lifecycle import IssueAction, IssuePlan
    from torchperf_ci.issues.memory import IssueMemory
    from torchperf_ci.verdicts.verdict import Judgement


@dataclass
class Desk:
    """The issues, by number, and how the nights go."""

    recovered_nights: int = 3
    max_per_night: int = 5
    issues: dict[int, TrackedIssue] = field(default_factory=dict)

    def plan(self, day: int, judgement: Judgement, *locations: Bisection) -> IssuePlan:
        """What is to be done in the night of a day of November."""
        night = f"2026-11-{day:02d}"
        rules = IssueRules(night, self.recovered_nights, self.max_per_night)
        findings = findings_of([judgement], locations, night, 3)
        return plan_actions(findings, judgement.verdicts, [*self.issues.values()], rules)

    def night(self, day: int, judgement: Judgement, *locations: Bisection) -> list[str]:
        """Do it; what was done, as ``open 1``. The same again must be nothing."""
        done = [self.do(action) for action in self.plan(day, judgement, *locations).actions]
        again = [action for action in self.plan(day, judgement, *locations).actions if self.changes(action)]
        assert again == []
        return [one for one in done if not one.startswith("remember")]

    def changes(self, action: IssueAction) -> bool:
        """Whether doing it changes anything."""
        return action.issue is None or action.what != "remember" or action.memory != action.issue.memory

    def do(self, action: IssueAction) -> str:
        """One action."""
        issue = action.issue
        if issue is None:
            number = max(self.issues, default=0) + 1
            self.issues[number] = TrackedIssue(number, f"#{number}", "", "", stored(action.memory))
            return f"{action.what} {number}"
        if action.what == "duplicate":
            del self.issues[issue.number]
        else:
            is_open = action.what not in ("recover", "accept") and (issue.is_open or action.what == "reopen")
            changed = replace(issue, memory=stored(action.memory), is_open=is_open)
            self.issues[issue.number] = changed
        return f"{action.what} {issue.number}"

    def change(self, number: int, **members: Any) -> None:
        """What people do with an issue."""
        self.issues[number] = replace(self.issues[number], **members)

    @property
    def open(self) -> Sequence[TrackedIssue]:
        """Those that are open."""
        return [issue for issue in self.issues.values() if issue.is_open]


def stored(memory: IssueMemory) -> IssueMemory:
    """As it is read again."""
    found = parse_memory(memory_line(memory))
    assert found is not None
    return found
