"""The advice in messages can be followed."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import torchperf_ci
from torchperf_ci.cli import COMMANDS
from torchperf_ci.options import options_of

PACKAGE = Path(torchperf_ci.__file__).parent
OTHERS = re.compile(r"`?(?:torchperf|git|pip|uv) [a-z]+ [^`]*`?")
"""A command that is told with its options."""


def options_of_rooms() -> dict[str, set[str]]:
    """The options of the commands that each room has."""
    found: dict[str, set[str]] = defaultdict(lambda: {"--help"})
    for command in COMMANDS:
        for option in options_of(command.options_class):
            found[command.action.partition(".")[0]] |= {option.flag, *option.aliases}
        if command.name == "ingest":  # the room of its action ingests with this one
            found["store"] |= {option.flag for option in options_of(command.options_class)}
    for room in ("compare", "bisect"):  # they measure with it
        found["bench"] |= found[room]
    return found


def messages(path: Path) -> list[str]:
    """The texts of errors: what is raised, and what is assigned to ``msg`` before."""
    nodes = [*ast.walk(ast.parse(path.read_text()))]
    told = [
        node.value
        for node in nodes
        if isinstance(node, ast.Assign) and "msg" in {getattr(target, "id", "") for target in node.targets}
    ]
    told += [node.exc for node in nodes if isinstance(node, ast.Raise) and node.exc]
    return [
        " ".join(
            part.value
            for part in ast.walk(value)
            if isinstance(part, ast.Constant) and isinstance(part.value, str)
        )
        for value in told
    ]


def test_messages_name_options_that_the_command_has() -> None:
    told, wrong = 0, []
    for room, options in options_of_rooms().items():
        for path in (PACKAGE / room).rglob("*.py"):
            for message in messages(path):
                named = re.findall(r"(?<![\w-])--[a-z][a-z-]+", OTHERS.sub("", message))
                told += len(named)
                wrong += [(path.name, name, message) for name in named if name not in options]
    assert not wrong
    assert told > 60


def test_whoever_reads_the_configuration_takes_its_path() -> None:
    """Its errors tell ``--config``, whichever command reads it."""
    for room, options in options_of_rooms().items():
        if any("find_config(" in path.read_text() for path in (PACKAGE / room).rglob("*.py")):
            assert "--config" in options, room
