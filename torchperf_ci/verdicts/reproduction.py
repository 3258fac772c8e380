"""Commands that measure a series again in a fresh clone of the repository, and their prerequisites."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from torchperf_ci.document import Block, Bold, Code, Commands, Paragraph, Piece, short
from torchperf_ci.verdicts.verdict import COMMIT_HASH, Evidence, RepeatOptions

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from torchperf_ci.series.points import Series


PYTHON_OPTION = ("--python", "python")
"""Use the Python that is active where the command is pasted, not that of the measuring machine."""
RELEASE = re.compile(r"\d+(\.\d+)+(\.post\d+)?")
_VERSION_LENGTH = 60


def compare_lines(reproduction: RepeatOptions, base: str, head: str, case: Sequence[str]) -> list[str]:
    """The commands that compare two builds by one case."""
    chosen = ("--base", base, "--head", head, *PYTHON_OPTION, *other_options(reproduction, case), *case)
    return in_fresh_clone(reproduction.folder, (base, head), shlex.join(["torchperf", "compare", *chosen]))


def run_lines(reproduction: RepeatOptions, case: Sequence[str]) -> list[str]:
    """The commands that measure one case at the commit that is checked out."""
    left_out = ("--build", "--min-effect")
    options = other_options(reproduction, (*left_out, *case))
    command = shlex.join(["torchperf", "run", *PYTHON_OPTION, *options, *case])
    return in_fresh_clone(reproduction.folder, (), command)


def in_fresh_clone(folder: str, builds: Sequence[str], command: str) -> list[str]:
    """``command``, preceded by the commands that enter ``folder`` and fetch the commits among ``builds``."""
    commits = list(dict.fromkeys(build for build in builds if COMMIT_HASH.fullmatch(build)))
    return [
        *([f"cd {shlex.quote(folder)}"] if folder else []),
        *([shlex.join(["git", "fetch", "origin", *commits])] if commits else []),
        command,
    ]


def case_options(series: Series, evidence: Evidence | None = None) -> list[str]:
    """The options that select the case of a series and, as far as ``evidence`` says it, how it was measured."""
    flags = {"filter": series.model, "mode": series.mode, "dtype": series.dtype, "backend": series.backend}
    if evidence:
        flags |= {"batch-size": str(evidence.batch_size or ""), "threads": str(evidence.threads or "")}
    return [word for name, value in flags.items() if value for word in (f"--{name}", value)]


def other_options(reproduction: RepeatOptions, words: Container[str]) -> list[str]:
    """The options that repeat a measurement, without those that are among ``words``."""
    return [word for flag, word in words_by_flag(reproduction.options) if flag not in words]


def words_by_flag(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Pair each word of a command line with the option that it is, or is a value of."""
    flag = ""
    for word in words:
        flag = word.partition("=")[0] if word.startswith("--") else flag
        yield flag, word


def setup_needed(torch: str) -> tuple[Piece, ...]:
    """The prerequisites of the commands: ``in a clone, with PyTorch 2.13.0 in the active Python``."""
    if not torch:
        return ("in a clone of the repository",)
    version = torch.partition("+")[0]
    is_release = RELEASE.fullmatch(version)
    shown = version if is_release else short(torch, _VERSION_LENGTH)
    install = (" (", Code(f"pip install torch=={version}"), ")") if is_release else ()
    return (f"in a clone of the repository, with PyTorch {shown} in the active Python", *install)


def command_blocks(title: str, lines: Sequence[str], torch: str) -> list[Block]:
    """The commands below their title and prerequisites; nothing if they are unknown."""
    if not lines:
        return []
    return [Paragraph((Bold(title), ", ", *setup_needed(torch), ":")), Commands(lines)]


_FILES = ("suite", "config", "wheels")
"""Options that may contain paths of this machine."""

_CONFIG = "torchperf.yml"
"""The file that defines the workloads unless an option does."""


class PortableOptions(NamedTuple):
    """Words of a command line, and the folder of the clone to run it in; empty for the root of the clone."""

    words: tuple[str, ...]
    folder: str


def portable_options(options: Mapping[str, object], names: Sequence[str]) -> PortableOptions:
    """The options ``names`` that are set, in this order, with paths that are valid in a clone.

    The clone is of the measured repository (``repo``) if all named files are in it, else of the repository that the
    command was run in. A file in neither is reduced to its name.
    """
    here, repo = Path.cwd(), Path(str(options.get("repo") or "."))
    measured = _root_of_checkout(repo)
    named = [text for name in _FILES for text in _option_texts(options.get(name))]
    chosen = [*named, *([] if options.get("suite") or options.get("config") else [_CONFIG])]
    files = [_absolute(text) for text in chosen if _is_path(text)]
    home = measured if all(file.is_relative_to(measured) for file in files) else _root_of_checkout(here)
    folder = here if here.is_relative_to(home) else home
    words = [word for name in names for word in _option_words(name, options.get(name), home, folder)]
    if home != measured:
        words = ["--repo", _in_clone(repo, home, folder), *words]
    return PortableOptions(tuple(words), "" if folder == home else folder.relative_to(home).as_posix())


def _option_words(name: str, value: Any, home: Path, folder: Path) -> Iterator[str]:
    is_auto = name == "batch_size" and value == 0
    texts = ["auto"] if is_auto else _option_texts(value)  # as the option reads it
    if value is True or texts:
        yield f"--{name.replace('_', '-')}"
    for text in texts:
        yield _in_clone(Path(text), home, folder) if name in _FILES and _is_path(text) else text


def _option_texts(value: Any) -> list[str]:
    if value is None or isinstance(value, bool):
        return []
    return [str(item) for item in value] if isinstance(value, list | tuple) else [str(value)]


def _is_path(text: str) -> bool:
    return "://" not in text and (Path(text).is_absolute() or Path(text).exists())


def _in_clone(path: Path, home: Path, folder: Path) -> str:
    absolute = _absolute(path)
    return Path(os.path.relpath(absolute, folder)).as_posix() if absolute.is_relative_to(home) else path.name


def _root_of_checkout(folder: Path) -> Path:
    """The root of the checkout that the folder is in, or the folder itself."""
    start = _absolute(folder)
    return next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), start)


def _absolute(path: str | Path) -> Path:
    """The absolute path without ``..``; symbolic links are not followed."""
    return Path(os.path.abspath(path))  # noqa: PTH100
