"""On any nights, a proven commit has an issue of its own, whatever sets of commits other bisections end in."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from desk import Desk
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from nights import judged, located_within, measured, regressed, series

from torchperf_ci.issues.findings import culprit_fingerprint
from torchperf_ci.issues.memory import series_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

    from torchperf_ci.issues.lifecycle import IssueAction
    from torchperf_ci.series.points import Series

ALL = [replace(series(model), arch=arch) for model in ("resnet18", "bert") for arch in ("H100", "A100")]
COMMITS = [letter * 40 for letter in "abcde"]
STEPS = [tuple(COMMITS[first:end]) for first in range(5) for end in range(first + 1, 6)]
some_series = st.sampled_from(range(len(ALL)))
some_steps = st.sampled_from(STEPS)


class AnyProof(RuleBasedStateMachine):
    """Two machines on which series get worse and recover, and whose bisections end in steps of one commit or more."""

    def __init__(self) -> None:
        super().__init__()
        self.desk = Desk(recovered_nights=2, max_per_night=9)
        self.day = 1
        self.steps: dict[int, tuple[str, ...] | None] = {}
        self.reopened: set[int] = set()

    @rule(which=some_series, step=st.none() | some_steps)
    def regress(self, which: int, step: tuple[str, ...] | None) -> None:
        """It is worse, and a bisection proves a step, another one than before, or none."""
        self.steps[which] = step

    @precondition(lambda self: self.steps)
    @rule(data=st.data())
    def recover(self, data: st.DataObject) -> None:
        """It is as it was."""
        self.steps.pop(data.draw(st.sampled_from(sorted(self.steps))))

    @precondition(lambda self: self.desk.open)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        """Somebody closes an issue."""
        self.desk.change(data.draw(st.sampled_from(self.desk.open)).number, is_open=False)

    @precondition(lambda self: self.day < 28)
    @rule(order=st.randoms(use_true_random=False), away=st.sets(some_series))
    def night(self, order: Random, away: set[int]) -> None:
        """Some series are measured, their bisections come in any order, and the night is reported twice."""
        self.day += 1
        verdicts = {
            which: regressed(one) if which in self.steps else measured(one)
            for which, one in enumerate(ALL)
            if which not in away
        }
        steps = {ALL[which]: step for which, step in self.steps.items() if step and which in verdicts}
        proven = [located_within(regressed(one), commits=step) for one, step in steps.items()]
        order.shuffle(proven)
        for again in (False, True):
            for action in self.desk.plan(self.day, judged(*verdicts.values()), *proven).actions:
                assert not (again and self.desk.changes(action))
                self.check(action)
                self.desk.do(action)
        self.check_proven(steps)

    def check(self, action: IssueAction) -> None:
        """A closed issue is reopened only by what it has been about."""
        if action.what == "reopen" and action.issue:
            back = {row.series for row in action.memory.rows if row.night == f"2026-11-{self.day:02d}"}
            assert back & series_of(action.issue.memory.rows)
            self.reopened.add(action.issue.number)

    def check_proven(self, steps: Mapping[Series, tuple[str, ...]]) -> None:
        """Each proven commit is what an issue is known by, unless people have closed one about its series."""
        named = {name for issue in self.desk.issues.values() for name in issue.memory.fingerprints}
        closed = [issue for issue in self.desk.issues.values() if not issue.is_open]
        settled = {one for issue in closed for one in series_of(issue.memory.rows)}
        for one, step in steps.items():
            if len(step) == 1 and one not in settled:
                assert culprit_fingerprint(*step) in named

    @invariant()
    def no_commit_has_two_open_issues(self) -> None:
        """Nor has a regression without one."""
        names = Counter(name for issue in self.desk.open for name in issue.memory.fingerprints)
        assert max(names.values(), default=0) <= 1

    @invariant()
    def no_open_issue_is_of_two_commits(self) -> None:
        """Except one that was reopened, whose comment tells of the other."""
        for issue in self.desk.open:
            commits = {culprit_fingerprint(commit) for commit in COMMITS} & {*issue.memory.fingerprints}
            assert len(commits) <= 1 or issue.number in self.reopened
            assert not (commits and issue.memory.suspects)


TestAnyProof = AnyProof.TestCase
TestAnyProof.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
