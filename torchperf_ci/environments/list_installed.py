"""Run by the Python of an environment, with the standard library only: prints as JSON what is installed there."""

from __future__ import annotations

import json
import re
from importlib import metadata
from pathlib import Path

# PyTorch and its libraries say in a file beside their package which commit they were built from.
_VERSION_FILE = re.compile(r"^([^/,\"\n]+/version\.py),", re.MULTILINE)
_COMMIT = re.compile(r"^git_version\b[^=\n]*=\s*['\"]([0-9a-f]{7,40})['\"]", re.MULTILINE)


def _commit(distribution: metadata.Distribution) -> str:
    """Read, not imported: that would take seconds, and drivers that may not be there."""
    for path in _VERSION_FILE.findall(distribution.read_text("RECORD") or ""):
        file = Path(str(distribution.locate_file(path)))
        if file.is_file() and (found := _COMMIT.search(file.read_text("utf-8", errors="replace"))):
            return found[1]
    return ""


def _normalised(name: str) -> str:
    """https://packaging.python.org/en/latest/specifications/name-normalization/"""
    return re.sub(r"[-_.]+", "-", name).lower()


def _installed() -> dict[str, dict[str, str | bool]]:
    found: dict[str, dict[str, str | bool]] = {}
    for distribution in metadata.distributions():
        if name := distribution.metadata["Name"]:  # there is none in what a broken removal left
            facts: dict[str, str | bool] = {
                "version": distribution.version,
                "commit": _commit(distribution),
                "requested": distribution.read_text("REQUESTED") is not None,
            }
            found.setdefault(_normalised(name), facts)  # the first one is imported
    return found


if __name__ == "__main__":
    print(json.dumps(_installed()))
