"""The catalogue of workloads: the built-in ones and those in a user's own files."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchperf_ci.suite.torchbench import PREFIX, torchbench_workloads
from torchperf_ci.suite.workload import DECORATED, Workload

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from types import ModuleType

# Modules whose workloads are in the catalogue. Importing them is cheap: only ``build`` imports model libraries.
PROVIDERS = (
    "torchperf_ci.suite.vision",
    "torchperf_ci.suite.language",
    "torchperf_ci.suite.recommendation",
    "torchperf_ci.suite.reinforcement",
    "torchperf_ci.suite.speech",
    "torchperf_ci.suite.scientific",
    "torchperf_ci.suite.operators",
    "torchperf_ci.suite.uncovered_operators",
    "torchperf_ci.suite.hugging_face",
    "torchperf_ci.suite.timm_and_torchvision",
    "torchperf_ci.suite.diffusers_models",
)

# Cheap to build and to run, and together covering all kinds of work: convolution, attention, recurrence, embeddings,
# many small kernels and a long elementwise chain; among the operators a product, an indexed sum and an optimizer.
QUICK = (
    "vision/resnet18",
    "language/nanogpt",
    "language/lstm_language_model",
    "recommendation/dlrm",
    "reinforcement/soft_actor_critic",
    "scientific/pyhpc_equation_of_state",
    "operators/matmul_512x512x512",
    "operators/scatter_add_8192x64",
    "operators/foreach_adamw_64x4096",
)


SUITES = ("quick", "core", "models", "operators", "transformers", "all")
"""The built-in suites."""
MODELS_OF_LIBRARIES_IN_CORE = 30
"""How many models of libraries the suite ``core`` has, the first ones in the table ordered by coverage.

All models that need only PyTorch are in the suite as well.
"""


CHOSEN_MODELS = Path(__file__).with_name("chosen_models.tsv")
"""The models with measured coverage, in the suite's order, as written by benchmarks/choose_models.py.

A triple is a family of ATen operators, a dtype and the layout that it ran on. ``cpu_seconds`` is for a training step on
one thread, or for an inference step if there is no training. ``triples`` counts those of both modes, ``adds`` those
that no earlier model has, ``alone`` those that no other model has.
"""


@dataclass(frozen=True)
class Catalogue:
    """All workloads by name, the names in each suite, and the reason, by name, why a workload cannot be built here."""

    workloads: Mapping[str, Workload]
    suites: Mapping[str, tuple[str, ...]]
    unavailable: Mapping[str, str]


class BadSuiteFileError(Exception):
    """A user's suite file cannot be used. ``line`` is None if the problem is not in a particular line."""

    def __init__(self, path: Path, line: int | None, problem: str) -> None:
        super().__init__(f"{path}:{line}: {problem}" if line else f"{path}: {problem}")


def catalogue(files: Sequence[Path] = ()) -> Catalogue:
    """Return all known workloads: the built-in ones and those of ``files``.

    A file's workloads form a suite named by the file's path. Raises BadSuiteFileError for a file that cannot be used.
    """
    modules = map(importlib.import_module, PROVIDERS)
    workloads = {entry.name: entry for module in modules for entry in _workloads_in(vars(module).values())}
    suites = _built_in_suites(workloads)
    sources = dict[str, str]()
    for path in dict.fromkeys(files):
        of_file = _load_file(path)
        _refuse_taken_names(path, of_file, workloads, sources)
        workloads |= {entry.name: entry for entry in of_file}
        sources |= {entry.name: str(path) for entry in of_file}
        suites[str(path)] = tuple(entry.name for entry in of_file)
    return Catalogue(workloads, suites, _unavailable(workloads))


def _unavailable(workloads: Mapping[str, Workload]) -> dict[str, str]:
    """Return by name why workloads cannot be built here. Looks once for the packages that many workloads require."""
    one_of_each = {tuple(entry.requires): entry for entry in workloads.values()}
    reasons = {requires: entry.unavailable for requires, entry in one_of_each.items()}
    return {name: why for name, entry in workloads.items() if (why := reasons[tuple(entry.requires)])}


def _built_in_suites(workloads: Mapping[str, Workload]) -> dict[str, tuple[str, ...]]:
    operators = tuple(name for name, entry in workloads.items() if entry.domain == "operators")
    transformers = tuple(name for name, entry in workloads.items() if entry.origin == "transformers")
    _, *lines = CHOSEN_MODELS.read_text("utf-8").splitlines()
    measured = [line.partition("\t")[0] for line in lines]
    models = tuple(dict.fromkeys((*measured, *(name for name in workloads if name not in operators))))
    of_libraries = [name for name in models if workloads[name].requires]
    core = tuple(name for name in models if name not in of_libraries[MODELS_OF_LIBRARIES_IN_CORE:])
    unavailable = _unavailable(workloads)
    available = tuple(name for name in workloads if name not in unavailable)
    return dict(zip(SUITES, (QUICK, core, models, operators, transformers, available), strict=True))


def _workloads_in(values: Iterable[object]) -> Iterator[Workload]:
    """Yield the workloads among the values, or in lists or tuples among them, each once and in order."""
    seen = set[int]()
    for value in values:
        for entry in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(entry, Workload) and id(entry) not in seen:
                seen.add(id(entry))
                yield entry


def _load_file(path: Path) -> list[Workload]:
    if str(path).startswith(PREFIX):
        models = torchbench_workloads(Path(str(path).removeprefix(PREFIX)))
        if not models:
            problem = "not a checkout of TorchBench: give the folder that has torchbenchmark/models"
            raise BadSuiteFileError(path, None, problem)
        return list(models)
    values = vars(_execute(path))
    decorated = [entry for entry, module in DECORATED if module is values]
    workloads = list(_workloads_in([decorated, *values.values()]))
    if not workloads:
        problem = "defines no workload: decorate a function `batch_size -> Task` with @workload(...)"
        raise BadSuiteFileError(path, None, problem)
    return workloads


class _SourceLoader(importlib.machinery.SourceFileLoader):
    """Loads a source file without writing bytecode next to it."""

    def set_data(self, *_: Any, **__: Any) -> None:
        """Do nothing, where the base class would write bytecode."""


_SUITE_FILE = "torchperf_suite_"
"""The name of a suite file's module begins with this and ends with its path in hexadecimal digits."""


def suite_file_spec(name: str) -> importlib.machinery.ModuleSpec:
    """Return how to load the suite file whose module has this name."""
    source = os.fsdecode(bytes.fromhex(name.removeprefix(_SUITE_FILE)))
    spec = importlib.util.spec_from_file_location(name, source, loader=_SourceLoader(name, source))
    assert spec
    return spec


def _execute(path: Path) -> ModuleType:
    """Import a file as a module with a unique name. Raises BadSuiteFileError if that fails."""
    if not path.is_file():
        problem = "no such file" if not path.exists() else "is not a file"
        raise BadSuiteFileError(path, None, f"{problem}: give the path of a Python file")
    source = str(path.absolute())
    name = f"{_SUITE_FILE}{os.fsencode(source).hex()}"
    spec = suite_file_spec(name)
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    # A file may raise anything, and `sys.exit()` in it must not end the worker.
    except (Exception, SystemExit) as error:
        sys.modules.pop(name, None)
        raise BadSuiteFileError(path, _line_in(source, error), _explanation(source, error)) from error
    return module


def _line_in(source: str, error: BaseException) -> int | None:
    """Return the line of the file that caused the error: its syntax error or its last frame; None if not in it."""
    if isinstance(error, SyntaxError) and error.filename == source:
        return error.lineno
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno for frame in reversed(frames) if frame.filename == source), None)


def _explanation(source: str, error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        imports = "" if error.filename == source else f"it imports {error.filename}:{error.lineno}: "
        return f"{imports}syntax error: {error.msg}"
    advice = ""
    if isinstance(error, ModuleNotFoundError):
        advice = "; install it, or name the folder that it is in: export PYTHONPATH=FOLDER"
    elif isinstance(error, ImportError) and not error.path:  # else it was found
        advice = "; import by absolute names"
    return f"importing the file raised {type(error).__name__}: {error}{advice}"


def _refuse_taken_names(
    path: Path, added: Sequence[Workload], workloads: Mapping[str, Workload], sources: Mapping[str, str]
) -> None:
    names = dict[str, Workload]()
    of_files = {_file_name(name): name for name in workloads}
    for entry in added:
        # A file may import a built-in workload to have it in its suite; that is the same object, not a conflict.
        if workloads.get(entry.name, entry) is not entry:
            if file := sources.get(entry.name):
                advice = "give it another name, or only the file that imports the other, if one does"
                _refuse(path, entry, f"the name is taken by {file}", advice)
            _refuse(path, entry, "the name is taken by the built-in suite")
        if names.setdefault(entry.name, entry) is not entry:
            _refuse(path, entry, "the name is defined twice in this file")
        if (other := of_files.setdefault(_file_name(entry.name), entry.name)) != entry.name:
            _refuse(path, entry, f"its records would be in the file of {other}")


def _file_name(name: str) -> str:
    """Return what tells the files of a workload's records apart, also on a disk that ignores case, as macOS's does."""
    return name.replace("/", "-").casefold()


def _refuse(path: Path, entry: Workload, problem: str, advice: str = "give it another name") -> None:
    code = getattr(entry.build, "__code__", None)
    line = code.co_firstlineno if code is not None and code.co_filename == str(path.absolute()) else None
    raise BadSuiteFileError(path, line, f"workload {entry.name!r}: {problem}; {advice}")
