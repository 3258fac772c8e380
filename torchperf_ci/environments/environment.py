"""From what somebody calls a build to a Python that has it."""

from __future__ import annotations

import shlex
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchperf_ci.environments import venv
from torchperf_ci.environments.programs import run_program
from torchperf_ci.environments.repository import Revision, worktree
from torchperf_ci.environments.scratch import scratch
from torchperf_ci.environments.spec import Python, Spec, Wheel

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


MOST_IN_A_NAME = 61
MOST_IN_AN_ENVIRONMENT = 4093
"""Characters that draws differ by."""
PADDING = "TORCHPERF_PADDING"
"""The variable that makes an environment larger."""


@dataclass(frozen=True)
class Builder:
    """How a build is made that is no Python yet.

    ``python`` is the interpreter that revisions run on as they are, and that virtual environments are made with.
    ``command`` is a shell line that installs a revision into one, for instance ``python -m pip install .``; ``seconds``
    is how long it, or pip, may take.

    What is compiled has speed by luck as well: of addresses, alignment, link order. A draw of another number is built
    below a path of another length, in an environment of another size, and is told the number to do with it as it likes.
    """

    python: str
    command: str | None = None
    seconds: float = 7200.0


@dataclass(frozen=True)
class Environment:
    """A Python to be measured, folders to import from before all others, and what it is in words.

    ``folder`` holds all that was made for it, ``worktree`` the files of its commit; None where there are none.
    """

    python: str
    path: tuple[str, ...]
    description: str
    folder: Path | None = None
    worktree: Path | None = None


@contextmanager
def opened(spec: Spec, builder: Builder, draw: int = 0) -> Iterator[Environment]:
    """The environment of a build; what was made for it is gone after the block, however it ends.

    ``draw`` is 0 for the first build of a revision, and k for the k-th one beside it.

    Raises :class:`EnvironmentUnderTestError` where it cannot be made.
    """
    match spec:
        case Python():
            yield Environment(str(spec.path), (), str(spec))
        case Wheel():
            with opened_wheels([spec.requirement], str(spec), builder.python, builder.seconds) as environment:
                yield environment
        case Revision():
            with scratch(_padding(draw, MOST_IN_A_NAME)) as folder, worktree(spec, folder) as tree:
                yield _of_revision(spec, builder, folder, tree, draw)


@contextmanager
def opened_wheels(
    requirements: Sequence[str], description: str, python: str, seconds: float, options: Sequence[str] = ()
) -> Iterator[Environment]:
    """A new virtual environment with what pip installs; ``options`` are pip's. Raises as :func:`opened`."""
    with scratch() as folder:
        interpreter = venv.make(python, folder / "env")
        venv.install(interpreter, requirements, seconds, options)
        yield Environment(str(interpreter), (), description, folder)


def _of_revision(revision: Revision, builder: Builder, folder: Path, tree: Path, draw: int) -> Environment:
    if builder.command is None:
        return Environment(builder.python, import_roots(tree), str(revision), folder, tree)
    python = venv.make(builder.python, folder / "env")
    _build(revision, tree, folder / "env", builder, draw)
    return Environment(str(python), (), str(revision), folder, tree)


def import_roots(tree: Path) -> tuple[str, ...]:
    """Where the packages of a repository lie: in ``src``, where there is one, or beside its project file."""
    source = tree / "src"
    return (str(source), str(tree)) if source.is_dir() else (str(tree),)


def _build(revision: Revision, tree: Path, folder: Path, builder: Builder, draw: int) -> None:
    """Run the user's line in the worktree, with the virtual environment active."""
    values = {"sha": revision.sha, "worktree": str(tree), "env": str(folder), "seed": str(draw)}
    command = builder.command or ""
    for name, value in values.items():
        command = command.replace(f"{{{name}}}", shlex.quote(value))
    environ = {
        **venv.activated(folder),
        **{name.upper(): value for name, value in values.items()},
        PADDING: "x" * _padding(draw, MOST_IN_AN_ENVIRONMENT),
    }
    run_program(["sh", "-c", command], f"--build of {revision}", builder.seconds, cwd=tree, environ=environ)


def _padding(draw: int, most: int) -> int:
    """0 for the first build; numbers that differ from draw to draw, and do not grow with it."""
    return draw * 619 % most  # a prime that divides neither
