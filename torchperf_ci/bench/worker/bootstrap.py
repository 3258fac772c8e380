"""Started by path in the environment under test: ``python bootstrap.py CHANNEL_FD``.

Makes this package importable there without putting the toolkit's own site-packages on ``sys.path``, so that nothing
of the toolkit's environment can leak into the one that is measured.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2]


def main() -> None:
    # The interpreter has put this file's folder first (unless PYTHONSAFEPATH forbids it); its modules must not shadow
    # the environment's.
    if not getattr(sys.flags, "safe_path", False):  # new in Python 3.11
        sys.path.pop(0)
    spec = importlib.util.spec_from_file_location(
        "torchperf_ci", PACKAGE / "__init__.py", submodule_search_locations=[str(PACKAGE)]
    )
    if spec is None or spec.loader is None:
        sys.exit(f"cannot load {PACKAGE}")
    package = importlib.util.module_from_spec(spec)
    sys.modules["torchperf_ci"] = package
    spec.loader.exec_module(package)

    from torchperf_ci.bench.worker.session import serve

    serve(int(sys.argv[1]))


if __name__ == "__main__":
    main()
