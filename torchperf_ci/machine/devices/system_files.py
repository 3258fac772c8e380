"""Read what the system reports about the machine, in files and by programs; ``root`` differs from ``/`` in tests."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

CPUS = Path("sys/devices/system/cpu")


def text(path: Path) -> str:
    """The content of the file, stripped; empty if it is missing or unreadable."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def program_output(*command: str, seconds: float = 10.0) -> str:
    """What a program prints; empty if it is missing, fails, or takes longer than ``seconds``."""
    try:
        return subprocess.run(
            command,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=seconds,
            check=True,
            env={**os.environ, "LC_ALL": "C"},
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def number(path: Path) -> int | None:
    """The integer in the file, or None."""
    try:
        return int(text(path))
    except ValueError:
        return None


def numbers(ranges: str) -> tuple[int, ...]:
    """``0-3,8`` as ``(0, 1, 2, 3, 8)``, the kernel's list format."""
    found: list[int] = []
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        if first.strip().isdigit():
            found.extend(range(int(first), int(last or first) + 1))
    return tuple(found)


def online_cpus(root: Path) -> tuple[int, ...]:
    """The CPUs that are online."""
    return numbers(text(root / CPUS / "online"))


def cpu_files(root: Path, pattern: str) -> list[Path]:
    """All files that match ``pattern`` in the folders of the online CPUs, in the order of CPUs."""
    return [path for cpu in online_cpus(root) for path in sorted((root / CPUS / f"cpu{cpu}").glob(pattern))]
