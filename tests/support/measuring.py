"""Call ``torchperf`` as a user does, and read the records of what it measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

FAST = ("--device", "cpu", "--target-ci", "0.5", "--budget", "0.1")


def torchperf(*argv: str | Path, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("GITHUB_", "TORCHPERF_"))} | environ
    command = [sys.executable, "-m", "torchperf_ci", *map(str, argv)]
    return subprocess.run(command, capture_output=True, text=True, env=env, cwd=cwd, timeout=300)


@dataclass(frozen=True)
class Called:
    """How a command ended, and what it said."""

    returncode: int
    stdout: str
    stderr: str


def records_in(folder: Path) -> dict[str, dict[str, Any]]:
    """Records by workload and metric."""
    found = [record for file in sorted(folder.glob("*.json")) for record in json.loads(file.read_text())]
    return {f"{record['model']['name']} {record['metric']['name']}": record for record in found}
