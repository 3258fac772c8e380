"""Make a Python that can be measured from a build specification: an interpreter, a wheel or a revision."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from torchperf_ci.actions import without_rights
from torchperf_ci.environments.revisions import Revision, find_revision, top_of_checkout, worktree
from torchperf_ci.errors import EnvironmentUnderTestError, UsageError, failing_as
from torchperf_ci.masking import without_secrets
from torchperf_ci.processes import ProcessGroup
from torchperf_ci.scratch import refuse_full_disk, scratch_folder

TAIL_LINES = 40
"""The number of lines of a failed program's output in the error message."""


def run_program(
    command: Sequence[str],
    what: str,
    seconds: float,
    *,
    cwd: Path,
    environ: Mapping[str, str],
    option: str = "",
) -> str:
    """Run ``command`` and return its output, standard output and standard error combined.

    ``option`` follows the number of ``seconds`` in the message of a timeout.

    Raises :class:`EnvironmentUnderTestError` with the last lines of the output, or that the disk is full.
    """
    with tempfile.TemporaryFile() as log:
        with failing_as(EnvironmentUnderTestError, f"{what}: {command[0]} does not start: "):
            group = ProcessGroup(
                command, environ, cwd=cwd, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        status = None
        try:
            status = group.process.wait(seconds)
        except subprocess.TimeoutExpired:
            pass
        finally:
            # After a timeout, end daemons as well. Else the server of a compiler cache may serve the next build.
            group.end(daemons=status is None)
        log.seek(0)
        printed = log.read().decode(errors="replace")
        if status == 0:
            return printed
        how = f"did not finish within {seconds:.0f} s{option}" if status is None else f"ended with {status}"
        tail = "\n".join(printed.splitlines()[-TAIL_LINES:]) or "(it printed nothing)"
        msg = f"{what} {how}:\n{without_secrets(tail)}"
        refuse_full_disk(msg)
        raise EnvironmentUnderTestError(msg)


MAKE_SECONDS = 120.0
LIMIT_OPTION = " (--build-timeout)"
UNBUILT = "\nif this repository has to be built before it is imported, say how with --build"
"""Behind the reason why a revision cannot be measured, where nothing was built."""
INSTALLED = "\nits environment has only what --build or the wheel installs there, which has to include torch"
"""Behind the reason why a build that was installed cannot be measured."""

_VERSIONS = "Available versions:"

# Variables that would make Python start differently, or make pip install to another place.
_ELSEWHERE = (
    "PIP_DRY_RUN", "PIP_PREFIX", "PIP_PYTHON", "PIP_REQUIRE_VIRTUALENV", "PIP_ROOT", "PIP_TARGET", "PIP_USER",
    "PYTHONHOME", "PYTHONPATH",
)  # fmt: skip


def make_venv(python: str, folder: Path) -> Path:
    """Make a virtual environment of ``python`` in ``folder``, which lies in a scratch folder; its interpreter."""
    command, place = [python, "-I", "-m", "venv", str(folder)], folder.parent
    run_program(command, f"{python} -m venv", MAKE_SECONDS, cwd=place, environ=_environ_of_pip(place))
    return folder / "bin" / "python"


def pip_versions(python: Path, package: str, seconds: float, options: Sequence[str] = ()) -> Sequence[str]:
    """The versions of ``package`` that pip could install there, including pre-releases; at least one.

    Raises :class:`EnvironmentUnderTestError` if there is none or if they cannot be listed.
    """
    listed = _pip(python, ["index", "versions", "--pre", *options], [package], seconds)
    version = next((line for line in listed.splitlines() if line.startswith(_VERSIONS)), _VERSIONS)
    return version.removeprefix(_VERSIONS).strip().split(", ")


def _clean_environ() -> dict[str, str]:
    caller = without_rights(os.environ, keep_caches=True)
    return {name: value for name, value in caller.items() if name not in _ELSEWHERE}


def _environ_of_pip(scratch: Path) -> dict[str, str]:
    """Temporary files go where they are removed even if pip is killed: wheels that it downloads may have gigabytes."""
    return {**_clean_environ(), "TMPDIR": str(scratch)}


def _pip(python: Path, command: Sequence[str], requirements: Sequence[str], seconds: float) -> str:
    """Run pip. All users of a machine can read arguments, so URLs, which may hold a password, are passed otherwise."""
    environ, listed = _environ_of_pip(python.parents[2]), python.parents[2] / "urls.txt"
    pip = [str(python), "-I", "-m", "pip", *(word for word in command if "://" not in word)]
    for name, _, url in (word.partition("=") for word in command if "://" in word):
        environ[f"PIP_{name.removeprefix('--').replace('-', '_').upper()}"] = url
    if urls := [requirement for requirement in requirements if "://" in requirement]:
        listed.write_text("\n".join(urls), encoding="utf-8")
        pip += ["--requirement", str(listed)]
    pip += ["--disable-pip-version-check", "--no-input", "--", *(it for it in requirements if it not in urls)]
    what = without_secrets(" ".join(["pip", command[0], *requirements]))
    option = LIMIT_OPTION if command[0] == "install" else ""
    return run_program(pip, what, seconds, cwd=python.parent, environ=environ, option=option)


@dataclass(frozen=True)
class Interpreter:
    """A Python that has everything to be measured. Its path is not resolved, because a venv's Python is a symlink."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)


@dataclass(frozen=True)
class WheelRequirement:
    """What pip is to install: a requirement or the path of a wheel."""

    requirement: str

    def __str__(self) -> str:
        return Path(self.requirement).name if self.requirement.endswith(".whl") else self.requirement


_PYTHON = re.compile(r"/bin/python[0-9.]*\Z")
_DIGITS = re.compile(r"[0-9a-fA-F]{7,64}")

BuildSpec = Interpreter | WheelRequirement | Revision


def is_path(text: str) -> bool:
    """Whether ``text`` can only be a path: no branch has a part that starts with a dot or is named like a Python.

    A stranger may have added files to a repository, so a file must never stand in for a commit of the same name.
    """
    return text.startswith(("/", ".")) or "/." in text or bool(_PYTHON.search(text))


def names_commit(text: str, repo: Path) -> bool:
    """Whether ``text`` means a commit, known here or not: digits of a SHA, or anything that names one in ``repo``."""
    return not is_path(text) and bool(_DIGITS.fullmatch(text) or find_revision(text, repo)[0])


def parse_build_spec(text: str, repo: Path) -> BuildSpec:
    """Parse a build specification; raises :class:`UsageError` that lists what was tried.

    A path (:func:`is_path`) of an executable file is a Python, a name that ends with ``.whl`` or contains ``==`` a
    wheel, and anything else a commit, branch or tag of the checkout ``repo``.
    """
    file = Path(text)
    can_be_run = file.is_file() and os.access(file, os.X_OK)
    if can_be_run and is_path(text):
        return Interpreter(file.absolute())
    if text.endswith(".whl"):
        if not file.is_file():
            raise UsageError(f"there is no wheel at {text}")
        return WheelRequirement(str(file.absolute()))
    if "==" in text:
        return WheelRequirement(text)
    revision, why_not = find_revision(text, repo)
    if revision is None:
        if can_be_run or (file.is_dir() and _DIGITS.fullmatch(text)):
            kind = "file" if can_be_run else "directory"
            msg = f"{text!r} is not a commit, branch or tag of {repo}; if you mean the {kind}: ./{text}"
            raise UsageError(msg)
        kind = "a directory without records" if file.is_dir() else "not a file that can be run"
        msg = (
            f"{text!r} is {kind}, no requirement such as torch==2.12.0, no path of a wheel, and no commit, branch or "
            f"tag of {repo}: {why_not}"
        )
        raise UsageError(msg)
    return revision


MAX_NAME_BYTES = 61
MAX_ENVIRONMENT_BYTES = 4093
"""Maximum padding in characters, of the folder's name and of the environment, by which draws differ."""
PADDING = "TORCHPERF_PADDING"
"""The variable that pads the environment."""


@dataclass(frozen=True)
class Builder:
    """How to make a Python from a wheel or a revision.

    ``python`` runs revisions that need no build and creates virtual environments. ``command`` is a shell command that
    installs a revision into one, for instance ``python -m pip install .``; ``seconds`` is the time limit for it or
    for pip.

    The speed of compiled code depends on luck, too: addresses, alignment, link order. Each draw is therefore built in
    a path of another length and an environment of another size, and its number is passed to the command, which may
    use it.
    """

    python: str
    command: str | None = None
    seconds: float = 7200.0


@dataclass(frozen=True)
class BuildEnvironment:
    """A Python to be measured, folders that come first on its import path, and a description.

    ``folder`` holds everything that was made for it, ``worktree`` the files of its commit; None if there are none.
    """

    python: str
    path: tuple[str, ...]
    description: str
    folder: Path | None = None
    worktree: Path | None = None


def check_imports(
    imported: Iterable[str], environment: BuildEnvironment, repo: Path, suites: Iterable[str]
) -> None:
    """Raise :class:`EnvironmentUnderTestError` if a commit's suite has imported code of the checkout ``repo`` itself.

    That code is the same for every commit. Files next to a suite file belong to the suite, and so do those in folders
    below, unless the suite file is at the top of the checkout, where these are the repository's packages.
    """
    if not (environment.folder and (top := top_of_checkout(repo))):
        return
    next_to_suites = {Path(suite).resolve().parent for suite in suites} - {*top.parents}
    own = {environment.folder.resolve(), *next_to_suites} - {top}
    for file in map(Path, imported):
        is_own = not own.isdisjoint(file.parents) or file.parent in next_to_suites
        if file.is_relative_to(top) and not is_own:
            msg = (
                f"the suite imports {file}, which is in the checkout and so the same for every commit: let --build "
                "install the commit's code, and let neither PYTHONPATH nor the suite put the checkout before it"
            )
            raise EnvironmentUnderTestError(msg)


def unused_code_note(imported: Iterable[str], path: Iterable[str], packages: Iterable[str] = ()) -> str:
    """Say that what is measured does not depend on commits that are imported from the folders ``path``; else empty.

    It does if the suite files have ``imported`` a file there, or if it needs ``packages`` of which one is there.
    """
    folders = {Path(folder).resolve() for folder in path}
    is_imported = any(not folders.isdisjoint(Path(file).resolve().parents) for file in imported)
    if is_imported or any((folder / package).is_dir() for folder in folders for package in packages):
        return ""
    return (
        "⚠ what is measured imports no code of these commits, unless a workload does so in its function: it is the "
        "same for all of them"
    )


@contextmanager
def open_environment(spec: BuildSpec, builder: Builder, draw: int = 0) -> Iterator[BuildEnvironment]:
    """Open the environment of a build; everything made for it is removed after the block.

    ``draw`` is 0 for the first build of a revision, and k for its k-th rebuild.

    Raises :class:`EnvironmentUnderTestError` if it cannot be made.
    """
    match spec:
        case Interpreter():
            yield BuildEnvironment(str(spec.path), (), str(spec))
        case WheelRequirement():
            with open_wheels([spec.requirement], str(spec), builder.python, builder.seconds) as environment:
                yield environment
        case Revision():
            with scratch_folder(_padding(draw, MAX_NAME_BYTES)) as folder, worktree(spec, folder) as tree:
                python, path = builder.python, import_roots(tree)
                if builder.command is not None:
                    python, path = str(make_venv(builder.python, folder / "env")), ()
                    _build(spec, tree, folder / "env", builder, draw)
                yield BuildEnvironment(python, path, str(spec), folder, tree)


@contextmanager
def open_wheels(
    requirements: Sequence[str], description: str, python: str, seconds: float, options: Sequence[str] = ()
) -> Iterator[BuildEnvironment]:
    """A new virtual environment in which pip installs ``requirements``; raises like :func:`open_environment`.

    ``options`` are passed to pip.
    """
    with scratch_folder() as folder:
        interpreter = make_venv(python, folder / "env")
        _pip(interpreter, ["install", "--progress-bar", "off", *options], requirements, seconds)
        yield BuildEnvironment(str(interpreter), (), description, folder)


def import_roots(tree: Path) -> tuple[str, ...]:
    """The folders to import the repository's packages from: ``src`` if it exists, and the root."""
    source = tree / "src"
    return (str(source), str(tree)) if source.is_dir() else (str(tree),)


def _build(revision: Revision, tree: Path, folder: Path, builder: Builder, draw: int) -> None:
    """Run the user's build command in the worktree, with the virtual environment active."""
    values = {"sha": revision.sha, "worktree": str(tree), "env": str(folder), "seed": str(draw)}
    command = builder.command or ""
    for name, value in values.items():
        command = command.replace(f"{{{name}}}", shlex.quote(value))
    environ = {
        **_clean_environ(),
        "PATH": os.pathsep.join([str(folder / "bin"), os.environ.get("PATH", os.defpath)]),
        "VIRTUAL_ENV": str(folder),
        **{name.upper(): value for name, value in values.items()},
        PADDING: "x" * _padding(draw, MAX_ENVIRONMENT_BYTES),
    }
    what = f"--build of {revision}"
    run_program(["sh", "-c", command], what, builder.seconds, cwd=tree, environ=environ, option=LIMIT_OPTION)


def _padding(draw: int, most: int) -> int:
    """0 for the first build; for others a number below ``most`` that differs from draw to draw without growing."""
    return draw * 619 % most  # 619 is prime and divides neither limit
