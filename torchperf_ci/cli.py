"""The command line: parsing, help and exit codes. Each command is implemented in the package of its name."""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
from dataclasses import dataclass
from importlib import import_module
from inspect import cleandoc
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, NoReturn

from torchperf_ci import __version__, errors, interruption
from torchperf_ci.errors import EXIT_CODES, TorchperfError, UnknownNameError, UsageError, WorkloadsFailedError
from torchperf_ci.interruption import Stopped, output_is_closed, print_nothing_more, stoppable
from torchperf_ci.masking import without_secrets
from torchperf_ci.options import HelpFormatter, Option, options_of, read, sections_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from _typeshed import DataclassInstance

BUG = 70
READER_GONE = 128 + signal.SIGPIPE
"""Exit code if the reader of a pipe, such as ``head``, has ended, as for other programs."""
_MISSING = {
    **dict.fromkeys(("starlette", "uvicorn"), "pip install 'torchperf-ci[web]'"),
    "numpy": "pip install torchperf-ci; in a workflow use actions/setup: actions/upload has only what uploads need",
}
"""Packages that a command may lack, and how to install them."""


@dataclass(frozen=True)
class Command:
    """A command of one or two words: its options, whose docstring is its help, and its implementation.

    ``options`` is ``module:class`` in ``options``, ``action`` is ``module:function``: imported on use, to start fast.
    """

    name: str
    options: str
    action: str

    @property
    def options_class(self) -> type[DataclassInstance]:
        """The dataclass whose fields are the options."""
        found: type[DataclassInstance] = _imported(f"options.{self.options}")
        return found

    @property
    def help(self) -> str:
        """What the command does, in a sentence or two."""
        return self._docstring[0]

    @property
    def example(self) -> str:
        """A call of the command."""
        return self._docstring[2]

    @property
    def _docstring(self) -> tuple[str, str, str]:
        return cleandoc(self.options_class.__doc__ or "").partition("\n\n")

    def is_named_by(self, argv: Sequence[str]) -> bool:
        """Whether a command line begins with this command's name."""
        words = self.name.split()
        return [*argv[: len(words)]] == words

    def run(self, options: object) -> int:
        """Run the command and return the exit code. Raises :class:`UsageError` if a package it needs is missing."""
        try:
            action = _imported(self.action)
        except ModuleNotFoundError as error:
            remedy = _MISSING.get((error.name or "").partition(".")[0])
            if not remedy:
                raise
            raise UsageError(f"{self.name} needs packages that are not installed: {remedy}") from error
        with errors.system_refusals():
            code: int = action(options)
            return code


def _imported(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(f"torchperf_ci.{module}"), name)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the only place that prints errors and decides the exit code."""
    _prepare_streams()
    if "_ARGCOMPLETE" in os.environ:
        _answer_shell(os.environ["COMP_LINE"].split())
    try:
        try:
            return _run(argv)
        finally:
            print(end="", flush=True)  # flushing at the interpreter's exit would print an error
    except OSError as error:
        code = READER_GONE if output_is_closed() else UsageError.exit_code
        if code != READER_GONE:
            _print_error(f"the output cannot be written: {error.strerror}")
        print_nothing_more()
        return code


def _prepare_streams() -> None:
    """Write UTF-8 whatever the locale is: names and tables have characters that ASCII lacks, and JSON is UTF-8."""
    interruption.open_closed_streams()
    for stream, on_error in ((sys.stdout, "surrogateescape"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=on_error)


def _run(argv: Sequence[str] | None) -> int:
    options: Sequence[Option] = ()
    try:
        with stoppable(lambda stopped: _print_how_to_continue(stopped, options)):
            command, namespace = _parse(sys.argv[1:] if argv is None else argv)
            options = options_of(command.options_class)
            _warn_of_misspelled_variables(os.environ)
            return command.run(read(command.options_class, namespace, os.environ))
    except Stopped as stopped:
        _print_how_to_continue(stopped, options)
        return stopped.exit_code
    except TorchperfError as error:
        if isinstance(error, errors.SystemRefusalError):
            print(end="", flush=True)  # if that fails, it was the output that the system refused
        # Each workload has its annotation already.
        _print_error(str(error), "" if isinstance(error, WorkloadsFailedError) else str(error))
        return error.exit_code
    except Exception as error:  # whatever is left is our own bug
        if isinstance(error, BrokenPipeError) and output_is_closed():
            raise
        import traceback

        told = f"{traceback.format_exc()}this is a bug of torchperf: please report it with the lines above"
        _print_error(told, "a bug of torchperf: the log has its traceback")
        return BUG


def _answer_shell(line: Sequence[str]) -> None:
    """Answer a shell's request for completions, and end the process; zsh passes what stands before the command, too."""
    from torchperf_ci.shell_completion import answer_shell

    starts = [at for at, word in enumerate(line) if word.endswith(interruption.COMMAND_NAME)]
    begin = max((at for at in starts if at and re.search(r"=|[;&|(]$", line[at - 1])), default=0)
    os.environ["_ARGCOMPLETE"] = str(begin + 1)
    words = line[begin + 1 :]
    named = [command for command in COMMANDS if command.is_named_by(words)]
    options = [option for command in named for option in options_of(command.options_class)]
    answer_shell(_parser(words), options)


def _warn_of_misspelled_variables(environ: Iterable[str]) -> None:
    """Warn of each variable that no command reads, if it is nearly called like one that sets an option."""
    from torchperf_ci.config_kinds import resembling
    from torchperf_ci.console import say

    given = {name for name in environ if name.startswith("TORCHPERF_")}
    options = [option for command in COMMANDS if given for option in options_of(command.options_class)]
    known = {name for option in options for name in option.variables}
    for name in sorted(given - known):
        if near := resembling(name, known, 0.9):
            say(f"warning: {name} has no effect{near}")


def _print_how_to_continue(stopped: Stopped, options: Sequence[Option]) -> None:
    command = interruption.command_line(options, interruption.program(), stopped.resume)
    message = f"{stopped}; {stopped.outcome}: {command}"
    _print_error(message, message)


def _print_error(message: str, annotation: str = "") -> None:
    """Print an error, and annotate the job if ``annotation`` is not empty; a message may quote what was given."""
    from torchperf_ci.actions import Annotation, annotate
    from torchperf_ci.console import say

    say(*f"torchperf: error: {without_secrets(message)}".split("\n"))
    if annotation:
        annotate([Annotation("error", without_secrets(annotation), title="torchperf")])


def _parse(argv: Sequence[str]) -> tuple[Command, argparse.Namespace]:
    """Return the command and its arguments. Raises :class:`UsageError`; ends the process after ``--help``."""
    if argv[:1] == ["help"]:
        argv = [*argv[1:], "--help"]
    _check_words(argv)
    namespace, unknown = _parser(argv).parse_known_args(argv)
    if not unknown:
        return namespace.chosen, namespace
    name, word = f"torchperf {namespace.chosen.name}", unknown[0].partition("=")[0]
    if not word.startswith("-"):
        raise UsageError(f"{name} got an unexpected argument: {unknown[0]!r}; see {name} --help")
    flags = [option.flag for option in options_of(namespace.chosen.options_class) if not option.positional]
    raise UnknownNameError("option of " + name, word, flags, f"{name} --help")


def _check_words(argv: Sequence[str]) -> None:
    """Raise :class:`UnknownNameError` if the words before a command's first option are not a command."""
    is_option = "".join(argv[:1]).startswith("-")
    names = ["--help", "--version"] if is_option else ["help", *(command.name for command in COMMANDS)]
    commands = [name.split() for name in names]
    for words in ([*argv[:1]], [*argv[:2]]):
        known = {" ".join(name[: len(words)]) for name in commands if name[: len(words) - 1] == words[:-1]}
        if words in ([], ["-h"]) or "".join(words[1:]).startswith("-") or " ".join(words[:-1]) in known:
            return
        if " ".join(words) not in known:
            what = "option" if is_option else "command"
            raise UnknownNameError(what, " ".join(words), known, "torchperf --help")


class _Parser(argparse.ArgumentParser):
    """Reports errors in the same way as all other errors."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see {self.prog} --help")


def _parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    """Build a parser of the command in ``argv``; of all, without their options, if none is named there."""
    parser = _Parser(
        prog="torchperf",
        description="Continuous performance testing of PyTorch.",
        epilog=EXIT_CODES,
        formatter_class=HelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"torchperf {__version__}")
    verbs = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    families: dict[str, argparse._SubParsersAction[_Parser]] = {}
    for command in [each for each in COMMANDS if each.is_named_by(argv)] or COMMANDS:
        family, _, name = command.name.rpartition(" ")
        if family and family not in families:
            members = verbs.add_parser(family, help=FAMILIES[family], description=FAMILIES[family])
            families[family] = members.add_subparsers(metavar="COMMAND", required=True)
        verb = families.get(family, verbs).add_parser(
            name,
            help=command.help,
            description=command.help,
            epilog=f"example:\n  {command.example}",
            formatter_class=HelpFormatter,
        )
        if command.is_named_by(argv):
            for heading, options in sections_of(command.options_class).items():
                section = verb.add_argument_group(heading) if heading else verb
                for option in options:
                    option.add_to(section)
        verb.set_defaults(chosen=command)
    verbs.add_parser("help", help="Show the help of a command, as --help does.").add_argument(
        "command", choices=dict.fromkeys(command.name.split()[0] for command in COMMANDS)
    )
    return parser


FAMILIES = {
    "baseline": "Keep history next to the code: a file with one baseline per fingerprint.",
    "suite": "Analyze how much of PyTorch a suite covers, and find what would add to it.",
}
"""Help for the first word of commands that have two."""
COMMANDS = (
    Command("init", "setup_commands:InitOptions", "init.command:init_command"),
    Command("plan", "analysis_commands:PlanOptions", "plan.command:plan_command"),
    Command("run", "measurement_commands:RunOptions", "bench.commands:run_command"),
    Command("list", "measurement_commands:ListOptions", "bench.commands:list_command"),
    Command(
        "suite coverage", "measurement_commands:CoverageOptions", "bench.suite_coverage:coverage_command"
    ),
    Command(
        "suite discover", "measurement_commands:DiscoverOptions", "bench.suite_coverage:discover_command"
    ),
    Command("doctor", "measurement_commands:DoctorOptions", "bench.commands:doctor_command"),
    Command("upload", "storage_commands:UploadOptions", "upload.command:upload_command"),
    Command("pack", "storage_commands:PackOptions", "upload.command:pack_command"),
    Command("receive", "storage_commands:ReceiveOptions", "receive.command:receive_command"),
    Command("ingest", "storage_commands:IngestOptions", "web.command:ingest_command"),
    Command("query", "storage_commands:QueryOptions", "store.command:query_command"),
    Command("serve", "storage_commands:ServeOptions", "web.serve:serve_command"),
    Command("site", "storage_commands:SiteOptions", "web.command:site_command"),
    Command("check", "analysis_commands:CheckOptions", "check.command:check_command"),
    Command(
        "baseline update", "analysis_commands:BaselineUpdateOptions", "check.command:baseline_update_command"
    ),
    Command("history", "analysis_commands:HistoryOptions", "history:history_command"),
    Command("compare", "comparison_commands:CompareOptions", "compare.command:compare_command"),
    Command("bisect", "comparison_commands:BisectOptions", "bisect.command:bisect_command"),
    Command("report", "analysis_commands:ReportOptions", "report.command:report_command"),
    Command("watch", "analysis_commands:WatchOptions", "watch:watch_command"),
    Command("completion", "setup_commands:CompletionOptions", "shell_completion:completion_command"),
)
