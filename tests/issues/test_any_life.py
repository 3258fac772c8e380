"""In any order of events, no cause has two open issues, and none is opened for a level that an open one covers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from desk import Desk
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from nights import judged, located, measured, outcome, regressed, series

if TYPE_CHECKING:
    from torchperf_ci.culprits.culprit import Bisection
    from torchperf_ci.issues.lifecycle import IssueAction
    from torchperf_ci.verdicts.verdict import Judgement, Verdict

ALL = [series(model, device) for model in ("resnet18", "bert") for device in ("cuda", "cpu")]
LEVELS = [1.0, 1.04, 1.1, 1.25]
RANGES = [("1" * 40, "2" * 40), ("1" * 40, "3" * 40), ("4" * 40, "5" * 40)]
COMMITS = ["c" * 40, "d" * 40]
some_series = st.sampled_from(range(len(ALL)))


class AnyLife(RuleBasedStateMachine):
    """Series with levels, of which history knows some already, and issues about them."""

    def __init__(self) -> None:
        super().__init__()
        self.desk = Desk(recovered_nights=2, max_per_night=2)
        self.day = 1
        self.levels = [1.0] * len(ALL)
        self.usual = [1.0] * len(ALL)
        self.ends = [RANGES[0]] * len(ALL)
        self.culprits: dict[int, str] = {}
        self.failing = 0

    @rule(which=some_series, level=st.sampled_from(LEVELS), ends=st.sampled_from(RANGES))
    def change(self, which: int, level: float, ends: tuple[str, str]) -> None:
        """It gets slower, or faster again."""
        self.levels[which], self.ends[which] = level, ends
        self.culprits.pop(which, None)

    @rule(which=some_series)
    def get_used_to(self, which: int) -> None:
        """History takes the level for granted."""
        self.usual[which] = self.levels[which]

    @rule(which=some_series, commit=st.sampled_from(COMMITS))
    def locate(self, which: int, commit: str) -> None:
        """A bisection proves a commit."""
        self.culprits[which] = commit

    @rule(nights=st.sampled_from([0, 3]))
    def fail(self, nights: int) -> None:
        """A benchmark fails, or passes again."""
        self.failing = nights

    @precondition(lambda self: self.desk.open)
    @rule(data=st.data(), how=st.sampled_from(["accept", "close"]))
    def decide(self, data: st.DataObject, how: str) -> None:
        """Somebody accepts an issue, or closes it."""
        issue = data.draw(st.sampled_from(self.desk.open))
        self.desk.change(issue.number, **({"expected": True} if how == "accept" else {"is_open": False}))

    @precondition(lambda self: self.day < 28)
    @rule(missing=st.sets(some_series), again=st.booleans())
    def night(self, missing: set[int], again: bool) -> None:
        """A night is reported, or once more."""
        self.day += not again
        for action in self.plan(missing):
            self.check(action)
            self.desk.do(action)
        assert not [action for action in self.plan(missing) if self.desk.changes(action)]

    @invariant()
    def no_cause_has_two_open_issues(self) -> None:
        """The one thing that people would not forgive."""
        names = Counter(name for issue in self.desk.open for name in issue.memory.fingerprints)
        assert max(names.values(), default=0) <= 1

    def check(self, action: IssueAction) -> None:
        """A culprit that is proven has an issue of its own, everything else where a series is worse than in others."""
        if action.issue is None and action.memory.kind == "unlocated":
            known = {row.series: row for row in action.memory.rows}
            held = [row for one in self.desk.open if not one.memory.accepted for row in one.memory.rows]
            for row in (row for row in held if row.series in known):
                assert row.old < known[row.series].old, row.series
                assert row.new < known[row.series].new, row.series

    def plan(self, missing: set[int]) -> tuple[IssueAction, ...]:
        judgement, locations = self.tonight(missing)
        return self.desk.plan(self.day, judgement, *locations).actions

    def tonight(self, missing: set[int]) -> tuple[Judgement, list[Bisection]]:
        """What is found of the series that are measured."""
        shown = {which: self.verdict(which) for which in range(len(ALL)) if which not in missing}
        slow = {which: one for which, one in shown.items() if one.verdict == "regressed"}
        locations = [
            located(slow[which], commit=commit, ends=self.ends[which])
            for which, commit in self.culprits.items()
            if which in slow
        ]
        return judged(*shown.values(), outcome("bert", self.failing)), locations

    def verdict(self, which: int) -> Verdict:
        level, usual = self.levels[which], self.usual[which]
        if level > usual:
            return regressed(ALL[which], level, usual, self.ends[which])
        return measured(ALL[which], level, "improved" if level < usual else "unchanged")


TestAnyLife = AnyLife.TestCase
TestAnyLife.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
