"""Dated wheels, of which there is one a day."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.environments import venv
from torchperf_ci.environments.environment import Builder, opened_wheels
from torchperf_ci.environments.installed import installed
from torchperf_ci.environments.repository import find_revision
from torchperf_ci.environments.scratch import scratch
from torchperf_ci.errors import EnvironmentUnderTestError, UsageError
from torchperf_ci.git import without_secrets

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchperf_ci.environments.environment import Environment
    from torchperf_ci.environments.repository import Revision

LIST_SECONDS = 120.0
_DATED = re.compile(r"\.dev(\d{4})(\d\d)(\d\d)\b")

_RELEASE = re.compile(r"\bnightly release \(([0-9a-f]{40})\)$")


@dataclass(frozen=True)
class Nightly:
    """A dated wheel, such as ``torch==2.14.0.dev20261101+cpu``."""

    package: str
    version: str
    date: date

    def __str__(self) -> str:
        return f"{self.package}=={self.version}"


@dataclass(frozen=True)
class Nightlies:
    """Where the dated wheels of ``package`` are.

    ``source`` is a directory of wheels or the URL of an index, as ``pip --index-url`` takes it
    (https://download.pytorch.org/whl/nightly/cpu); that of the package's own page there is understood as well. Raises
    :class:`UsageError` for anything else. ``python`` is what virtual environments are made with.
    """

    source: str
    python: str
    package: str = "torch"
    seconds: float = Builder.seconds

    def __post_init__(self) -> None:
        if not (self._is_url or Path(self.source).is_dir()):
            msg = f"{self._shown} is neither a directory of nightly wheels nor the URL of an index"
            raise UsageError(msg)

    def listed(self) -> Sequence[Nightly]:
        """The dated wheels that fit ``python``, oldest first; there is at least one.

        It is pip that lists them: it knows what fits another Python than this one, and how the user reaches the index.
        Raises :class:`EnvironmentUnderTestError` where the source cannot be read or has nothing that fits, and
        :class:`UsageError` where it has several wheels a day.
        """
        options = self._options if self._is_url else ["--no-index", *self._options]
        with scratch() as folder:
            python = venv.make(self.python, folder / "env")
            versions = venv.versions(python, self.package, LIST_SECONDS, options)
        found = [Nightly(self.package, version, day) for version in versions if (day := _day(version))]
        self._check(found)
        return sorted(found, key=lambda nightly: nightly.date)

    @contextmanager
    def opened(self, nightly: Nightly) -> Iterator[Environment]:
        """The environment of one of them until the block ends; raises :class:`EnvironmentUnderTestError`."""
        wanted = str(nightly)
        with opened_wheels([wanted], wanted, self.python, self.seconds, self._options) as environment:
            yield environment

    @property
    def _is_url(self) -> bool:
        return "://" in self.source

    @property
    def _shown(self) -> str:
        return without_secrets(self.source)

    @property
    def _options(self) -> list[str]:
        if not self._is_url:
            return ["--find-links", str(Path(self.source).absolute())]
        return ["--index-url", self.source.rstrip("/").removesuffix(f"/{self.package}")]

    def _check(self, found: Sequence[Nightly]) -> None:
        if not found:
            # An index of the user's settings has others, so that pip does not mind when this one does not answer.
            msg = f"{self._shown} has no dated wheel of {self.package} that fits {self.python}, or cannot be reached"
            raise EnvironmentUnderTestError(msg)
        for day, count in Counter(nightly.date for nightly in found).items():
            if count > 1:
                versions = ", ".join(nightly.version for nightly in found if nightly.date == day)
                msg = f"there are several wheels of {day} at {self._shown} ({versions}): name a place with one a day"
                raise UsageError(msg)


def built_from(nightly: Nightly, python: str, repo: Path) -> Revision:
    """The commit of ``repo`` whose files the nightly holds that ``python`` has installed.

    PyTorch's are built from a branch of their own, each commit of which names the one that it took its files from (its
    own ``tools/nightly.py`` reads it in the same way). Raises :class:`EnvironmentUnderTestError` where it is not known.
    """
    found = installed(python).get(nightly.package)
    if not (found and found.commit):
        msg = f"{nightly} does not say which commit it was built from"
        raise EnvironmentUnderTestError(msg)
    revision = _known(nightly, found.commit, repo)
    released = _RELEASE.search(revision.subject)
    return _known(nightly, released[1], repo) if released else revision


def _known(nightly: Nightly, sha: str, repo: Path) -> Revision:
    revision, why_not = find_revision(sha, repo)
    if revision is None:
        msg = (
            f"{nightly} was built from {sha}, which {repo} does not have (git fetch origin {sha}): {why_not}"
        )
        raise EnvironmentUnderTestError(msg)
    return revision


def _day(version: str) -> date | None:
    dated = _DATED.search(version)
    try:
        return date(*map(int, dated.groups())) if dated else None
    except ValueError:  # .dev99999999
        return None
