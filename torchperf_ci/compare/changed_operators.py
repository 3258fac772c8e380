"""What a change of PyTorch's own tree touches: the cases that run the operators whose sources it changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchperf_ci.bench.files_read import files_read
from torchperf_ci.compare.pytorch_sources import UnknownEffectError, is_native, is_unbuilt, sources_at
from torchperf_ci.compare.touched_operators import touched_operators

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from torchperf_ci.bench.case import Case, Settings
    from torchperf_ci.environments.revisions import Revision
    from torchperf_ci.git import Git

_TESTS = ("test/", "torch/testing/_internal/")
"""Folders whose Python a build leaves as it is, or does not look at."""
MOST_NAMED = 5


@dataclass(frozen=True)
class ChangedOperators:
    """Operators whose sources change, and paths of Python and text, which a build may put anywhere."""

    operators: frozenset[str]
    python: Collection[str] = ()

    @property
    def why_not(self) -> str:
        """The reason why a case is not affected."""
        if not self.operators:
            return "nothing changes that this build is made of"
        names = ", ".join(sorted(self.operators)[:MOST_NAMED])
        more = f" and {len(self.operators) - MOST_NAMED} more" if len(self.operators) > MOST_NAMED else ""
        return f"at base it runs none of the operators whose sources change: {names}{more}"

    def by(self, case: Case, settings: Settings, scratch: Path) -> str:
        """Why the case may be touched; raises :class:`WorkerFailure`."""
        if case.compiled:
            return "compiled code may call kernels without operators"
        if not case.batch_size:
            return "which batch size it gets is not known"
        found = files_read(case, settings, scratch, operators=True)
        if found.unknown:
            return found.unknown[0]
        if ran := sorted(found.operators & self.operators):
            return f"runs {ran[0]}"
        return next((f"reads {path}" for path in sorted(self.python) if _reads(found.paths, path)), "")


def _reads(paths: Collection[str], changed: str) -> bool:
    return any(f"/{path}".endswith(f"/{changed}") for path in paths)


def changed_operators(
    git: Git, base: Revision, head: Revision, changed: Sequence[str], unbuilt: Collection[str]
) -> ChangedOperators:
    """Of files whose content changes; raises :class:`UnknownEffectError` and :class:`GitError`."""
    python = [path for path in changed if _is_followed(path)]
    kernels = [path for path in changed if is_native(path) and not is_unbuilt(path, unbuilt)]
    others = [path for path in changed if path not in {*python, *kernels}]
    if unknown := [path for path in others if not is_unbuilt(path, unbuilt)]:
        msg = f"{unknown[0]} changes, and what is made of it is not known"
        raise UnknownEffectError(msg)
    sources = sources_at(git, base.sha, unbuilt)
    for path in others:
        if path.rpartition("/")[2] in sources.included:
            msg = f"{path} may be included by what is built"
            raise UnknownEffectError(msg)
    if not kernels:
        return ChangedOperators(frozenset(), python)
    texts = [(path, _text(git, base, path), _text(git, head, path)) for path in kernels]
    return ChangedOperators(touched_operators(sources, texts), python)


def _is_followed(path: str) -> bool:
    return path.endswith((".md", ".rst")) or (path.startswith(_TESTS) and path.endswith(".py"))


def _text(git: Git, revision: Revision, path: str) -> str:
    return git("cat-file", "blob", f"{revision.sha}:{path}").decode("utf-8", "replace")
