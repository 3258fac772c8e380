"""Entry point of a worker, run by its path in the environment under test: ``python bootstrap.py CHANNEL_FD``.

It makes this package importable there without putting the toolkit's own site-packages on ``sys.path``, so that nothing
from the toolkit's environment can leak into the measured one.
"""

from __future__ import annotations

import faulthandler
import importlib.util
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

PACKAGE = Path(__file__).resolve().parents[2]
OLDEST_PYTHON = (3, 10)


def main() -> None:
    if sys.version_info < OLDEST_PYTHON:
        sys.exit(f"this is Python {sys.version.split()[0]}, and measuring needs 3.10 or newer")
    # The parent sends it to a worker that takes too long, which then writes its calls to its log and ends.
    faulthandler.register(signal.SIGUSR1, chain=True)
    # The interpreter puts this file's folder first on sys.path, unless PYTHONSAFEPATH forbids it. The modules in it
    # must not shadow those of the environment.
    if not getattr(sys.flags, "safe_path", False):  # new in Python 3.11
        sys.path.pop(0)
    register_package()

    from torchperf_ci.bench.worker import garbage_collector_paused

    with garbage_collector_paused():
        from torchperf_ci.bench.worker.session import serve
    serve(int(sys.argv.pop()))  # a suite file that parses arguments finds none


def register_package() -> None:
    """Import this package by its path."""
    spec = importlib.util.spec_from_file_location(
        "torchperf_ci", PACKAGE / "__init__.py", submodule_search_locations=[str(PACKAGE)]
    )
    if spec is None or spec.loader is None:
        sys.exit(f"cannot load {PACKAGE}")
    package = importlib.util.module_from_spec(spec)
    sys.modules["torchperf_ci"] = package
    spec.loader.exec_module(package)


class SuiteFileFinder:
    """Finds the modules of suite files by their names in a process that a workload spawns, such as a data loader's."""

    @staticmethod
    def find_spec(name: str, *_: object) -> ModuleSpec | None:
        if not name.startswith("torchperf_suite_"):
            return None
        from torchperf_ci.suite.registry import suite_file_spec

        return suite_file_spec(name)


if __name__ == "__main__":
    main()
elif __name__ == "__mp_main__":
    register_package()
    sys.meta_path.append(SuiteFileFinder)
