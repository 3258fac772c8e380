"""Among the commits of a repository."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchperf_ci.bench import planning
from torchperf_ci.bisect.commits import Range, brought_in, read_range
from torchperf_ci.bisect.conclusion import conclude, told_of
from torchperf_ci.bisect.line import line_of_commits
from torchperf_ci.bisect.origin import origin_url
from torchperf_ci.bisect.plan import show_plan
from torchperf_ci.bisect.setting import opener, resolve
from torchperf_ci.bisect.stage import Found, search
from torchperf_ci.bisect.suspicions import ends_of
from torchperf_ci.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchperf_ci.bisect.limits import Limits
    from torchperf_ci.config import Config
    from torchperf_ci.culprits.culprit import Culprit, Location
    from torchperf_ci.verdicts.verdict import Judgement


def bisect_commits(
    options: Mapping[str, Any], config: Config, judgement: Judgement | None, state: Path, limits: Limits
) -> Location | None:
    """What the search came to; None where only the plan was asked for."""
    commits = _range(options, judgement)
    if options["dry_run"]:
        show_plan(line_of_commits(commits, ()), options, limits)
        return None
    location, found = _search(commits, options, config, judgement, state, limits)
    if options["full_history"]:
        rest = limits.after(found.investigation.facts)
        location = _into_merges(location, commits, options, config, judgement, state, rest)
    return replace(location, repo=origin_url(commits.repo))


def bisect_range(
    commits: Range, options: Mapping[str, Any], config: Config, state: Path, limits: Limits
) -> Location:
    """The same for a range that another search has found."""
    return _search(commits, options, config, None, state, limits)[0]


def _search(
    commits: Range,
    options: Mapping[str, Any],
    config: Config,
    judgement: Judgement | None,
    state: Path,
    limits: Limits,
) -> tuple[Location, Found]:
    opened = opener(options, planning.python_under_test(options["python"]))
    line = line_of_commits(commits, options["paths"] or ())
    found = search(line, opened, partial(resolve, options, config, judgement), options, state, limits)
    location = conclude(found, config.policy)
    known, url = {commit.sha: commit for commit in commits.suspects}, origin_url(commits.repo)
    culprits = tuple(told_of(culprit, known, url) for culprit in location.culprits)
    machine = found.setting.device.identity()
    return replace(location, culprits=culprits, machine=f"{machine.type} ({machine.name})"), found


def _range(options: Mapping[str, Any], judgement: Judgement | None) -> Range:
    """Between the commits that are named, else between those of the verdicts, which may be of another repository."""
    repo = Path(options["repo"] or ".")
    if options["good"]:
        return read_range(repo, options["good"], options["bad"])
    why = "they do not say between which commits it got worse"
    for ends in ends_of(judgement) if judgement else ():
        try:
            return read_range(repo, ends.good, ends.bad)
        except UsageError as error:
            why = str(error)
    msg = f"the verdicts in {options['verdicts']} do not give a range of {repo}: {why}; name it with --good and --bad"
    raise UsageError(msg)


def _into_merges(
    location: Location,
    commits: Range,
    options: Mapping[str, Any],
    config: Config,
    judgement: Judgement | None,
    state: Path,
    limits: Limits,
) -> Location:
    """Where a culprit is a merge, look among the commits that it brought in; if it is none of them, it stays."""
    places = {commit.sha: place for place, commit in enumerate(commits.commits)}
    culprits: list[Culprit] = []
    for culprit in location.culprits:
        inside = brought_in(commits, places[culprit.commit]) if culprit.commit else None
        if inside is None:
            culprits.append(culprit)
            continue
        own_state = state.with_name(f"{state.name}.{culprit.commit}")
        within, found = _search(inside, options, config, judgement, own_state, limits)
        limits = limits.after(found.investigation.facts)
        culprits += within.culprits or [culprit]
        location = and_what_it_took(location, within)
    return replace(location, culprits=tuple(culprits))


def and_what_it_took(location: Location, more: Location) -> Location:
    """A search and one that followed on it, added up."""
    return replace(
        location,
        runs=location.runs + more.runs,
        builds=location.builds + more.builds,
        seconds=replace(
            location.seconds,
            measuring=location.seconds.measuring + more.seconds.measuring,
            building=location.seconds.building + more.seconds.building,
        ),
        skipped=location.skipped + more.skipped,
        notes=(*location.notes, *more.notes),
        readings=location.readings + more.readings,
    )
