"""The interface to a GitHub Actions runner: outputs, summary, annotations, masks, and escaping for them.

No other module writes workflow commands. Outside of a job nothing here prints or writes. Commands go to stderr, which
the runner reads just like stdout, so that stdout can be piped where it is data. The runner reads the two streams
independently: a command on one may take effect before an earlier one on the other. So nothing on stdout may stop
commands, not even for a moment: those on stderr could fall into it.

Formats: https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

import os
import re
import secrets
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal
from unicodedata import category

Level = Literal["error", "warning", "notice"]

# The runner's limits for each step: it refuses a summary above 1 MiB as a whole, and drops further annotations.
SUMMARY_ROOM = 512 * 1024  # the same step may have said something before
ANNOTATION_LIMIT = 10

_WORST_FIRST: tuple[Level, ...] = ("error", "warning", "notice")
_OLD_COMMAND = re.compile(r"##(?=\[)")
"""A workflow command in the old syntax, which the runner recognizes anywhere in a line."""
_NEW_COMMAND = re.compile(r"(^|\s):(?=:)")
"""A workflow command, which the runner recognizes at the start of a line; any word of a table cell may start one."""
_UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode's general categories of invisible characters: controls, formatting, lone surrogates, line separators."""
_FILES = ("GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STATE", "GITHUB_STEP_SUMMARY")
_RIGHTS = re.compile(
    r"ACTIONS_.*|GITHUB_TOKEN|GH_TOKEN|GITHUB_ENTERPRISE_TOKEN|GH_ENTERPRISE_TOKEN|"
    r"UPLOADER_.*|TORCHPERF_(STORE|READER).*|TORCHPERF_TO|AWS_(?!REGION\Z|DEFAULT_REGION\Z).*"
)
"""Names of variables that allow a job to request tokens, write, upload, or read what is stored."""
_CACHE_RIGHTS = re.compile(r"ACTIONS_(?!ID_TOKEN_).*")
"""Those among them that give compilers access to GitHub's cache, such as ``ACTIONS_RUNTIME_TOKEN``."""


@dataclass(frozen=True)
class Annotation:
    """A message on the run's page."""

    level: Level
    message: str
    title: str = ""


def in_actions(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether this process runs in a job of GitHub Actions."""
    return environ.get("GITHUB_ACTIONS") == "true"


def without_rights(environ: Mapping[str, str], *, keep_caches: bool = False) -> dict[str, str]:
    """Return ``environ`` without the job's tokens, passwords and command files, for running measured code.

    ``keep_caches`` keeps what a build needs to reach a compiler cache at GitHub.
    """

    def is_right(name: str) -> bool:
        if keep_caches and _CACHE_RIGHTS.fullmatch(name):
            return False
        return name in _FILES or bool(_RIGHTS.fullmatch(name))

    return {name: value for name, value in environ.items() if not is_right(name)}


def set_output(name: str, value: str) -> None:
    """Set this step's output ``name`` to ``value``, which may have several lines."""
    delimiter = f"torchperf_{secrets.token_hex(16)}"
    _append("GITHUB_OUTPUT", f"{name}<<{delimiter}\n{value}\n{delimiter}\n")


def append_summary(markdown: str) -> None:
    """Append to the step's job summary, at most :data:`SUMMARY_ROOM` bytes."""
    _append("GITHUB_STEP_SUMMARY", markdown.rstrip("\n") + "\n\n")


@contextmanager
def literal() -> Iterator[None]:
    """Make the runner treat what the block writes to stderr as text, even where it looks like a workflow command."""
    token = secrets.token_hex(16)
    _command("stop-commands", token)
    try:
        yield
    finally:
        _command(token, "")


def annotate(annotations: Iterable[Annotation]) -> None:
    """Write annotations; call this once, since the number per step is limited (see :func:`fit_annotations`)."""
    for annotation in fit_annotations(annotations):
        message, title = (printable(text, keep="\r\n") for text in (annotation.message, annotation.title))
        _command(annotation.level, message, title)


def fit_annotations(annotations: Iterable[Annotation], limit: int = ANNOTATION_LIMIT) -> Sequence[Annotation]:
    """Return the worst ``limit`` annotations, worst first; if there are more, the last one counts the rest."""
    ranked = sorted(annotations, key=lambda annotation: _WORST_FIRST.index(annotation.level))
    if len(ranked) <= limit:
        return ranked
    shown, hidden = ranked[: limit - 1], ranked[limit - 1 :]
    rest = f"and {len(hidden)} more; the job summary lists all of them"
    return [*shown, replace(hidden[0], message=rest, title="")]


def mask(secret: str) -> None:
    """Make the runner print ``***`` instead of ``secret``, and of each of its lines, from now on."""
    if secret.strip():
        _command("add-mask", secret)


def printable(text: str, keep: str = "") -> str:
    r"""Return ``text`` with invisible characters, such as controls and direction changes, escaped as in ``\x1b``.

    They are escaped instead of dropped, so that different names look different. Characters in ``keep`` stay.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if char in keep or category(char) not in _UNSEEN else _escaped(char) for char in text)


def one_line(value: object) -> str:
    """Return ``value`` as one line of text that neither a runner nor a terminal takes for a command."""
    line = printable(str(value))
    return _NEW_COMMAND.sub(r"\1\\x3a", _OLD_COMMAND.sub(r"#\\x23", line))


def inert_json(text: str) -> str:
    """Escape JSON text such that a runner takes nothing in it for a command; its meaning stays the same."""
    return _OLD_COMMAND.sub(r"#\\u0023", text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


def _command(name: str, message: str, title: str = "") -> None:
    if not in_actions():
        return
    titled = f" title={_escape(title).replace(':', '%3A').replace(',', '%2C')}" if title else ""
    sys.stderr.write(f"::{name}{titled}::{_escape(message)}\n")
    sys.stderr.flush()


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _append(variable: str, text: str) -> None:
    """Append to one of the runner's command files; failing to do so (in some containers) must not lose results."""
    path = os.environ.get(variable, "")
    if not (path and in_actions()):
        return
    try:
        with Path(path).open("a", encoding="utf-8", errors="replace", newline="\n") as file:
            file.write(text)
    except OSError as error:
        _command("warning", f"{variable} cannot be written, so its content is lost: {error}")
