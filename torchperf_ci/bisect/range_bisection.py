"""Bisect commits or nightly wheels, then the commits inside a guilty merge or between two nightlies."""

from __future__ import annotations

import datetime
import re
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from math import log, log1p
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from torchperf_ci.bench import selection
from torchperf_ci.bisect.bisect_progress import show_plan
from torchperf_ci.bisect.commits import (
    BuildSequence,
    LinearHistory,
    brought_in,
    read_range,
    sequence_of_commits,
    submodule_notes,
    uniform,
)
from torchperf_ci.bisect.conclusion import conclude, with_commit_details
from torchperf_ci.bisect.measurement_setup import BisectLimits, environment_opener, resolve_setup
from torchperf_ci.bisect.probes import commit_ranges
from torchperf_ci.bisect.reasoning.evidence import BisectFacts
from torchperf_ci.bisect.search import search
from torchperf_ci.console import say
from torchperf_ci.culprits.culprit import Bisection, Culprit, DependencyChange, MachineTime
from torchperf_ci.culprits.culprit_text import versions
from torchperf_ci.document import change_text, first_and_last
from torchperf_ci.environments.wheels import (
    TORCH,
    Nightlies,
    built_from,
    changed_versions,
    installed_distributions,
)
from torchperf_ci.errors import EnvironmentUnderTestError, TorchperfError, UsageError
from torchperf_ci.identity import origin_page

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torchperf_ci.config import Config
    from torchperf_ci.environments.build_environment import BuildEnvironment
    from torchperf_ci.environments.revisions import Revision
    from torchperf_ci.environments.wheels import Distribution, Nightly
    from torchperf_ci.options.comparison_commands import BisectOptions
    from torchperf_ci.stats.effect import Effect
    from torchperf_ci.verdicts.verdict import Judgement


@dataclass
class CombinedResult:
    """The result of a search and of the searches inside its culprits.

    Each search adds to ``bisection`` and subtracts from the limits that are ``left``.
    """

    bisection: Bisection
    left: BisectLimits

    @property
    def is_spent(self) -> bool:
        """Whether the limits are too small for another search, which has to build at least its two ends."""
        return bool(self.left.ended_by(BisectFacts())) or not self.left.may_build(BisectFacts(), 2)

    def take_culprits(self) -> tuple[Culprit, ...]:
        """Remove and return the culprits named so far, so that each can be searched and named again."""
        culprits = self.bisection.culprits
        self.bisection = replace(self.bisection, culprits=())
        return culprits

    def name(self, *culprits: Culprit, note: str = "") -> None:
        """Add culprits, and a note about them for the reader."""
        notes = (*self.bisection.notes, *([note] if note else []))
        self.bisection = replace(self.bisection, culprits=(*self.bisection.culprits, *culprits), notes=notes)

    def add_up(self, more: CombinedResult) -> None:
        """Add the cost and the measurements of a further search. The caller decides what to do with its culprits."""
        mine, others = self.bisection, more.bisection
        measuring = mine.seconds.measuring + others.seconds.measuring
        building = mine.seconds.building + others.seconds.building
        self.left = more.left
        self.bisection = replace(
            mine,
            runs=mine.runs + others.runs,
            builds=mine.builds + others.builds,
            seconds=MachineTime(measuring, building),
            credible=mine.credible + others.credible,
            skipped=mine.skipped + others.skipped,
            notes=tuple(dict.fromkeys(mine.notes + others.notes)),
            readings=mine.readings + others.readings,
        )


class BisectRequest(NamedTuple):
    """What the user asked for; it applies to every search of the bisection."""

    options: BisectOptions
    config: Config
    judgement: Judgement | None


def bisect_commits(request: BisectRequest, state_path: Path, limits: BisectLimits) -> Bisection | None:
    """Bisect a range of commits; return None if only the plan was to be shown (``--dry-run``)."""
    commits = _commits_asked_for(request)
    if request.options.dry_run:
        show_plan(sequence_of_commits(commits, request.options.paths), request.options, limits)
        return None
    return replace(
        bisect_range(commits, request, state_path, limits).bisection, repo=origin_page(commits.repo)
    )


def bisect_range(
    commits: LinearHistory, request: BisectRequest, state_path: Path, limits: BisectLimits
) -> CombinedResult:
    """Search a range and, with ``--full-history``, the commits that its guilty merges brought in."""
    combined = _search_commits(commits, request, state_path, limits)
    if request.options.full_history:
        for culprit in combined.take_culprits():
            _name_commit(culprit, commits, combined, request, state_path)
    return combined


def _search_commits(
    commits: LinearHistory, request: BisectRequest, state_path: Path, limits: BisectLimits
) -> CombinedResult:
    """Search the range along first parents."""
    options = request.options
    opened = environment_opener(options, selection.python_under_test(options.python))
    sequence = sequence_of_commits(commits, options.paths)
    result = search(sequence, opened, partial(resolve_setup, *request), options, state_path, limits)
    bisection = conclude(result, request.config.policy)
    known, url = {commit.sha: commit for commit in commits.suspects}, origin_page(commits.repo)
    culprits = tuple(with_commit_details(culprit, known, url) for culprit in bisection.culprits)
    setup = result.setup
    steps = [(before.sha, after.sha) for before, after in pairwise(commits.commits)]
    guilty = {sha for one in culprits for sha in one.set}
    moved = [note for step in steps if step[1] in guilty for note in submodule_notes(commits.repo, *step)]
    notes = (*bisection.notes, *moved)
    bisection = replace(bisection, culprits=culprits, machine=setup.machine, torch=setup.torch, notes=notes)
    return CombinedResult(bisection, limits.after(result.investigation.facts))


def _commits_asked_for(request: BisectRequest) -> LinearHistory:
    """The range between ``--good`` and ``--bad``, or else the range that the verdicts give.

    The ranges in verdicts may belong to another repository; the first one that this repository contains is used.
    """
    options, judgement = request.options, request.judgement
    repo = Path(options.repo)
    if options.good:
        return read_range(repo, options.good, options.bad or "")
    why = "nothing got worse in them, or they do not say between which commits"
    for ends in commit_ranges(judgement) if judgement else ():
        try:
            return read_range(repo, ends.good, ends.bad)
        except UsageError as error:
            why = str(error)
    msg = f"the verdicts in {options.verdicts} do not give a range of {repo}: {why}; name it with --good and --bad"
    raise UsageError(msg)


def _name_commit(
    culprit: Culprit,
    commits: LinearHistory,
    combined: CombinedResult,
    request: BisectRequest,
    state_path: Path,
) -> None:
    """Name the culprit or, if it is a merge, what is found inside it."""
    places = {commit.sha: place for place, commit in enumerate(commits.commits)}
    which = f"that the merge {culprit.set[-1][:10]} brought in"
    try:
        inside = brought_in(commits, places[culprit.commit]) if culprit.commit else None
    except UsageError as error:
        combined.name(culprit, note=_why_unnamed(which, error))
        return
    if inside is None:
        combined.name(culprit)
        return
    # One hash is enough, and with those of all merges around it the name would become too long.
    name = re.sub(r"\.[0-9a-f]{40,64}\Z", "", state_path.name)
    own_path = state_path.with_name(f"{name}.{culprit.commit}")
    _name_inside(culprit, inside, which, "the merge itself", combined, request, own_path)


def _name_inside(
    culprit: Culprit,
    commits: LinearHistory,
    which: str,
    otherwise: str,
    combined: CombinedResult,
    request: BisectRequest,
    state_path: Path,
) -> None:
    """Name the guilty ones of the ``commits`` inside a culprit or, if none is proven, the culprit, and why.

    ``which`` says which commits these are, and ``otherwise`` what is suspect if they and the dependencies are not.
    """
    if combined.is_spent:
        combined.name(culprit, note=f"the limits do not reach the commits {which}: give more, and call again")
        return
    say(f"searching the commits {which}")
    try:
        within = bisect_range(commits, request, state_path, combined.left)
    except TorchperfError as error:  # whatever it is, the culprit itself is proven
        combined.name(culprit, note=_why_unnamed(which, error))
        return
    combined.add_up(within)
    bisection = within.bisection
    others = ", ".join(f"{change.name} {versions(change)}" for change in culprit.moved) or otherwise
    if bisection.culprits:
        rest = _unexplained(culprit, bisection.confirmed, request.options.min_effect or 0.0)
        note = f"{rest} by the commits {which}; suspect for the rest is {others}" if rest else ""
        combined.name(*(_brought_by(culprit, suspect) for suspect in bisection.culprits), note=note)
        return
    suspect = "" if bisection.status == "inconclusive" else f"; suspect is {others}"
    combined.name(culprit, note=f"no commit {which} is named: {bisection.why}{suspect}")


def _why_unnamed(which: str, error: Exception) -> str:
    """A note with what failed, and mostly why; the log gets all of it."""
    say(*f"no commit {which} is named: {error}".splitlines())
    return f"no commit {which} is named: {first_and_last(str(error))}"


def _brought_by(culprit: Culprit, suspect: Culprit) -> Culprit:
    """A suspect inside a merge or a night, with the pull request that was merged, and what else changed that night."""
    number = suspect.pull_request or culprit.pull_request
    return replace(suspect, moved=culprit.moved, pull_request=number)


def _unexplained(culprit: Culprit, inside: Mapping[str, Effect], min_effect: float) -> str:
    """Compare the culprit's effect on a series with that of all commits ``inside`` it; empty if these explain it."""
    for series in culprit.series:
        part, whole = inside.get(series.name), series.effect
        if part and whole and _exceeds(whole, part, min_effect):
            changes = change_text(whole.ratio - 1), change_text(part.ratio - 1)
            return f"{series.name} changes by {changes[0]}, of which {changes[1]}"
    return ""


def _exceeds(whole: Effect, part: Effect, min_effect: float) -> bool:
    """Whether a part is less than the whole by what matters and by a quarter, and outside of its interval."""
    is_outside = part.ratio < whole.low if whole.ratio > 1 else part.ratio > whole.high
    least = max(log1p(min_effect), whole.size / 4)  # few pairs may confirm a part, so that it has no interval
    return is_outside and abs(log(whole.ratio / part.ratio)) >= least


@dataclass(frozen=True)
class NightlyContents:
    """The distributions installed with a nightly and the commit it was built from; ``why`` says why that is unknown."""

    distributions: Mapping[str, Distribution]
    revision: Revision | None
    why: str = ""


class InspectedNightlies:
    """The nightlies available at ``place``, built from commits of ``repo``."""

    def __init__(self, place: Nightlies, repo: Path) -> None:
        self._place, self._repo = place, repo
        self._seen: dict[Nightly, NightlyContents] = {}

    @contextmanager
    def opened(self, nightly: Nightly) -> Iterator[BuildEnvironment]:
        """Open the environment of a nightly for the block. Raises :class:`EnvironmentUnderTestError`."""
        with self._place.opened(nightly) as environment:
            if nightly not in self._seen:
                self._seen[nightly] = self._look(nightly, environment.python)
            yield environment

    def contents(self, nightly: Nightly) -> NightlyContents:
        """What the nightly contains.

        If an earlier job measured the nightly, it is not installed here yet, and is installed only to be inspected.
        """
        if nightly not in self._seen:
            with self.opened(nightly):
                pass
        return self._seen[nightly]

    def moved(self, before: Nightly, after: Nightly) -> tuple[DependencyChange, ...]:
        """The distributions, other than the nightly's own package, whose versions differ between two nightlies."""
        differing = changed_versions(self.contents(before).distributions, self.contents(after).distributions)
        return tuple(
            DependencyChange(name, old or "", new or "")
            for name, (old, new) in differing.items()
            if name != TORCH
        )

    def commits(self, before: Nightly, after: Nightly) -> LinearHistory:
        """The commits between two nightlies; raises :class:`UsageError` if they are unknown."""
        first, last = (self.contents(nightly) for nightly in (before, after))
        if not (first.revision and last.revision):
            raise UsageError(first.why or last.why)
        return read_range(self._repo, first.revision.sha, last.revision.sha)

    def _look(self, nightly: Nightly, python: str) -> NightlyContents:
        distributions = installed_distributions(python)
        try:
            return NightlyContents(distributions, built_from(nightly, distributions, self._repo))
        except EnvironmentUnderTestError as error:
            return NightlyContents(distributions, None, str(error))


def bisect_nightlies(request: BisectRequest, state_path: Path, limits: BisectLimits) -> Bisection | None:
    """Bisect nightlies, then the commits between two of them; return None if only the plan was to be shown."""
    options = request.options
    good, bad = (_date("good", options.good), _date("bad", options.bad))
    repo, python = Path(options.repo), selection.python_under_test(options.python)
    place = Nightlies(options.wheels or "", python, seconds=options.build_timeout)
    nightlies = _nightlies_between(place.listed(), good, bad)
    sequence = BuildSequence(nightlies, uniform(len(nightlies) - 1))
    if options.dry_run:
        show_plan(sequence, options, limits)
        return None
    nights = InspectedNightlies(place, repo)
    result = search(sequence, nights.opened, partial(resolve_setup, *request), options, state_path, limits)
    bisection = replace(
        conclude(result, request.config.policy), machine=result.setup.machine, repo=origin_page(repo)
    )
    combined = CombinedResult(bisection, limits.after(result.investigation.facts))
    for culprit in combined.take_culprits():
        first, last = (sequence.ids.index(culprit.set[end]) for end in (0, -1))
        before, after = nightlies[first - 1], nightlies[last]
        _name_nightly(culprit, before, after, nights, combined, request, state_path)
    return combined.bisection


def _date(flag: str, value: str | None) -> datetime.date:
    try:
        return datetime.date.fromisoformat(value or "")
    except ValueError:
        problem = f"not {value!r}" if value else "and has to be given"
        msg = f"with --builder nightly, --{flag} is the date of a nightly, such as 2026-11-01, {problem}"
        raise UsageError(msg) from None


MAX_NEAREST = 4
"""Most dates that are proposed instead of one without a nightly."""


def _nightlies_between(
    listed: Sequence[Nightly], good: datetime.date, bad: datetime.date
) -> Sequence[Nightly]:
    """The nightlies from ``good`` to ``bad``, one a day.

    Raises :class:`UsageError` if there is none for one of the two dates, or several of a day.
    """
    if good >= bad:
        raise UsageError(f"--good {good} is not before --bad {bad}")
    days = [nightly.date for nightly in listed]
    for day in (good, bad):
        if day not in days:
            nearest = sorted(sorted({*days}, key=lambda other: abs(other - day))[:MAX_NEAREST])
            msg = f"there is no nightly of {day}; the nearest ones are of {', '.join(map(str, nearest))}"
            raise UsageError(msg)
    chosen = [nightly for nightly in listed if good <= nightly.date <= bad]
    for nightly, other in pairwise(chosen):
        if nightly.date == other.date:
            msg = (
                f"there are several nightlies of {nightly.date}, such as {nightly.version} and {other.version}: "
                "give --wheels a place that has one a day"
            )
            raise UsageError(msg)
    return chosen


def _name_nightly(
    culprit: Culprit,
    before: Nightly,
    after: Nightly,
    nights: InspectedNightlies,
    combined: CombinedResult,
    request: BisectRequest,
    state_path: Path,
) -> None:
    """Name the commit inside a guilty nightly, or, if none is proven, the nightly and the dependencies that changed."""
    which = f"between {before} and {after}"
    try:
        culprit = replace(culprit, moved=nights.moved(before, after))
        commits = nights.commits(before, after)
    except (EnvironmentUnderTestError, UsageError) as error:
        combined.name(culprit, note=_why_unnamed(which, error))
        return
    own_path = state_path.with_name(f"{state_path.name}.{before.version}-{after.version}")
    builder = "command" if request.options.build else "worktree"
    inner = request._replace(options=replace(request.options, builder=builder, wheels=None))
    _name_inside(culprit, commits, which, "how the wheel was built", combined, inner, own_path)
