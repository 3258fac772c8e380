"""Who may import whom (CONTRIBUTING.md), read from the source."""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Collection

PACKAGE = Path(__file__).parents[1] / "torchperf_ci"
OURS = "torchperf_ci"

# A room, and the rooms or modules of ours that it may import. For all are `errors`, `wording`, `metrics`, `document`.
MAY_IMPORT = {
    "stats": {"stats"},
    "records": {"records"},
    "suite": {"suite"},
    "bench/worker": {"bench.worker", "suite", "machine.devices"},
    "machine/devices": {"machine.devices"},
    "machine": {"machine"},
    "places": {"places", "records", "git", "deadline"},
    "store": {"store", "records", "places", "actions", "console", "config", "options"},
    "upload": {"upload", "store", "records", "places", "machine", "actions", "config", "deadline", "options"},
    "receive": {"receive", "records", "places", "deadline", "options"},
    "series": {"series", "records", "config", "store", "stats"},
    "verdicts": {"verdicts", "series", "stats", "json_file", "markdown", "actions", "console"},
    "culprits": {
        *("culprits", "verdicts.rows", "verdicts.again", "stats.effect"),
        *("json_file", "markdown", "actions", "console"),
    },
    "check": {
        "check",
        "series",
        "verdicts",
        "stats",
        "store",
        "records",
        "actions",
        "console",
        "config",
        "options",
    },
    "processes": {"processes"},
    "environments": {"environments", "processes", "records.files", "git", "deadline", "actions"},
    "compare": {
        *("compare", "series", "verdicts", "stats", "bench", "environments"),
        *("machine", "records", "git", "actions", "console", "config", "options", "interruption"),
    },
    "bisect/reasoning": {"bisect.reasoning", "stats"},
    "bisect/line": {"bisect.line", "environments", "git", "deadline"},
    "bisect": {
        *("bisect", "culprits", "verdicts", "series", "stats", "bench", "environments"),
        *("records.files", "machine", "git", "journal", "deadline", "interruption", "invocation"),
        *("actions", "console", "config", "options"),
    },
    "plan": {
        *("plan", "series", "verdicts", "bench.costs", "store", "records"),
        *("markdown", "actions", "console", "config", "options"),
    },
    "report/issues/causes": {
        *(
            "report.issues.causes",
            "culprits.culprit",
            "verdicts.luck",
            "verdicts.verdict",
            "verdicts.turn",
            "series",
            "stats.effect",
        ),
    },
    "report/issues/life": {
        *("report.issues.life", "report.issues.causes"),
        *("verdicts.verdict", "series", "stats.effect", "markdown"),
    },
    "report/issues/texts": {
        *("report.issues.texts", "report.issues.life", "report.issues.causes"),
        *("culprits", "verdicts", "series", "markdown", "actions"),
    },
    "report": {
        *("report", "culprits", "verdicts", "series", "stats.effect", "records.files"),
        *("markdown", "deadline", "actions", "console", "config", "options"),
    },
    "history": {
        *(
            "history",
            "series",
            "verdicts.rows",
            "stats",
            "store",
            "records",
            "actions",
            "console",
            "config",
            "options",
        ),
    },
    "options": {"options", "machine.devices", "metrics"},
    "bench": {
        *("bench", "records", "machine", "stats", "journal", "json_file", "processes", "interruption"),
        *("actions", "console", "config", "options"),
    },
}
# Rooms that run in the environment under test, which has torch and the standard library only.
UNDER_TEST = ("suite", "bench/worker", "machine/devices")


def files(room: str) -> list[Path]:
    """The files of a room, less those of a stricter room inside it."""
    inner = [PACKAGE / other for other in MAY_IMPORT if other != room and other.startswith(f"{room}/")]
    return [p for p in (PACKAGE / room).rglob("*.py") if not any(i in p.parents for i in inner)]


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
    allowed = {f"{OURS}.{name}" for name in MAY_IMPORT[room]}
    if room not in UNDER_TEST:
        allowed |= {f"{OURS}.{name}" for name in ("errors", "wording", "metrics", "document", "__version__")}
    for path in files(room):
        for name in imports(path, top_level=False):
            if name.split(".")[0] == OURS:
                assert any(name == a or name.startswith(f"{a}.") for a in allowed), f"{path} imports {name}"


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
    rooms = {p.name for p in PACKAGE.iterdir() if p.is_dir() and (p / "__init__.py").exists()}
    assert rooms <= {room.split("/")[0] for room in MAY_IMPORT}
