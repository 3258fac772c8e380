"""The import rules of CONTRIBUTING.md, checked on the source."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Collection

PACKAGE = Path(__file__).parents[1] / "torchperf_ci"
CONTRIBUTING = PACKAGE.parent / "CONTRIBUTING.md"
OURS = "torchperf_ci"

# What every room may import, except those that run in the environment under test.
COMMON = {"errors", "metrics", "document", "masking", "__version__"}
# What a room that talks to people, to the job or to other programs may import as well.
TOOLS = {
    *("actions", "console", "markdown", "page", "command_output", "config", "options", "json_files"),
    *("deadline", "git", "github", "http_client", "identity", "interruption", "processes", "scratch"),
}
# A room, or a module at the top, and what else it may import: rooms below it, the lowest first.
MAY_IMPORT = {
    "errors": set(),
    "metrics": set(),
    "document": set(),
    "masking": set(),
    "deadline": set(),
    "http_client": {"deadline", "records"},
    "processes": set(),
    "request_log": set(),
    "config_kinds": set(),
    "stats": set(),
    "records": set(),
    "scratch": {"records"},
    "imports": {"records"},
    "machine/devices": set(),
    "suite": {"machine.devices"},
    "machine": {"processes"},
    "bench/worker": {"suite", "machine.devices", "metrics"},
    "options": {"machine.devices", "places"},
    "actions": set(),
    "git": {"deadline", "processes"},
    "github": {"actions", "deadline", "http_client"},
    "identity": {"actions", "deadline", "git", "github"},
    "console": {"actions"},
    "markdown": {"actions"},
    "page": {"actions", "markdown"},
    "command_output": {"actions", "console", "markdown"},
    "interruption": {"options"},
    "shell_completion": {"interruption", "options", "config"},
    "json_files": {"actions", "records", "stats"},
    "config": {"config_kinds", "console", "options", "places", "records"},
    "places": {"records", "scratch", "git", "deadline", "github", "http_client"},
    "store": {*TOOLS, "imports", "records", "places"},
    "series": {"imports", "records", "store", "stats", "config"},
    "verdicts": {"series", "stats", "json_files", "actions", "command_output"},
    "culprits": {"verdicts", "stats", "json_files", "github", "actions", "command_output"},
    "environments": {"records", "scratch", "processes", "git", "deadline", "actions"},
    "bench": {*TOOLS, "records", "machine", "stats"},
    "issues": {*TOOLS, "culprits", "verdicts", "series", "stats"},
    "upload": {*TOOLS, "store", "imports", "records", "places", "machine"},
    "http_server": {"interruption", "request_log"},
    "receive": {*TOOLS, "records", "places", "http_server", "request_log"},
    "compare": {*TOOLS, "series", "verdicts", "stats", "bench", "environments", "machine", "records"},
    "check": {*TOOLS, "series", "verdicts", "stats", "store", "places", "records"},
    "history": {*TOOLS, "series", "verdicts", "stats", "store", "records"},
    "bisect/reasoning": {"stats", "culprits.culprit"},
    "bisect": {
        *(*TOOLS, "culprits", "verdicts", "series", "stats"),
        *("bench", "environments", "machine", "records"),
    },
    "plan": {*TOOLS, "series", "verdicts", "bench", "store", "records"},
    "report": {*TOOLS, "issues", "culprits", "verdicts", "records"},
    "web": {*TOOLS, "series", "culprits", "stats", "store", "records", "places", "receive", "http_server"},
    "watch": {*TOOLS, "issues"},
    "init": TOOLS,
}
# Rooms that run in the environment under test, which has torch and the standard library only.
UNDER_TEST = ("suite", "bench/worker", "machine/devices")


def files(room: str) -> list[Path]:
    """The files of a room, less those of a stricter room inside it."""
    inner = [PACKAGE / other for other in MAY_IMPORT if other != room and other.startswith(f"{room}/")]
    paths = [PACKAGE / f"{room}.py", *(PACKAGE / room).rglob("*.py")]
    return [p for p in paths if p.exists() and not any(i in p.parents for i in inner)]


def imports(path: Path, *, top_level: bool) -> set[str]:
    tree = ast.parse(path.read_text())
    nodes = _module_level(tree) if top_level else list(ast.walk(tree))
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative import"
            found |= (
                {f"{node.module}.{alias.name}" for alias in node.names}
                if node.module == OURS
                else {node.module}
            )
    return found - {"__future__", None}


def _module_level(tree: ast.Module) -> list[ast.stmt]:
    """Statements that run on import: not those inside functions, nor under TYPE_CHECKING."""
    nodes: list[ast.stmt] = []
    queue: list[ast.AST] = list(tree.body)
    while queue:
        node = queue.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            queue += node.orelse
            continue
        if isinstance(node, ast.stmt):
            nodes.append(node)
        queue += list(ast.iter_child_nodes(node))
    return nodes


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_room_imports_only_what_lies_below_it(room: str) -> None:
    allowed = {room.replace("/", "."), *MAY_IMPORT[room], *(() if room in UNDER_TEST else COMMON)}
    for path in files(room):
        for name in imports(path, top_level=False):
            if name.split(".")[0] == OURS:
                below = any(f"{name}.".startswith(f"{OURS}.{other}.") for other in allowed)
                assert below, f"{path} imports {name}"


def test_no_room_lies_below_itself() -> None:
    graph = {room: {other.replace(".", "/") for other in others} for room, others in MAY_IMPORT.items()}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names them


@pytest.mark.parametrize("room", UNDER_TEST)
def test_what_runs_under_test_needs_torch_and_the_standard_library_only(room: str) -> None:
    for path in files(room):
        for name in imports(path, top_level=True):
            root = name.split(".")[0]
            assert root in {OURS, "torch"} or root in sys.stdlib_module_names, f"{path} imports {name}"


def test_what_is_not_under_test_needs_no_torch() -> None:
    """The tests' environment has it, the toolkit's has not."""
    rooms = [PACKAGE / room for room in ("suite", "bench/worker")]
    others = [p for p in PACKAGE.rglob("*.py") if not any(room in p.parents for room in rooms)]
    modules = [_module(path) for path in others if path.name != "__main__.py"]
    code = "import importlib, sys; sys.modules['torch'] = None; [*map(importlib.import_module, sys.argv[1:])]"
    subprocess.run([sys.executable, "-c", code, *modules], check=True, timeout=300)


def test_no_file_imports_itself_by_way_of_others() -> None:
    modules = {_module(path): path for path in PACKAGE.rglob("*.py")}
    graph = {name: _imported(path, modules) for name, path in modules.items()}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names them


def _imported(path: Path, modules: Collection[str]) -> set[str]:
    """The ``modules`` that a file imports, for its types as well; of ``from a import b`` that is ``a.b`` or ``a``."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in modules else str(node.module) for name in inner}
    return found & set(modules)


def _module(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def test_every_room_is_watched() -> None:
    """Only the command line may import everything."""
    assert rooms() - {"cli"} == {room.split("/")[0] for room in MAY_IMPORT}


def test_the_table_of_contributing_names_every_room() -> None:
    table = [line for line in CONTRIBUTING.read_text().splitlines() if line.startswith("| `")]
    named = [name.rstrip("/") for line in table for name in re.findall("`([^`]+)`", line.split("|")[1])]
    assert sorted(named) == sorted(rooms())


def rooms() -> set[str]:
    """The folders and the modules at the top of the package."""
    names = {p.stem for p in PACKAGE.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    return names - {"__init__", "__main__"}
