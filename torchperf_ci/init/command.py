"""The command ``torchperf init`` and its output."""

from __future__ import annotations

import errno
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.config import CONFIG_FILE, MISNAMED, Config, load_config
from torchperf_ci.console import print_document, say
from torchperf_ci.document import Bold, Column, Commands, Document, Note, Paragraph, Table, counted, facts
from torchperf_ci.errors import OutputDirectoryError, UsageError
from torchperf_ci.init.repository import (
    ActionsSource,
    Repository,
    find_source,
    find_torch_python,
    inspect_repository,
)
from torchperf_ci.init.starter_files import (
    CPU_WHEELS,
    DASHBOARD,
    StarterFile,
    starter_files,
    unmeasured_suites,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchperf_ci.document import Block
    from torchperf_ci.options.setup_commands import InitOptions

LEFT = 3
"""Exit code if some files already existed."""
_OWN_TORCH = ".torch/bin/python"
"""Python of the suggested environment, for users without one that has torch."""
_NEW_BRANCH = "torchperf"
"""Suggested branch, for users with a commit checked out instead of a branch."""
_FILE_COLUMNS = (Column("file"), Column("what it is for", "prose"))


def init_command(options: InitOptions) -> int:
    """Inspect the repository, write the files, and print which, with the next steps."""
    folder = Path.cwd()
    repository = inspect_repository(folder)
    source = find_source(options.uses, repository.host)
    config = _config_of(repository.root)
    files = starter_files(repository, source, config)
    new = [file for file in files if not file.existing]
    left = len(files) - len(new)
    notes = [*_unmeasured(repository, config), *_notes(repository, source, new)]
    if not options.dry_run:  # before anything is shown, because its reader, such as head, may end early
        _write(repository.root, new)
    _show([_facts(repository, source), *_tables(files, "To be written" if options.dry_run else "Written")])
    if options.dry_run:
        for file in new:
            say(f"--- {file.path}", *file.text.splitlines(), "", out=sys.stdout)
        say(f"a dry run: {counted(len(new), 'file')} would be written")
    else:
        if new:
            _show([Note(notes), *_next_steps(repository, new, folder)])
        advice = f", {left} left unchanged: to have one written anew, delete it first" if left else ""
        say(f"{counted(len(new), 'file')} written{advice}")
    return LEFT if left else 0


def _config_of(root: Path) -> Config | None:
    """Read ``torchperf.yml``, if there is one. Raises :class:`UsageError` if there is one under a wrong name only."""
    path, misnamed = root / CONFIG_FILE, root / MISNAMED
    if path.exists():
        return load_config(path)
    if misnamed.exists():
        msg = f"{misnamed} is not read: rename it to {CONFIG_FILE}, and call `torchperf init` again"
        raise UsageError(msg)
    return None


def _show(blocks: Sequence[Block]) -> None:
    print_document(Document("", blocks), sys.stdout)
    print(flush=True)


def _facts(repository: Repository, source: ActionsSource) -> Table:
    project = {None: "", ".": "installed by pip"}.get(
        repository.project, f"installed by pip from {repository.project}"
    )
    package = f"package {repository.package}" if repository.package else ""
    return facts(
        {
            "repository": repository.page or str(repository.root),
            "default branch": repository.default_branch,
            "Python project": ", ".join(filter(None, (project, package)))
            or "none: its files are imported as they are",
            "workloads": ", ".join(repository.suites) or "none yet",
            "other benchmarks": ", ".join(
                f"{tool} ({path})" for tool, path in repository.other_tools.items()
            ),
            "torchperf": str(source),
        }
    )


def _tables(files: Sequence[StarterFile], of_new: str) -> Iterator[Block]:
    yield Table(_FILE_COLUMNS, [(file.path, file.what) for file in files if not file.existing], title=of_new)
    existing = [(file.existing, file.what) for file in files if file.existing]
    yield Table(_FILE_COLUMNS, existing, title="Already there, left unchanged")


def _write(root: Path, files: Sequence[StarterFile]) -> None:
    """Write the files without ever overwriting one, even if it is created meanwhile.

    Raises :class:`OutputDirectoryError`.
    """
    written: list[str] = []
    for file in files:
        path = root / file.path
        try:
            _stay_below(root, path.parent)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as out:
                out.write(file.text)
        except OSError as error:
            done = f"written before: {', '.join(written)}" if written else "nothing was written"
            blocking = [above for above in path.parents if above.is_file()]
            why = f"{blocking[0]} is a file, not a folder: rename it" if blocking else error.strerror
            raise OutputDirectoryError(f"{path} cannot be written: {why}; {done}") from error
        written.append(file.path)


def _stay_below(root: Path, folder: Path) -> None:
    """Raise OSError if a link in the path leads out of the repository."""
    if not folder.resolve().is_relative_to(root.resolve()):
        raise OSError(errno.ELOOP, "its folder is a link that leads out of the repository")


def _unmeasured(repository: Repository, config: Config | None) -> Iterator[str]:
    if config and not config.runners:
        yield f"no night can be measured yet: {CONFIG_FILE} names no runners, and `torchperf plan` shows how to"
    if suites := unmeasured_suites(repository, config):
        names = ", ".join(suites)
        yield f"every night leaves out {names}: name it in {CONFIG_FILE}, in workloads of one of the suites"


def _notes(repository: Repository, source: ActionsSource, written: Sequence[StarterFile]) -> Iterator[str]:
    """Yield notes on what the user should know before relying on the result."""
    for file in written:
        if file.path.endswith(".py"):
            yield f"the two workloads measure PyTorch alone: call your code in {file.path}"
        if file.path.endswith(f"{DASHBOARD}.yml"):
            yield "the dashboard needs Settings > Pages > Source: GitHub Actions"
    if not source.is_known:
        yield "replace OWNER in the workflows by the owner of torchperf-ci"
    elif not source.is_pinned:
        yield f"{source} can change: pin a commit in place of {source.ref}"
    if not repository.remote:
        yield "there is no remote yet: the workflows run once the repository is on GitHub"
    elif repository.host != "github.com" and not repository.host.endswith(".ghe.com"):
        where = f"{repository.remote} is on {repository.host or 'no server'}"
        yield f"{where}: the workflows run on GitHub alone, and not on its Enterprise Server"
    if repository.branch != repository.default_branch:
        here = repository.branch or "no branch"
        yield f"GitHub runs schedules on {repository.default_branch} only, and this is {here}"
    if repository.is_pytorch:
        yield "no workflow for pull requests: hosted runners cannot build PyTorch; see docs/pull-requests.md"
    if repository.other_tools:
        yield f"results of {' and '.join(repository.other_tools)} can be kept as well: torchperf upload FOLDER"
    for path in repository.odd_suites:
        yield f"{path!r} is left out: its name has characters that a workflow could misread"


def _next_steps(repository: Repository, written: Sequence[StarterFile], folder: Path) -> Iterator[Block]:
    """Yield three commands to copy, which work from the user's current directory."""
    python = find_torch_python(repository.root)
    has_core = repository.is_pytorch and any(file.path == str(CONFIG_FILE) for file in written)
    measure = f"torchperf run{' --suite quick' if has_core else ''}"  # all of it takes more than an hour
    if not python or (repository.root / python).parent != Path(sys.executable).parent:
        measure += f" --python {shlex.quote(python or _OWN_TORCH)}"
    measure = f"{_import_path(repository)}{measure}"
    if folder.resolve() != repository.root.resolve():
        measure = f"cd {shlex.quote(os.path.relpath(repository.root, folder))} && {measure}"
    if not python:
        yield Note(["no Python with torch was found; to create one:"])
        yield Commands(
            [
                f"python3 -m venv {_OWN_TORCH.partition('/')[0]}",
                f"{_OWN_TORCH.replace('python', 'pip')} install torch -i {CPU_WHEELS}",
            ]
        )
    tops = (file.path.partition("/")[0] for file in written)
    places = shlex.join(dict.fromkeys([*tops, *repository.untracked_suites]))
    commit = f"git add {places} && git commit -m 'Add torchperf'"
    if not repository.branch:  # a detached HEAD, of which git can push nothing by itself
        commit = f"git switch -c {_NEW_BRANCH} && {commit}"
    yield Paragraph((Bold("Try next:"),))
    yield Commands([measure, commit, _push(repository)])
    yield Note(
        [
            "Pull requests are judged from then on, and every night is measured.",
            "To begin the first one by hand: Actions > Nightly performance > Run workflow.",
        ]
    )


def _import_path(repository: Repository) -> str:
    """Return the variable with which existing suites import code that is not installed; empty if it is not needed."""
    given = os.environ.get("PYTHONPATH", "")
    source = (repository.root / repository.source).resolve()
    known = [Path(entry).resolve() for entry in given.split(os.pathsep) if entry]
    if repository.project is not None or not repository.suites or source in known:
        return ""
    place = f"$PWD/{shlex.quote(repository.source)}" if repository.source else "$PWD"
    return f"PYTHONPATH={place}{':$PYTHONPATH' if given else ''} "


def _push(repository: Repository) -> str:
    if repository.has_upstream:
        return "git push"
    add = f"git remote add origin git@github.com:OWNER/{repository.name}.git && "
    remote, branch = repository.remote or "origin", repository.branch or _NEW_BRANCH
    return f"{'' if repository.remote else add}git push -u {shlex.quote(remote)} {shlex.quote(branch)}"
