"""What is in dated wheels, looked at while they are installed to be measured, so that they are not installed again."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchperf_ci.bisect.line.commits import read_range
from torchperf_ci.culprits.culprit import Moved
from torchperf_ci.environments.installed import installed, moved
from torchperf_ci.environments.nightlies import built_from
from torchperf_ci.errors import EnvironmentUnderTestError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from torchperf_ci.bisect.line.commits import Range
    from torchperf_ci.environments.environment import Environment
    from torchperf_ci.environments.installed import Distribution
    from torchperf_ci.environments.nightlies import Nightlies, Nightly
    from torchperf_ci.environments.repository import Revision


@dataclass(frozen=True)
class Contents:
    """The distributions of a nightly's environment, and the commit that it was built from, or why that is not known."""

    distributions: Mapping[str, Distribution]
    revision: Revision | None
    why: str = ""


class Nights:
    """The nightlies of ``place``, built from commits of ``repo``."""

    def __init__(self, place: Nightlies, repo: Path) -> None:
        self._place, self._repo = place, repo
        self._seen: dict[Nightly, Contents] = {}

    @contextmanager
    def opened(self, nightly: Nightly) -> Iterator[Environment]:
        """Its environment until the block ends; raises :class:`EnvironmentUnderTestError`."""
        with self._place.opened(nightly) as environment:
            if nightly not in self._seen:
                self._seen[nightly] = self._look(nightly, environment.python)
            yield environment

    def contents(self, nightly: Nightly) -> Contents:
        """What is in it; an earlier job may have measured it, and only then it is installed for this alone."""
        if nightly not in self._seen:
            with self.opened(nightly):
                pass
        return self._seen[nightly]

    def moved(self, before: Nightly, after: Nightly) -> tuple[Moved, ...]:
        """The distributions that changed between the two, beside the package itself."""
        differing = moved(self.contents(before).distributions, self.contents(after).distributions)
        return tuple(
            Moved(name, old or "", new or "")
            for name, (old, new) in differing.items()
            if name != after.package
        )

    def commits(self, before: Nightly, after: Nightly) -> Range:
        """The commits from the one to the other; raises :class:`UsageError` where that is not known."""
        first, last = (self._revision(nightly) for nightly in (before, after))
        if first == last:
            msg = f"both were built from {first}, so the code is the same"
            raise UsageError(msg)
        return read_range(self._repo, first.sha, last.sha)

    def _revision(self, nightly: Nightly) -> Revision:
        contents = self.contents(nightly)
        if contents.revision is None:
            raise UsageError(contents.why)
        return contents.revision

    def _look(self, nightly: Nightly, python: str) -> Contents:
        try:
            return Contents(installed(python), built_from(nightly, python, self._repo))
        except EnvironmentUnderTestError as error:
            return Contents(installed(python), None, str(error))
