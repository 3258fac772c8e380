"""Commits whose builds are kept somewhere as wheels.

What is made of a commit's files is in :mod:`torchperf_ci.environments.environment`.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.environments.environment import Builder, opened_wheels
from torchperf_ci.environments.installed import installed
from torchperf_ci.errors import EnvironmentUnderTestError, UsageError
from torchperf_ci.git import without_secrets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_ci.environments.environment import Environment
    from torchperf_ci.environments.repository import Revision

SHORT = 7
"""Digits of ``{short_sha}``, and at least as many in the name of a wheel."""


@dataclass(frozen=True)
class Wheels:
    """Where the wheel of a commit is.

    ``pattern`` is a directory, in which wheels bear at least 7 digits of their commits in their names, as in
    ``torch-2.14.0a0+gitabc1234-cp312-cp312-linux_x86_64.whl``; or a URL, a path or a requirement such as
    ``torch==2.14.0.dev0+git{short_sha}``, with ``{sha}`` or ``{short_sha}`` in it. Raises :class:`UsageError` for
    anything else. ``python`` is what virtual environments are made with.
    """

    pattern: str
    python: str
    seconds: float = Builder.seconds

    def __post_init__(self) -> None:
        if not (self._by_name or Path(self.pattern).is_dir()):
            given = without_secrets(self.pattern)
            msg = f"{given} is no directory of wheels, and has neither {{sha}} nor {{short_sha}} in it"
            raise UsageError(msg)

    @property
    def _by_name(self) -> bool:
        return "{sha}" in self.pattern or "{short_sha}" in self.pattern

    @contextmanager
    def opened(self, revision: Revision) -> Iterator[Environment]:
        """The environment of a commit until the block ends.

        Raises :class:`EnvironmentUnderTestError` where it has no wheel, or one that says to be another commit's.
        """
        wanted = [self._named(revision)] if self._by_name else self._lying_there(revision)
        options = () if self._by_name else ("--find-links", str(Path(self.pattern).absolute()))
        with opened_wheels(wanted, str(revision), self.python, self.seconds, options) as environment:
            _check_claims(environment.python, revision)
            yield environment

    def _named(self, revision: Revision) -> str:
        """The pattern, filled in."""
        sha = revision.sha
        found = self.pattern.replace("{sha}", sha).replace("{short_sha}", sha[:SHORT])
        if "://" in found or "==" in found:
            return found
        if not Path(found).is_file():
            msg = f"{revision} has no wheel: there is no {found}"
            raise EnvironmentUnderTestError(msg)
        return str(Path(found).absolute())

    def _lying_there(self, revision: Revision) -> list[str]:
        """By name and version, not by path: one may lie there for each of several Pythons, and pip knows its own."""
        names = {file.name for file in Path(self.pattern).glob("*.whl") if _is_of(file.name, revision.sha)}
        if not names:
            msg = f"{revision} has no wheel: none in {self.pattern} has {revision.sha[:SHORT]} in its name"
            raise EnvironmentUnderTestError(msg)
        return sorted({"==".join(name.split("-")[:2]) for name in names})


def _is_of(name: str, sha: str) -> bool:
    return any(sha.startswith(digits) for digits in re.findall(rf"[0-9a-f]{{{SHORT},40}}", name.lower()))


def _check_claims(python: str, revision: Revision) -> None:
    """A wheel with the wrong name, or one of a name that is given again and again, must not speak for a commit."""
    for name, distribution in installed(python).items():
        claim = distribution.commit
        if distribution.requested and claim and not revision.sha.startswith(claim):
            msg = f"the wheel of {revision} holds {name} {distribution.version}, which says that it is {claim[:10]}"
            raise EnvironmentUnderTestError(msg)
