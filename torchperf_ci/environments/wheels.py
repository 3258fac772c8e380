"""Wheels of commits and nightly wheels: where to find them, how to install them, and which commits they come from.

Environments of revisions are in :mod:`torchperf_ci.environments.build_environment`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from torchperf_ci.actions import without_rights
from torchperf_ci.environments import build_environment
from torchperf_ci.environments.build_environment import BuildEnvironment, Builder, open_wheels
from torchperf_ci.environments.revisions import Revision, find_revision
from torchperf_ci.errors import EnvironmentUnderTestError, UsageError, failing_as
from torchperf_ci.masking import without_secrets
from torchperf_ci.scratch import scratch_folder

PYTHON = "python"
LOOK_SECONDS = 60.0
_LISTING = Path(__file__).with_name("list_installed.py")


@dataclass(frozen=True)
class Distribution:
    """An installed distribution. ``requested`` is whether pip was asked for it by name, and not as a dependency.

    ``commit`` is the one it says it was built from: ``git_version`` in the ``version.py`` of its package, as in
    PyTorch and its libraries; empty if it does not say.
    """

    version: str
    commit: str
    requested: bool


def installed_distributions(python: str, *names: str) -> Mapping[str, Distribution]:
    """The distributions installed in ``python``, or those of these names, by normalised name; none is imported.

    The name :data:`PYTHON` stands for the interpreter, whose version has two parts. Raises
    :class:`EnvironmentUnderTestError`.
    """
    try:
        done = subprocess.run(
            [python, "-I", str(_LISTING), *names],
            env=without_rights(os.environ),  # installed packages may run code when Python starts
            capture_output=True,
            timeout=LOOK_SECONDS,
            check=True,
        )
        return {name: Distribution(**facts) for name, facts in json.loads(done.stdout).items()}
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise EnvironmentUnderTestError(f"{python} cannot tell what is installed there: {error}") from error


def changed_versions(
    old: Mapping[str, Distribution], new: Mapping[str, Distribution]
) -> Mapping[str, tuple[str | None, str | None]]:
    """The distributions whose versions differ, with both versions; None if it is not installed."""
    versions = {
        name: tuple(side[name].version if name in side else None for side in (old, new))
        for name in sorted({*old, *new})
    }
    return {name: (before, after) for name, (before, after) in versions.items() if before != after}


SHORT_SHA = 7
"""Digits of ``{short_sha}``, and the fewest that identify a commit in the name of a wheel."""


@dataclass(frozen=True)
class CommitWheels:
    """Where to find the wheels of commits.

    ``pattern`` is a directory whose wheels have at least 7 digits of their commit in their names, as in
    ``torch-2.14.0a0+gitabc1234-cp312-cp312-linux_x86_64.whl``; or a URL, a path or a requirement such as
    ``torch==2.14.0.dev0+git{short_sha}`` that contains ``{sha}`` or ``{short_sha}``. Raises :class:`UsageError` for
    anything else. Virtual environments are made with ``python``.
    """

    pattern: str
    python: str
    seconds: float = Builder.seconds

    def __post_init__(self) -> None:
        if not (self._by_name or Path(self.pattern).is_dir()):
            given = without_secrets(self.pattern)
            msg = f"{given} is not a directory of wheels, and has neither {{sha}} nor {{short_sha}} in it"
            raise UsageError(msg)

    @property
    def _by_name(self) -> bool:
        return "{sha}" in self.pattern or "{short_sha}" in self.pattern

    @contextmanager
    def opened(self, revision: Revision) -> Iterator[BuildEnvironment]:
        """Open the environment of a commit for the block.

        Raises :class:`EnvironmentUnderTestError` if it has no wheel, or if the wheel says it was built from another
        commit.
        """
        with scratch_folder() as shelf:
            wanted = [self._named(revision)] if self._by_name else self._lying_there(revision, shelf)
            options = () if self._by_name else ("--find-links", str(shelf))
            with open_wheels(wanted, str(revision), self.python, self.seconds, options) as environment:
                _check_claims(environment.python, revision)
                yield environment

    def _named(self, revision: Revision) -> str:
        """The pattern with the commit filled in."""
        sha = revision.sha
        path = self.pattern.replace("{sha}", sha).replace("{short_sha}", sha[:SHORT_SHA])
        if "://" in path or "==" in path:
            return path
        if not Path(path).is_file():
            raise EnvironmentUnderTestError(f"{revision} has no wheel: there is no {path}")
        return str(Path(path).absolute())

    def _lying_there(self, revision: Revision, shelf: Path) -> list[str]:
        """Requirements for the commit's wheels in the directory; pip chooses the one that fits its Python.

        The folder ``shelf`` gets links to what pip may install: wheels of other commits may have the same version.
        """
        digits = re.compile(rf"[0-9a-f]{{{SHORT_SHA},40}}")
        wheels = {file: "==".join(file.name.split("-")[:2]) for file in Path(self.pattern).glob("*.whl")}
        own = {
            file: release
            for file, release in wheels.items()
            if any(map(revision.sha.startswith, digits.findall(file.name.lower())))
        }
        if not own:
            msg = (
                f"{revision} has no wheel: none in {self.pattern} has {revision.sha[:SHORT_SHA]} in its name"
            )
            raise EnvironmentUnderTestError(msg)
        for file, release in wheels.items():
            if file in own or release not in own.values():
                (shelf / file.name).symlink_to(file.absolute())
        return sorted({*own.values()})


def _check_claims(python: str, revision: Revision) -> None:
    """Raise :class:`EnvironmentUnderTestError` if the wheel says that it was built from another commit.

    Its file may have the wrong name, or a name that is used again and again.
    """
    for name, distribution in installed_distributions(python).items():
        claim = distribution.commit
        if distribution.requested and claim and not revision.sha.startswith(claim):
            msg = f"the wheel of {revision} holds {name} {distribution.version}, which says that it is {claim[:10]}"
            raise EnvironmentUnderTestError(msg)


TORCH = "torch"
LIST_SECONDS = 120.0
_DATED = re.compile(r"\.dev(\d{4})(\d\d)(\d\d)\b")

_RELEASE = re.compile(r"\bnightly release \(([0-9a-f]{40})\)$")


@dataclass(frozen=True)
class Nightly:
    """A nightly wheel of PyTorch, such as ``torch==2.14.0.dev20261101+cpu``."""

    version: str
    date: date

    def __str__(self) -> str:
        return f"{TORCH}=={self.version}"


@dataclass(frozen=True)
class Nightlies:
    """Where to find the nightly wheels of PyTorch.

    ``source`` is a directory of wheels or the URL of an index as ``pip --index-url`` takes it
    (https://download.pytorch.org/whl/nightly/cpu); the URL of the package's own page there also works. Raises
    :class:`UsageError` for anything else. Virtual environments are made with ``python``.
    """

    source: str
    python: str
    seconds: float = Builder.seconds

    def __post_init__(self) -> None:
        if not (self._is_url or Path(self.source).is_dir()):
            msg = f"{without_secrets(self.source)} is neither a directory of nightly wheels nor the URL of an index"
            raise UsageError(msg)

    def listed(self) -> Sequence[Nightly]:
        """The nightlies that fit ``python``, oldest first; at least one.

        pip lists them, because it knows what fits that Python and how the user reaches the index. Raises
        :class:`EnvironmentUnderTestError` if the source cannot be read or has none that fit.
        """
        options = self._options if self._is_url else ["--no-index", *self._options]
        with scratch_folder() as folder:
            python = build_environment.make_venv(self.python, folder / "env")
            kind = EnvironmentUnderTestError
            with failing_as(kind, f"{self._has_none}: ", of=kind):
                versions = build_environment.pip_versions(python, TORCH, LIST_SECONDS, options)
        nightlies = [Nightly(version, day) for version in versions if (day := _date_of(version))]
        if not nightlies:
            # pip also finds versions in the user's other indexes, so it reports no error if this one is unreachable.
            raise EnvironmentUnderTestError(self._has_none)
        return sorted(nightlies, key=lambda nightly: nightly.date)

    def opened(self, nightly: Nightly) -> AbstractContextManager[BuildEnvironment]:
        """Open the environment of a nightly for the block; raises :class:`EnvironmentUnderTestError`."""
        wanted = str(nightly)
        return open_wheels([wanted], wanted, self.python, self.seconds, self._options)

    @property
    def _is_url(self) -> bool:
        return "://" in self.source

    @property
    def _has_none(self) -> str:
        source = without_secrets(self.source)
        return f"{source} has no dated wheel of {TORCH} that fits {self.python}, or cannot be reached"

    @property
    def _options(self) -> list[str]:
        if not self._is_url:
            return ["--find-links", str(Path(self.source).absolute())]
        return [f"--index-url={self.source.rstrip('/').removesuffix(f'/{TORCH}')}"]


def built_from(nightly: Nightly, installed: Mapping[str, Distribution], repo: Path) -> Revision:
    """The commit of ``repo`` that the nightly, which is among the ``installed`` distributions, was built from.

    PyTorch builds nightlies from a separate branch, each of whose commits names the commit that its files come from
    (PyTorch's ``tools/nightly.py`` reads it in the same way). Raises :class:`EnvironmentUnderTestError` if it is
    unknown.
    """
    torch = installed.get(TORCH)
    if not (torch and torch.commit):
        raise EnvironmentUnderTestError(f"{nightly} does not say which commit it was built from")
    revision = _revision_of(nightly, torch.commit, repo)
    released = _RELEASE.search(revision.subject)
    return _revision_of(nightly, released[1], repo) if released else revision


def _revision_of(nightly: Nightly, sha: str, repo: Path) -> Revision:
    revision, why_not = find_revision(sha, repo)
    if revision is None:
        msg = (
            f"{nightly} was built from {sha}, which {repo} does not have (git fetch origin {sha}, or name a checkout "
            f"that has it with --repo): {why_not}"
        )
        raise EnvironmentUnderTestError(msg)
    return revision


def _date_of(version: str) -> date | None:
    dated = _DATED.search(version)
    try:
        return date(*map(int, dated.groups())) if dated else None
    except ValueError:  # .dev99999999
        return None
