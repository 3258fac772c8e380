"""What is searched: builds in order, from the good one to the bad one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from torchperf_ci.bisect.line.commits import path_changes
from torchperf_ci.bisect.line.priors import weights
from torchperf_ci.bisect.line.reverts import reverts
from torchperf_ci.environments.repository import Revision

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from torchperf_ci.bisect.line.commits import Range
    from torchperf_ci.environments.nightlies import Nightly

Source = TypeVar("Source", bound="Revision | Nightly")


@dataclass(frozen=True)
class Line(Generic[Source]):
    """``states`` by position; ``names`` tell each to a program (a SHA, a version), ``words`` to a person.

    ``weights`` are those of the suspects, which are all but the first. ``reverts`` are the positions of those that take
    back another one, and of that.
    """

    states: Sequence[Source]
    names: Sequence[str]
    words: Sequence[str]
    weights: NDArray[np.float64]
    reverts: Mapping[int, int] = field(default_factory=dict)


def line_of_commits(commits: Range, paths: Sequence[str]) -> Line[Revision]:
    """The commits of a range; those that change one of ``paths`` are the more suspect."""
    states = [Revision(commits.repo, commit.sha, commit.subject) for commit in commits.commits]
    count = len(commits.suspects)
    prior = weights(path_changes(commits), paths) if paths else np.full(count, 1 / count)
    names, words = [state.sha for state in states], [str(state) for state in states]
    return Line(states, names, words, prior, reverts(commits.commits))


def line_of_nightlies(nightlies: Sequence[Nightly]) -> Line[Nightly]:
    """Dated wheels, oldest first."""
    count = len(nightlies) - 1
    names = [str(nightly) for nightly in nightlies]
    return Line(nightlies, [nightly.version for nightly in nightlies], names, np.full(count, 1 / count))
