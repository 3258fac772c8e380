"""From what somebody calls a build to a Python that has it."""

from __future__ import annotations

import shlex
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.environments import venv
from torchperf_ci.environments.programs import run_program
from torchperf_ci.environments.repository import Revision, worktree
from torchperf_ci.environments.spec import Python, Spec, Wheel

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Builder:
    """How a build is made that is no Python yet.

    ``python`` is the interpreter that revisions run on as they are, and that virtual environments are made with.
    ``command`` is a shell line that installs a revision into one; ``seconds`` is how long it, or pip, may take.
    """

    python: str
    command: str | None = None
    seconds: float = 7200.0


@dataclass(frozen=True)
class Environment:
    """A Python to be measured, folders to import from before all others, and what it is in words."""

    python: str
    path: tuple[str, ...]
    description: str


@contextmanager
def opened(spec: Spec, builder: Builder) -> Iterator[Environment]:
    """The environment of a build; what was made for it is gone after the block, however it ends.

    Raises :class:`EnvironmentUnderTestError` where it cannot be made.
    """
    match spec:
        case Python():
            yield Environment(str(spec.path), (), str(spec))
        case Wheel():
            with _folder() as folder:
                python = venv.make(builder.python, folder)
                venv.install(python, spec.requirement, builder.seconds)
                yield Environment(str(python), (), str(spec))
        case Revision():
            with worktree(spec) as tree:
                if builder.command is None:
                    yield Environment(builder.python, import_roots(tree), str(spec))
                    return
                with _folder() as folder:
                    python = venv.make(builder.python, folder)
                    _build(spec, tree, folder, builder.command, builder.seconds)
                    yield Environment(str(python), (), str(spec))


def import_roots(tree: Path) -> tuple[str, ...]:
    """Where the packages of a repository lie: in ``src``, where there is one, or beside its project file."""
    source = tree / "src"
    return (str(source), str(tree)) if source.is_dir() else (str(tree),)


def _build(revision: Revision, tree: Path, folder: Path, command: str, seconds: float) -> None:
    """Run the user's line in the worktree, with the virtual environment active."""
    values = {"sha": revision.sha, "worktree": str(tree), "env": str(folder)}
    for name, value in values.items():
        command = command.replace(f"{{{name}}}", shlex.quote(value))
    environ = venv.activated(folder) | {name.upper(): value for name, value in values.items()}
    run_program(["sh", "-c", command], f"--build of {revision}", seconds, cwd=tree, environ=environ)


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="torchperf-", ignore_cleanup_errors=True) as folder:
        yield Path(folder, "env")
