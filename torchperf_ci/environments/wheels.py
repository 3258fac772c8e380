"""Wheels of commits and dated wheels: where they are, how they are installed, and which commits they were built from.

What is made of a commit's files is in :mod:`torchperf_ci.environments.build_environment`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.actions import without_rights
from torchperf_ci.environments import build_environment
from torchperf_ci.environments.build_environment import Builder, open_wheels
from torchperf_ci.environments.revisions import find_revision, scratch_folder
from torchperf_ci.errors import EnvironmentUnderTestError, UsageError
from torchperf_ci.git import without_secrets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torchperf_ci.environments.build_environment import BuildEnvironment
    from torchperf_ci.environments.revisions import Revision


LOOK_SECONDS = 60.0
_LISTING = Path(__file__).with_name("list_installed.py")


@dataclass(frozen=True)
class Distribution:
    """An installed distribution. ``requested`` is whether pip was told its name, or came upon it as a dependency.

    ``commit`` is the one that it says it was built from: ``git_version`` in the ``version.py`` of its package, as
    PyTorch and its libraries have it; empty where it does not say.
    """

    version: str
    commit: str
    requested: bool


def installed_distributions(python: str) -> Mapping[str, Distribution]:
    """The distributions that ``python`` has, by their normalised names; nothing of theirs is imported.

    Raises :class:`EnvironmentUnderTestError`.
    """
    try:
        done = subprocess.run(
            [python, "-I", str(_LISTING)],
            env=without_rights(os.environ),  # what is installed there may run when a Python starts
            capture_output=True,
            timeout=LOOK_SECONDS,
            check=True,
        )
        return {name: Distribution(**facts) for name, facts in json.loads(done.stdout).items()}
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        msg = f"{python} cannot tell what is installed there: {error}"
        raise EnvironmentUnderTestError(msg) from error


def changed_versions(
    old: Mapping[str, Distribution], new: Mapping[str, Distribution]
) -> Mapping[str, tuple[str | None, str | None]]:
    """The distributions whose version differs, with both versions; None is for one that is not there."""
    versions = {
        name: tuple(side[name].version if name in side else None for side in (old, new))
        for name in sorted({*old, *new})
    }
    return {name: (before, after) for name, (before, after) in versions.items() if before != after}


SHORT_SHA = 7
"""Digits of ``{short_sha}``, and at least as many in the name of a wheel."""


@dataclass(frozen=True)
class CommitWheels:
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
    def opened(self, revision: Revision) -> Iterator[BuildEnvironment]:
        """The environment of a commit until the block ends.

        Raises :class:`EnvironmentUnderTestError` where it has no wheel, or one that says to be another commit's.
        """
        wanted = [self._named(revision)] if self._by_name else self._lying_there(revision)
        options = () if self._by_name else ("--find-links", str(Path(self.pattern).absolute()))
        with open_wheels(wanted, str(revision), self.python, self.seconds, options) as environment:
            _check_claims(environment.python, revision)
            yield environment

    def _named(self, revision: Revision) -> str:
        """The pattern, filled in."""
        sha = revision.sha
        found = self.pattern.replace("{sha}", sha).replace("{short_sha}", sha[:SHORT_SHA])
        if "://" in found or "==" in found:
            return found
        if not Path(found).is_file():
            msg = f"{revision} has no wheel: there is no {found}"
            raise EnvironmentUnderTestError(msg)
        return str(Path(found).absolute())

    def _lying_there(self, revision: Revision) -> list[str]:
        """By name and version, not by path: one may lie there for each of several Pythons, and pip knows its own."""
        names = {
            file.name for file in Path(self.pattern).glob("*.whl") if _is_wheel_of(file.name, revision.sha)
        }
        if not names:
            msg = (
                f"{revision} has no wheel: none in {self.pattern} has {revision.sha[:SHORT_SHA]} in its name"
            )
            raise EnvironmentUnderTestError(msg)
        return sorted({"==".join(name.split("-")[:2]) for name in names})


def _is_wheel_of(name: str, sha: str) -> bool:
    return any(sha.startswith(digits) for digits in re.findall(rf"[0-9a-f]{{{SHORT_SHA},40}}", name.lower()))


def _check_claims(python: str, revision: Revision) -> None:
    """A wheel with the wrong name, or one of a name that is given again and again, must not speak for a commit."""
    for name, distribution in installed_distributions(python).items():
        claim = distribution.commit
        if distribution.requested and claim and not revision.sha.startswith(claim):
            msg = f"the wheel of {revision} holds {name} {distribution.version}, which says that it is {claim[:10]}"
            raise EnvironmentUnderTestError(msg)


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
        with scratch_folder() as folder:
            python = build_environment.make_venv(self.python, folder / "env")
            versions = build_environment.pip_versions(python, self.package, LIST_SECONDS, options)
        found = [Nightly(self.package, version, day) for version in versions if (day := _date_of(version))]
        self._check(found)
        return sorted(found, key=lambda nightly: nightly.date)

    @contextmanager
    def opened(self, nightly: Nightly) -> Iterator[BuildEnvironment]:
        """The environment of one of them until the block ends; raises :class:`EnvironmentUnderTestError`."""
        wanted = str(nightly)
        with open_wheels([wanted], wanted, self.python, self.seconds, self._options) as environment:
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
    found = installed_distributions(python).get(nightly.package)
    if not (found and found.commit):
        msg = f"{nightly} does not say which commit it was built from"
        raise EnvironmentUnderTestError(msg)
    revision = _revision_of(nightly, found.commit, repo)
    released = _RELEASE.search(revision.subject)
    return _revision_of(nightly, released[1], repo) if released else revision


def _revision_of(nightly: Nightly, sha: str, repo: Path) -> Revision:
    revision, why_not = find_revision(sha, repo)
    if revision is None:
        msg = (
            f"{nightly} was built from {sha}, which {repo} does not have (git fetch origin {sha}): {why_not}"
        )
        raise EnvironmentUnderTestError(msg)
    return revision


def _date_of(version: str) -> date | None:
    dated = _DATED.search(version)
    try:
        return date(*map(int, dated.groups())) if dated else None
    except ValueError:  # .dev99999999
        return None
