"""The GitHub side of a job: outputs, summary, annotations, groups, masks, and text made safe for them.

Only this module speaks the runner's language. Outside a job nothing here prints or writes. Commands go to
stderr, which the runner reads as it reads stdout, so that a command whose stdout is data can be piped. It reads each of
the two by itself: what is said on one may be heard before what was said earlier on the other.

Formats: https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

import os
import re
import secrets
import sys
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TextIO
from unicodedata import category

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

Level = Literal["error", "warning", "notice"]

# The runner's limits for each step: it refuses a longer summary as a whole, and drops further annotations.
SUMMARY_LIMIT = 1024 * 1024
ANNOTATION_LIMIT = 10

_WORST_FIRST: tuple[Level, ...] = ("error", "warning", "notice")
_CUT = "\n\n_The rest of this summary is left out: GitHub shows 1 MiB of it for each step._\n"
_OLD_COMMAND = re.compile(r"##(?=\[)")
"""What the runner takes for a command wherever in a line it stands."""
_NEW_COMMAND = re.compile(r"(^|\s):(?=:)")
"""What it takes for one at a line's beginning, spaces aside; a table may begin a line with any word of a cell."""
_UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode's general categories of what is not seen where it stands: controls, direction and width, halves of a pair,
separators of lines."""
_FILES = ("GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STATE", "GITHUB_STEP_SUMMARY")
_RIGHTS = re.compile(
    r"ACTIONS_.*|GITHUB_TOKEN|GH_TOKEN|GITHUB_ENTERPRISE_TOKEN|GH_ENTERPRISE_TOKEN|"
    r"UPLOADER_.*|TORCHPERF_STORE.*|TORCHPERF_TO|AWS_(?!REGION\Z|DEFAULT_REGION\Z).*"
)
"""Names of variables with which a job may ask for tokens, write, upload, or read the store."""
_CACHE_RIGHTS = re.compile(r"ACTIONS_(?!ID_TOKEN_).*")
"""Of these, what a job hands on to compilers' caches (``ACTIONS_RUNTIME_TOKEN`` and what goes with it)."""


@dataclass(frozen=True)
class Annotation:
    """A message on the run's page; with ``file`` (and ``line``, from 1) also beside a pull request's line."""

    level: Level
    message: str
    title: str = ""
    file: str = ""
    line: int = 0


def in_actions(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether this process runs in a job of GitHub Actions."""
    return environ.get("GITHUB_ACTIONS") == "true"


def without_rights(environ: Mapping[str, str], *, keep_caches: bool = False) -> dict[str, str]:
    """``environ`` for code that is measured: without the job's tokens and passwords, and what steers its next steps.

    A build may ``keep_caches``: what it takes to reach a compiler's cache at GitHub.
    """

    def is_right(name: str) -> bool:
        if keep_caches and _CACHE_RIGHTS.fullmatch(name):
            return False
        return name in _FILES or bool(_RIGHTS.fullmatch(name))

    return {name: value for name, value in environ.items() if not is_right(name)}


def set_output(name: str, value: str) -> None:
    """Hand ``value``, which may have many lines, to the following steps as this step's output ``name``."""
    delimiter = _delimiter(value)
    _append("GITHUB_OUTPUT", f"{name}<<{delimiter}\n{value}\n{delimiter}\n")


def append_summary(markdown: str) -> None:
    """Add to the step's part of the job summary, as much as fits (see :func:`fit_summary`)."""
    path = _file("GITHUB_STEP_SUMMARY")
    used = path.stat().st_size if path and path.exists() else 0
    _append("GITHUB_STEP_SUMMARY", fit_summary(markdown.rstrip("\n") + "\n\n", SUMMARY_LIMIT - used))


def fit_summary(markdown: str, room: int) -> str:
    """``markdown`` where it takes at most ``room`` bytes of UTF-8, else its first lines and a note on that.

    Empty where not even the note fits.
    """
    encoded = markdown.encode(errors="replace")
    if len(encoded) <= room:
        return markdown
    room -= len(_CUT.encode())
    if room < 0:
        return ""
    end = encoded.rfind(b"\n", 0, room)
    return encoded[: max(end, 0)].decode().rstrip("\n") + _CUT


@contextmanager
def group(title: str) -> Iterator[None]:
    """Fold what is printed inside under ``title`` in the job's log."""
    _command("group", title)
    try:
        yield
    finally:
        _command("endgroup", "")


@contextmanager
def literal(stream: TextIO | None = None) -> Iterator[None]:
    """Have the runner show what is written inside as text, even what looks like one of its commands.

    That holds for ``stream`` alone (stderr by default). Where stdout is data it must not be that: :func:`inert_json`.
    """
    token = secrets.token_hex(16)
    _command("stop-commands", token, stream=stream)
    try:
        yield
    finally:
        _command(token, "", stream=stream)


def annotate(annotations: Iterable[Annotation]) -> None:
    """Put annotations on the run's page: all that a step may have, so once (see :func:`fit_annotations`)."""
    for annotation in fit_annotations(annotations):
        _command(annotation.level, printable(annotation.message, keep="\r\n"), _properties(annotation))


def fit_annotations(annotations: Iterable[Annotation], limit: int = ANNOTATION_LIMIT) -> Sequence[Annotation]:
    """The worst ``limit`` annotations, worst first; where there are more, the last one counts the rest."""
    ranked = sorted(annotations, key=lambda annotation: _WORST_FIRST.index(annotation.level))
    if len(ranked) <= limit:
        return ranked
    shown, hidden = ranked[: limit - 1], ranked[limit - 1 :]
    rest = f"and {len(hidden)} more; the job summary lists all of them"
    return [*shown, replace(hidden[0], message=rest, title="", file="", line=0)]


def mask(secret: str) -> None:
    """Have the runner print ``***`` for ``secret``, and for each of its lines, from now on."""
    if secret.strip():
        _command("add-mask", secret)


def printable(text: str, keep: str = "") -> str:
    r"""``text`` in which everything is seen: a control, as ESC or a turn of the direction, is written ``\x1b``.

    Escaped and not dropped, so that two names that differ look different. ``keep`` are characters that stay.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if char in keep or category(char) not in _UNSEEN else _escaped(char) for char in text)


def one_line(value: object) -> str:
    """``value`` as text that begins no line, and commands neither a runner nor a terminal."""
    line = printable(str(value))
    return _NEW_COMMAND.sub(r"\1\\x3a", _OLD_COMMAND.sub(r"#\\x23", line))


def inert_json(text: str) -> str:
    """JSON that says the same as ``text``, and commands no runner: no line of it begins with ``::``."""
    return _OLD_COMMAND.sub(r"#\\u0023", text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


def _delimiter(value: str) -> str:
    while (delimiter := f"torchperf_{secrets.token_hex(16)}") in value:
        pass
    return delimiter


def _properties(annotation: Annotation) -> dict[str, str]:
    line = str(annotation.line) if annotation.line else ""
    return {"title": printable(annotation.title, keep="\r\n"), "file": annotation.file, "line": line}


def _command(
    name: str, message: str, properties: Mapping[str, str] | None = None, *, stream: TextIO | None = None
) -> None:
    if not in_actions():
        return
    stream = stream or sys.stderr
    given = ",".join(f"{key}={_escape_property(value)}" for key, value in (properties or {}).items() if value)
    stream.write(f"::{name}{' ' if given else ''}{given}::{_escape(message)}\n")
    stream.flush()


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape(text).replace(":", "%3A").replace(",", "%2C")


def _file(variable: str) -> Path | None:
    """The file that the runner named in ``variable``; None outside a job, or where it names none."""
    path = os.environ.get(variable, "")
    return Path(path) if in_actions() and path else None


def _append(variable: str, text: str) -> None:
    """Append to one of the runner's files; a failure (it is not there in a container) costs no results."""
    path = _file(variable)
    if path is None:
        return
    try:
        with path.open("a", encoding="utf-8", errors="replace", newline="\n") as file:
            file.write(text)
    except OSError as error:
        _command("warning", f"{variable} cannot be written, so its content is lost: {error}")
