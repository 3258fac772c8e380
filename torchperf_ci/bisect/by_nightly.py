"""Among dated wheels, and then among the commits between the two that the culprit lies between."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchperf_ci.bench import planning
from torchperf_ci.bisect.by_commit import and_what_it_took, bisect_range
from torchperf_ci.bisect.commits import read_range
from torchperf_ci.bisect.conclusion import conclude
from torchperf_ci.bisect.line import line_of_nightlies
from torchperf_ci.bisect.origin import origin_url
from torchperf_ci.bisect.plan import show_plan
from torchperf_ci.bisect.setting import resolve
from torchperf_ci.bisect.stage import search
from torchperf_ci.culprits.culprit import Moved
from torchperf_ci.environments.environment import Builder
from torchperf_ci.environments.installed import installed, moved
from torchperf_ci.environments.nightlies import Nightlies, built_from
from torchperf_ci.errors import EnvironmentUnderTestError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchperf_ci.bisect.limits import Limits
    from torchperf_ci.config import Config
    from torchperf_ci.culprits.culprit import Culprit, Location
    from torchperf_ci.environments.nightlies import Nightly
    from torchperf_ci.environments.repository import Revision
    from torchperf_ci.verdicts.verdict import Judgement


@dataclass(frozen=True)
class Night:
    """Two nightlies next to each other: the commits that they were built from, and what else differs."""

    before: Revision
    after: Revision
    moved: tuple[Moved, ...]


def bisect_nightlies(
    options: Mapping[str, Any], config: Config, judgement: Judgement | None, state: Path, limits: Limits
) -> Location | None:
    """What the search came to; None where only the plan was asked for."""
    python = planning.python_under_test(options["python"])
    place = Nightlies(options["wheels"], python, seconds=options["build_timeout"] or Builder.seconds)
    line = line_of_nightlies(_between(place.listed(), options))
    if options["dry_run"]:
        show_plan(line, options, limits)
        return None
    found = search(line, place.opened, partial(resolve, options, config, judgement), options, state, limits)
    location = conclude(found, config.policy)
    machine = found.setting.device.identity()
    location = replace(location, machine=f"{machine.type} ({machine.name})", culprits=())
    rest = limits.after(found.investigation.facts)
    by_version = {nightly.version: nightly for nightly in line.states}
    for culprit in conclude(found, config.policy).culprits:
        first = line.names.index(culprit.set[0]) - 1
        ends = line.states[first], by_version[culprit.set[-1]]
        location = _inside(location, culprit, ends, place, options, config, state, rest)
    return replace(location, repo=origin_url(Path(options["repo"] or ".")))


def _between(listed: Sequence[Nightly], options: Mapping[str, Any]) -> Sequence[Nightly]:
    """The nightlies of the range, which is named by dates."""
    good, bad = (_date(flag, options[flag]) for flag in ("good", "bad"))
    chosen = [nightly for nightly in listed if good <= nightly.date <= bad]
    if len(chosen) < 2 or (chosen[0].date, chosen[-1].date) != (good, bad):
        known = f"from {listed[0].date} to {listed[-1].date}" if listed else "at all"
        msg = f"there is no nightly of both {good} and {bad}, good before bad; there are some {known}"
        raise UsageError(msg)
    return chosen


def _date(flag: str, given: str | None) -> datetime.date:
    try:
        return datetime.date.fromisoformat(given or "")
    except ValueError:
        msg = f"--{flag} must be the date of a nightly, such as 2026-11-01, not {given!r}"
        raise UsageError(msg) from None


def _inside(
    location: Location,
    culprit: Culprit,
    ends: tuple[Nightly, Nightly],
    place: Nightlies,
    options: Mapping[str, Any],
    config: Config,
    state: Path,
    limits: Limits,
) -> Location:
    """Add what the guilty night turns out to be: one of its commits, or as much as can be said."""
    try:
        night = _night(ends, place, Path(options["repo"] or "."))
        commits = read_range(night.before.repo, night.before.sha, night.after.sha)
    except (EnvironmentUnderTestError, UsageError) as error:
        note = f"the commits of {ends[1]} are not known: {error}"
        return replace(location, culprits=(*location.culprits, culprit), notes=(*location.notes, note))
    known = replace(
        culprit,
        commit=None if len(commits.suspects) > 1 else night.after.sha,
        set=tuple(commit.sha for commit in commits.suspects),
        moved=night.moved,
    )
    own = {**options, "builder": "command" if options["build"] else "worktree", "wheels": None}
    own_state = state.with_name(f"{state.name}.{ends[1].version}")
    within = bisect_range(commits, own, config, own_state, limits)
    location = and_what_it_took(location, within)
    if within.culprits:
        found = tuple(replace(one, moved=night.moved) for one in within.culprits)
        return replace(location, culprits=(*location.culprits, *found))
    return replace(
        location,
        culprits=(*location.culprits, known),
        notes=(*location.notes, _unexplained(ends, within, night)),
    )


def _night(ends: tuple[Nightly, Nightly], place: Nightlies, repo: Path) -> Night:
    with place.opened(ends[0]) as before, place.opened(ends[1]) as after:
        first, last = built_from(ends[0], before.python, repo), built_from(ends[1], after.python, repo)
        differing = moved(installed(before.python), installed(after.python))
    named = tuple(
        Moved(name, old or "", new or "") for name, (old, new) in differing.items() if name != ends[0].package
    )
    return Night(first, last, named)


def _unexplained(ends: tuple[Nightly, Nightly], within: Location, night: Night) -> str:
    """Why no commit of the night is named."""
    if within.status == "not-reproduced":
        others = ", ".join(f"{one.name} {one.old} → {one.new}" for one in night.moved) or "how it was built"
        return f"none of the commits between {ends[0]} and {ends[1]} made it slower by itself: suspect is {others}"
    return f"the commits between {ends[0]} and {ends[1]}: {within.why}"
