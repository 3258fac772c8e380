"""Among the commits of a repository."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from torchperf_ci.bench import planning
from torchperf_ci.bisect.account import Account
from torchperf_ci.bisect.line.commits import Range, brought_in, read_range
from torchperf_ci.bisect.line.line import line_of_commits
from torchperf_ci.bisect.line.origin import origin_url
from torchperf_ci.bisect.measuring.suspicions import ends_of
from torchperf_ci.bisect.setting import opener, resolve
from torchperf_ci.bisect.stage import search
from torchperf_ci.bisect.telling.conclusion import conclude, told_of
from torchperf_ci.bisect.telling.plan import show_plan
from torchperf_ci.errors import UsageError

if TYPE_CHECKING:
    from torchperf_ci.bisect.limits import Limits
    from torchperf_ci.config import Config
    from torchperf_ci.culprits.culprit import Culprit, Location
    from torchperf_ci.options import BisectOptions
    from torchperf_ci.verdicts.verdict import Judgement


class Call(NamedTuple):
    """What the user asked for, which is the same for every search that follows from it."""

    options: BisectOptions
    config: Config
    judgement: Judgement | None


def bisect_commits(call: Call, state: Path, limits: Limits) -> Location | None:
    """What the search came to; None where only the plan was asked for."""
    commits = _range(call)
    if call.options.dry_run:
        show_plan(line_of_commits(commits, call.options.paths), call.options, limits)
        return None
    return replace(bisect_range(commits, call, state, limits).location, repo=origin_url(commits.repo))


def bisect_range(commits: Range, call: Call, state: Path, limits: Limits) -> Account:
    """Search a range, and if that is wanted, what the guilty merges in it brought in."""
    account = _search(commits, call, state, limits)
    if call.options.full_history:
        for culprit in account.take_culprits():
            _name(culprit, commits, account, call, state)
    return account


def _search(commits: Range, call: Call, state: Path, limits: Limits) -> Account:
    """Along the first parents."""
    options = call.options
    opened = opener(options, planning.python_under_test(options.python))
    line = line_of_commits(commits, options.paths)
    found = search(line, opened, partial(resolve, *call), options, state, limits)
    location = conclude(found, call.config.policy)
    known, url = {commit.sha: commit for commit in commits.suspects}, origin_url(commits.repo)
    culprits = tuple(told_of(culprit, known, url) for culprit in location.culprits)
    setting = found.setting
    location = replace(location, culprits=culprits, machine=setting.machine, torch=setting.torch)
    return Account(location, limits.after(found.investigation.facts))


def _range(call: Call) -> Range:
    """Between the commits that are named, else between those of the verdicts, which may be of another repository."""
    options, judgement = call.options, call.judgement
    repo = Path(options.repo or ".")
    if options.good:
        return read_range(repo, options.good, options.bad or "")
    why = "they do not say between which commits it got worse"
    for ends in ends_of(judgement) if judgement else ():
        try:
            return read_range(repo, ends.good, ends.bad)
        except UsageError as error:
            why = str(error)
    msg = f"the verdicts in {options.verdicts} do not give a range of {repo}: {why}; name it with --good and --bad"
    raise UsageError(msg)


def _name(culprit: Culprit, commits: Range, account: Account, call: Call, state: Path) -> None:
    """Where a culprit is a merge, name those among the commits that it brought in, if it is one of them."""
    places = {commit.sha: place for place, commit in enumerate(commits.commits)}
    inside = brought_in(commits, places[culprit.commit]) if culprit.commit else None
    if inside is None:
        account.name(culprit)
    elif account.is_spent:
        account.name(
            culprit, note=f"the limits do not reach into {_merge(culprit)}: give more, and call again"
        )
    else:
        own_state = state.with_name(f"{state.name}.{culprit.commit}")
        within = bisect_range(inside, call, own_state, account.left)
        account.add_up(within)
        note = f"no commit that {_merge(culprit)} brought in is named: {within.location.why}"
        if within.location.culprits:
            account.name(*within.location.culprits)
        else:
            account.name(culprit, note=note)


def _merge(culprit: Culprit) -> str:
    return f"the merge {culprit.set[-1][:10]}"
