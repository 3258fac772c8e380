"""Print as JSON what is installed in an environment, or only the distributions that the arguments name.

``python`` names the environment's Python itself, which runs this with the standard library only.
"""

from __future__ import annotations

import json
import platform
import re
import sys
from importlib import metadata
from pathlib import Path

# PyTorch and its libraries have a file in their package that names the commit they were built from.
_VERSION_FILE = re.compile(r"^([^/,\"\n]+/version\.py),", re.MULTILINE)
_COMMIT = re.compile(r"^git_version\b[^=\n]*=\s*['\"]([0-9a-f]{7,40})['\"]", re.MULTILINE)


def _commit(distribution: metadata.Distribution) -> str:
    """The commit in ``version.py``, read without an import, which would take seconds and may need missing drivers."""
    for path in _VERSION_FILE.findall(distribution.read_text("RECORD") or ""):
        file = Path(str(distribution.locate_file(path)))
        if file.is_file() and (found := _COMMIT.search(file.read_text("utf-8", errors="replace"))):
            return found[1]
    return ""


def _installed(names: list[str | None]) -> dict[str, dict[str, str | bool]]:
    installed: dict[str, dict[str, str | bool]] = {}
    for distribution in (found for name in names for found in metadata.distributions(name=name)):
        if name := distribution.metadata["Name"]:  # an incomplete uninstall leaves metadata without a name
            facts: dict[str, str | bool] = {
                "version": distribution.version,
                "commit": _commit(distribution),
                "requested": distribution.read_text("REQUESTED") is not None,
            }
            # By https://packaging.python.org/en/latest/specifications/name-normalization/
            # Of duplicates, the first on the path is imported.
            installed.setdefault(re.sub(r"[-_.]+", "-", name).lower(), facts)
    if "python" in names:
        version = ".".join(platform.python_version_tuple()[:2])
        installed["python"] = {"version": version, "commit": "", "requested": False}
    return installed


if __name__ == "__main__":
    print(json.dumps(_installed([*sys.argv[1:]] or [None])))
