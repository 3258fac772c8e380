"""Shell completion by argcomplete: the script that enables it, and the values that are offered."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from argcomplete import autocomplete
from argcomplete.completers import FilesCompleter
from argcomplete.shell_integration import shellcode

from torchperf_ci.config import CONFIG_FILE, load_config
from torchperf_ci.errors import TorchperfError, UsageError
from torchperf_ci.interruption import COMMAND_NAME
from torchperf_ci.metrics import METRICS
from torchperf_ci.options.measurement_commands import SUITES
from torchperf_ci.options.option import DEVICES, Option

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from argcomplete.completers import BaseCompleter

    from torchperf_ci.options.setup_commands import CompletionOptions


def completion_command(options: CompletionOptions) -> int:
    """Print the script that enables completion in a shell."""
    if options.shell is None:
        raise UsageError("for which shell? give bash, zsh or fish")
    print(shellcode([COMMAND_NAME], shell=options.shell))
    return 0


def answer_shell(parser: argparse.ArgumentParser, options: Sequence[Option]) -> None:
    """Print the completions at the cursor for the shell, and end the process."""
    by_name = {option.name: option for option in options}

    def values(*, prefix: str, action: argparse.Action, **_: object) -> Sequence[str]:
        """Return the known values of an option, else file names."""
        option = by_name.get(action.dest)
        known = _known_values(option) if option else ()
        if action.dest == "suite":
            return [*known, *FilesCompleter(["py"])(prefix)]
        if not (option and known):
            return [*FilesCompleter()(prefix)]
        before = prefix[: prefix.rfind(",") + 1] if option.many else ""
        return [f"{before}{value}" for value in known]

    autocomplete(parser, always_complete_options=False, default_completer=cast("BaseCompleter", values))


def _known_values(option: Option) -> Sequence[str]:
    if option.choices:
        return option.choices
    match option.flag:
        case "--suite":
            return (*SUITES, *_configured_suites())
        case "--device":
            return DEVICES
        case "--metric" | "--metrics":
            return tuple(METRICS)
        case _:
            return ()


def _configured_suites() -> Sequence[str]:
    try:
        return tuple(load_config(CONFIG_FILE).suites)
    except TorchperfError:  # there is none, or the command itself reports what is wrong
        return ()
