"""How new records are called in the past: fresh ones need not say of which repository they are, or on what hardware."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from torchperf_ci.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from torchperf_ci.series.series import Group, Point, Points, Series


def names(groups: Iterable[Group], known: Collection[Group], repo: str = "") -> dict[Group, Group]:
    """The group of the past for each new one.

    What a group does not say is taken from the past where that knows only one answer; the repository first from
    ``repo``. Raises :class:`UsageError` where there are several repositories to choose from.
    """
    return {group: _on_its_hardware(_in_its_repository(group, known, repo), known) for group in groups}


def renamed(points: Points, called: Mapping[Group, Group]) -> Points:
    """The points under the names of the past."""
    found: dict[Series, list[Point]] = defaultdict(list)
    for series, row in points.items():
        found[replace(series, **called[series.group]._asdict())].extend(row)
    return found


def _in_its_repository(group: Group, known: Iterable[Group], repo: str) -> Group:
    if group.repo:
        return group
    found = sorted({one.repo for one in known if one.benchmark == group.benchmark and one.repo})
    if repo or len(found) <= 1:
        return group._replace(repo=repo or "".join(found))
    msg = (
        f"the records of benchmark {group.benchmark!r} do not say what repository was measured, and the past has "
        f"{' and '.join(found)}: say which with --repo-name"
    )
    raise UsageError(msg)


def _on_its_hardware(group: Group, known: Iterable[Group]) -> Group:
    """A group without an architecture is one whose records describe no machine; its device is then a default."""
    if group.arch:
        return group
    found = [one for one in known if (one.repo, one.benchmark) == (group.repo, group.benchmark)]
    return found[0] if len(found) == 1 else group
