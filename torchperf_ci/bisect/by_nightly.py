"""Among dated wheels, and then among the commits between the two that the culprit lies between."""

from __future__ import annotations

import datetime
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.bench import planning
from torchperf_ci.bisect.account import Account
from torchperf_ci.bisect.by_commit import bisect_range
from torchperf_ci.bisect.line.line import line_of_nightlies
from torchperf_ci.bisect.line.origin import origin_url
from torchperf_ci.bisect.nights import Nights
from torchperf_ci.bisect.setting import resolve
from torchperf_ci.bisect.stage import search
from torchperf_ci.bisect.telling.conclusion import conclude
from torchperf_ci.bisect.telling.plan import show_plan
from torchperf_ci.environments.environment import Builder
from torchperf_ci.environments.nightlies import Nightlies
from torchperf_ci.errors import EnvironmentUnderTestError, UsageError, WorkloadsFailedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.bisect.by_commit import Call
    from torchperf_ci.bisect.limits import Limits
    from torchperf_ci.culprits.culprit import Culprit, Location
    from torchperf_ci.environments.nightlies import Nightly

    Ends = tuple[Nightly, Nightly]


def bisect_nightlies(call: Call, state: Path, limits: Limits) -> Location | None:
    """What the search came to; None where only the plan was asked for."""
    options = call.options
    good, bad = (_date("good", options.good), _date("bad", options.bad))
    repo, python = Path(options.repo or "."), planning.python_under_test(options.python)
    place = Nightlies(options.wheels or "", python, seconds=options.build_timeout or Builder.seconds)
    line = line_of_nightlies(_between(place.listed(), good, bad))
    if options.dry_run:
        show_plan(line, options, limits)
        return None
    nights = Nights(place, repo)
    found = search(line, nights.opened, partial(resolve, *call), options, state, limits)
    location = replace(
        conclude(found, call.config.policy), machine=found.setting.machine, repo=origin_url(repo)
    )
    account = Account(location, limits.after(found.investigation.facts))
    for culprit in account.take_culprits():
        first, last = (line.names.index(culprit.set[end]) for end in (0, -1))
        _name(culprit, (line.states[first - 1], line.states[last]), nights, account, call, state)
    return account.location


def _date(flag: str, given: str | None) -> datetime.date:
    try:
        return datetime.date.fromisoformat(given or "")
    except ValueError:
        said = f"not {given!r}" if given else "and has to be given"
        msg = f"with --builder nightly, --{flag} is the date of a nightly, such as 2026-11-01, {said}"
        raise UsageError(msg) from None


def _between(listed: Sequence[Nightly], good: datetime.date, bad: datetime.date) -> Sequence[Nightly]:
    """The nightlies of the range, which is named by dates."""
    chosen = [nightly for nightly in listed if good <= nightly.date <= bad]
    if len(chosen) < 2 or (chosen[0].date, chosen[-1].date) != (good, bad):
        msg = (
            f"there is no nightly of both {good} and {bad}, good before bad; there are some from {listed[0].date} to "
            f"{listed[-1].date}"
        )
        raise UsageError(msg)
    return chosen


def _name(culprit: Culprit, ends: Ends, nights: Nights, account: Account, call: Call, state: Path) -> None:
    """Name the commit inside a guilty night, or where none is proven, the night itself and what else moved in it."""
    before, after = ends
    own_state = state.with_name(f"{state.name}.{after.version}")
    try:
        culprit = replace(culprit, moved=nights.moved(before, after))
        commits = nights.commits(before, after)
        if account.is_spent:
            account.name(culprit, note=f"the limits do not reach into {after}: give more, and call again")
            return
        within = bisect_range(commits, _by_commit(call), own_state, account.left)
    except (EnvironmentUnderTestError, UsageError, WorkloadsFailedError) as error:
        account.name(culprit, note=f"no commit between {before} and {after} is named: {error}")
        return
    account.add_up(within)
    if within.location.culprits:
        account.name(*(replace(one, moved=culprit.moved) for one in within.location.culprits))
    else:
        account.name(culprit, note=_why_none(culprit, ends, within.location))


def _by_commit(call: Call) -> Call:
    """The same call for the commits of a night."""
    builder = "command" if call.options.build else "worktree"
    return call._replace(options=replace(call.options, builder=builder, wheels=None))


def _why_none(culprit: Culprit, ends: Ends, within: Location) -> str:
    """Why no commit of the night is named, and whom to suspect where they make no difference by themselves."""
    which = f"the commits between {ends[0]} and {ends[1]}"
    if within.status == "inconclusive":
        return f"{which}: {within.why}"
    others = ", ".join(f"{one.name} {one.old or '–'} → {one.new or '–'}" for one in culprit.moved)
    return f"{which} make nothing slower by themselves: suspect is {others or 'how the wheel was built'}"
