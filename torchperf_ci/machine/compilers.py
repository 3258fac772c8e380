"""The compilers that inductor and extensions would use."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION_SECONDS = 10.0


def compilers() -> Mapping[str, str]:
    """Versions of ``cxx`` (``CXX``, else g++, c++ or clang++) and ``nvcc``, in their words, where found."""
    candidates = {
        "cxx": [*shlex.split(os.environ.get("CXX", ""))[:1], "g++", "c++", "clang++"],
        "nvcc": ["nvcc"],
    }
    found = {
        kind: next(filter(None, map(shutil.which, programs)), None) for kind, programs in candidates.items()
    }
    versions = {kind: _version(program) for kind, program in found.items() if program}
    return {kind: version for kind, version in versions.items() if version}


def _version(program: str) -> str:
    """nvcc writes its release in the fourth line; the others all they say in the first."""
    try:
        answer = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=VERSION_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    lines = answer.stdout.splitlines()
    return next((line for line in lines if "release" in line), lines[0] if lines else "")
