"""Rules that keep the package readable: short files and functions, few folders, unique names."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "torchperf_ci"
FILES = sorted(PACKAGE.rglob("*.py"))
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 50
MAX_MAPPINGS_OF_ANY = 30
MODULES_OF_EVERY_ROOM = {"__init__", "__main__", "command"}


def in_package(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@pytest.mark.parametrize("path", FILES, ids=in_package)
def test_files_and_functions_are_short(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= MAX_FILE_LINES
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno
            length = node.end_lineno - node.lineno + 1
            assert length <= MAX_FUNCTION_LINES, f"{node.name} has {length} lines"


def test_a_room_has_at_most_one_folder_below_it() -> None:
    assert not [path for path in FILES if len(path.relative_to(PACKAGE).parts) > 3]


def test_a_modules_name_is_that_of_one_module() -> None:
    names = Counter(path.stem for path in FILES if path.stem not in MODULES_OF_EVERY_ROOM)
    assert not [name for name, count in names.items() if count > 1]


def test_a_classs_name_is_that_of_one_class() -> None:
    found = defaultdict(list)
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(in_package(path))
    twice = {name: paths for name, paths in found.items() if len(paths) > 1}
    assert not twice


def test_no_two_folders_import_each_other() -> None:
    imported = defaultdict(set)
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(PACKAGE.name):
                imported[path.parent] |= {folder(f"{node.module}.{alias.name}") for alias in node.names}
    # What lies at the top is used by every room; which room may be used there, test_architecture.py knows.
    both = {
        frozenset(map(in_package, (here, there)))
        for here, others in imported.items()
        for there in others - {here, PACKAGE}
        if here != PACKAGE and here in imported.get(there, ())
    }
    assert not both


def folder(name: str) -> Path:
    """That of a module, or of what a module has."""
    path = PACKAGE.parent.joinpath(*name.split("."))
    return path if path.is_dir() else next(parent for parent in path.parents if parent.is_dir())


def test_what_is_known_of_a_mapping_is_said_by_a_type() -> None:
    """JSON, YAML and torch come in without types: they get some there."""
    untyped = re.compile(r"\b(?:Mapping|dict)\[str, Any\]")
    assert sum(len(untyped.findall(path.read_text())) for path in FILES) <= MAX_MAPPINGS_OF_ANY
