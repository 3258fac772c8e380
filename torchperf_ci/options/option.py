"""Declare an option: its values, how it is read from the command line or else the environment, and its help.

The functions that convert a value raise ``ValueError`` or ``KeyError`` if it is invalid; their docstrings complete the
error message.
"""

from __future__ import annotations

import argparse
import datetime
import re
from dataclasses import dataclass, field, fields, replace
from textwrap import fill, wrap
from typing import TYPE_CHECKING, Any, TypeVar

from torchperf_ci.errors import UnknownNameError, UsageError
from torchperf_ci.machine.devices import DEVICE_TYPES
from torchperf_ci.places import is_remote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from _typeshed import DataclassInstance


DTYPES = ("fp32", "tf32", "bf16", "fp16", "amp")
MODES = ("inference", "training")
DEVICES = ("auto", *sorted(DEVICE_TYPES))
COMPILE_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
BACKENDS = ("eager", "inductor", *(f"inductor:{mode}" for mode in COMPILE_MODES))


def positive_int(value: str) -> int:
    """A whole number from 1."""
    number = int(value)
    if number < 1:
        raise ValueError
    return number


def github_id(value: str) -> int:
    """A whole number from 1 to 18446744073709551615."""
    number = positive_int(value)
    if number >= 2**64:  # the database has no larger ones
        raise ValueError
    return number


def seconds(value: str) -> float:
    """A number of seconds above 0."""
    number = float(value)
    if not 0 < number < float("inf"):
        raise ValueError
    return number


def share(value: str) -> float:
    """A share between 0 and 1, such as 0.03 or 3%."""
    number = float(value[:-1]) / 100 if value.endswith("%") else float(value)
    if not 0 < number < 1:
        raise ValueError
    return number


def batch_size(value: str) -> int:
    """A whole number from 1, or ``auto``."""
    return 0 if value == "auto" else positive_int(value)


def shard(value: str) -> tuple[int, int]:
    """A part, counted from 1, and the number of parts, as in 2/4."""
    number, _, of = value.partition("/")
    if not 1 <= int(number) <= int(of):
        raise ValueError
    return int(number), int(of)


def address(value: str) -> tuple[str, int]:
    """A host and a port, as in 127.0.0.1:8080 or [::1]:8080."""
    host, _, port = value.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not 0 <= int(port) < 2**16:
        raise ValueError
    return host, int(port)


def moment(value: str) -> int:
    """A time in Unix seconds, or a date such as 2026-08-31 or 2026-08-31T12:00:00Z, in UTC where it names no zone."""
    if value.isdecimal():
        if 4 <= len(value) <= len("20260831"):  # meant as a date, and as seconds long before any result
            raise ValueError
        return int(value)
    # Python 3.10 reads neither the Z nor a fraction of other than three or six digits
    moment = datetime.datetime.fromisoformat(value.replace("Z", "+00:00"))
    seconds = int((moment if moment.tzinfo else moment.replace(tzinfo=datetime.timezone.utc)).timestamp())
    if seconds < 0:
        raise ValueError
    return seconds


def utf8(value: str) -> str:
    """Text in UTF-8."""
    value.encode()
    return value


def local_directory(value: str) -> str:
    """A directory of this machine, as ./NAME if it has a colon."""
    if is_remote(value):
        raise ValueError
    return value


def full_sha(value: str) -> str:
    """The 40 hexadecimal digits of a commit."""
    if not re.fullmatch("[0-9a-f]{40}", value):
        raise ValueError
    return value


def truth(value: str) -> bool:
    """``true`` or ``false``, as an action's inputs spell them."""
    return {"true": True, "false": False, "1": True, "0": False}[value.lower()]


_PLACEHOLDERS: Mapping[Callable[[str], Any], str] = {
    positive_int: "N",
    github_id: "N",
    seconds: "SECONDS",
    share: "X",
    moment: "TIME",
    local_directory: "DIR",
}
"""What stands for a value of a kind in the help."""

Given = TypeVar("Given", bound="DataclassInstance")

_OPTION = "option"
_HEADING = "heading"


@dataclass(frozen=True)
class Option:
    """One option. If it is not given, the command gets ``default``, which is written as a user would give it.

    Without a default the command gets None, an empty sequence for a ``many`` option, or False for a switch;
    ``otherwise`` tells users what happens then.

    A ``many`` option may be repeated, accepts several values after one flag, and splits each at commas and newlines.
    With ``whole``, what was split at commas is a value as well, as a name may hold some. The values of a ``positional``
    argument, which has no flag, are not split on the command line.

    ``other_variables`` of the environment provide the value if :attr:`env` does not, as aliases of the flag may.

    In the help, ``metavar`` stands for the value of a flag, by default the choices, or what stands for any value of the
    ``kind``. Its ``name`` is that of the field that declares it.
    """

    help: str
    kind: Callable[[str], Any] = str
    metavar: str = ""
    default: str = ""
    otherwise: str = ""
    choices: tuple[str, ...] = ()
    many: bool = False
    whole: bool = False
    aliases: tuple[str, ...] = ()
    other_variables: tuple[str, ...] = ()
    positional: bool = False
    name: str = ""

    @property
    def flag(self) -> str:
        """The flag; of a positional argument, what stands for it."""
        return self.name.upper() if self.positional else f"--{self.name.replace('_', '-')}"

    @property
    def placeholder(self) -> str:
        """What stands for the value of a flag in the help."""
        if self.positional:
            return ""
        return self.metavar or "|".join(self.choices) or _PLACEHOLDERS.get(self.kind, "")

    @property
    def env(self) -> str:
        """The environment variable that provides the value if the flag is not given."""
        return f"TORCHPERF_{self.name.upper()}"

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables that provide the value; the first one that is set counts."""
        return (self.env, *self.other_variables)

    @property
    def is_switch(self) -> bool:
        """Whether the flag takes no value."""
        return self.kind is truth

    def add_to(self, parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
        """Add the flag to a parser. Values are converted in :meth:`read`, in the same way for flags and environment."""
        default = self.default or self.otherwise
        help_text = f"{self.help} [default: {default}]" if default else self.help
        help_text = help_text.replace("%", "%%")  # argparse formats it
        if self.positional:
            many = "*" if self.many else "?"
            parser.add_argument(self.name, nargs=many, default=None, metavar=self.flag, help=help_text)
        elif self.is_switch:
            parser.add_argument(self.flag, action="store_const", const="true", help=help_text)
        elif self.many:
            parser.add_argument(
                self.flag, action="extend", nargs="+", metavar=self.placeholder, help=help_text
            )
        else:
            parser.add_argument(self.flag, *self.aliases, metavar=self.placeholder, help=help_text)

    def read(self, value: Any, environ: Mapping[str, str]) -> Any:
        """Return the value of the flag, else of the environment, else None. Raises :class:`UsageError`."""
        source = self.flag
        if value is None or value == []:  # argparse sets an absent positional list to []
            given = [(name, text) for name in self.variables if (text := environ.get(name, "").strip())]
            source, value = given[0] if given else (self.env, None)
        if value is None:
            return None
        if not self.many:
            return self._convert(value, source)
        if self.positional and not isinstance(value, str):
            return [self._convert(item, source) for item in value]
        parts = [value] if isinstance(value, str) else value
        lines = [line for item in parts for line in item.splitlines()]
        values = [part.strip() for line in lines for part in line.split(",")]
        if not any(values):
            raise UsageError(f"{source} is empty: give it a value, or leave it out")
        whole = [line.strip() for line in lines if self.whole and "," in line]
        return [self._convert(item, source) for item in [*values, *whole] if item]

    def _convert(self, value: str, source: str) -> Any:
        if self.choices and value not in self.choices:
            raise UnknownNameError(f"value for {source}", value, self.choices)
        try:
            return self.kind(value)
        except (ValueError, KeyError):
            wanted = (self.kind.__doc__ or "").strip().rstrip(".").replace("``", "")
            msg = f"{source} cannot be {value!r}: it is {wanted[:1].lower()}{wanted[1:]}"
            raise UsageError(msg) from None


def option(text: str, kind: Callable[[str], Any] = str, heading: str = "", **more: Any) -> Any:
    """Return a dataclass field for a new :class:`Option` of a command; ``heading`` is as in :func:`shared`."""
    return shared(Option(text, kind, **more), heading)


def switch(text: str, heading: str = "") -> Any:
    """Return a field for a flag without a value."""
    return option(text, truth, heading)


def failure_option(warn: str) -> Any:
    """Return a field for ``--on-failure``; ``warn`` describes the failures for which the exit code is then still 0."""
    about = f"warn: exit with 0 even if {warn}"
    return option(about, default="error", choices=("error", "warn"))


def shared(declared: Option, heading: str = "") -> Any:
    """Return a field for an option of several commands. ``heading`` starts a section of the help with this option."""
    if declared.default:
        default: Any = declared.kind(declared.default)
    elif declared.many:
        default = ()
    else:
        default = False if declared.is_switch else None
    return field(default=default, metadata={_OPTION: declared, _HEADING: heading})


def is_given(options: DataclassInstance, name: str) -> bool:
    """Whether the option ``name`` differs from its default."""
    default: DataclassInstance = type(options)()
    return bool(getattr(options, name) != getattr(default, name))


def options_of(command: type[DataclassInstance]) -> tuple[Option, ...]:
    """Return the options that a command's class declares, in the order of its help."""
    return tuple(option for options in sections_of(command).values() for option in options)


def sections_of(command: type[DataclassInstance]) -> Mapping[str, Sequence[Option]]:
    """Return a command's options by heading; those before the first heading are under an empty one."""
    sections: dict[str, list[Option]] = {}
    heading = ""
    for member in fields(command):
        heading = member.metadata[_HEADING] or heading
        sections.setdefault(heading, []).append(replace(member.metadata[_OPTION], name=member.name))
    return sections


def read(command: type[Given], namespace: argparse.Namespace, environ: Mapping[str, str]) -> Given:
    """Read a command's options. Raises :class:`UsageError`."""
    values = {one.name: one.read(getattr(namespace, one.name), environ) for one in options_of(command)}
    return command(**{name: value for name, value in values.items() if value is not None})


class HelpFormatter(argparse.HelpFormatter):
    """Keeps the line breaks of a description and wraps long lines, except commands, so that they can be copied."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrap(text, width, break_on_hyphens=False)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(_wrapped(indent + line, width) for line in text.splitlines())


def _wrapped(line: str, width: int) -> str:
    if line.startswith("  torchperf"):
        return line
    return fill(
        line, width, subsequent_indent=_HANGING if line.startswith(" ") else "", break_on_hyphens=False
    )


_HANGING = " " * len("  130 ")


CONFIG = Option("Project configuration file", metavar="FILE", otherwise="torchperf.yml, if it exists")
JSON = Option("Print JSON instead of a table", truth)
FORMAT = Option(
    "Which direction is better in results in github-action-benchmark's own format; other tools' formats are "
    "recognized by their content",
    otherwise="none; such results are refused",
    choices=("customSmallerIsBetter", "customBiggerIsBetter"),
)
REGION = Option("Region of the bucket and of STS", metavar="NAME", otherwise="AWS's own settings")
STORE = Option(
    "chdb://PATH (embedded) or clickhouse://USER@HOST[:PORT]/DATABASE[?secure=true]; the password is read from the "
    "environment variable TORCHPERF_STORE_PASSWORD",
    metavar="DSN",
    otherwise="the config's store, else chdb://.torchperf/store",
)
"""Options that are the same in several commands."""
