"""Read what the system reports about the machine and about the memory of its processes, in files and by programs.

``root`` differs from ``/`` in tests. Memory is in bytes.
"""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

CPUS = Path("sys/devices/system/cpu")


def text(path: Path) -> str:
    """The content of the file, stripped; empty if it is missing or unreadable."""
    with suppress(OSError):
        return path.read_text(errors="replace").strip()
    return ""


def program_output(*command: str, seconds: float = 10.0) -> str:
    """What a program prints; empty if it is missing, fails, or takes longer than ``seconds``."""
    with suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(
            command,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=seconds,
            check=True,
            env={**os.environ, "LC_ALL": "C"},
        ).stdout
    return ""


def number(path: Path) -> int | None:
    """The integer in the file, or None."""
    with suppress(ValueError):
        return int(text(path))
    return None


def numbers(ranges: str) -> tuple[int, ...]:
    """``0-3,8`` as ``(0, 1, 2, 3, 8)``, the kernel's list format."""
    listed: list[int] = []
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        if first.strip().isdigit():
            listed.extend(range(int(first), int(last or first) + 1))
    return tuple(listed)


def online_cpus(root: Path) -> tuple[int, ...]:
    """The CPUs that are online."""
    return numbers(text(root / CPUS / "online"))


def siblings(root: Path, cpu: int) -> tuple[int, ...]:
    """The CPUs of the same core, including this one; only this one where the system does not say, as in gVisor."""
    listed = numbers(text(root / CPUS / f"cpu{cpu}" / "topology/thread_siblings_list"))
    return listed if cpu in listed else (cpu,)


def cpu_files(root: Path, pattern: str) -> list[Path]:
    """All files that match ``pattern`` in the folders of the online CPUs, in the order of CPUs."""
    return [path for cpu in online_cpus(root) for path in sorted((root / CPUS / f"cpu{cpu}").glob(pattern))]


KIB = 1024
SELF = Path("/proc/self")


def resident_memory(pid: int = 0) -> int:
    """The resident set of process ``pid`` (this one by default); 0 if it is gone."""
    pid = pid or os.getpid()
    if sys.platform != "linux":
        return int(program_output("/bin/ps", "-o", "rss=", "-p", str(pid)).strip() or 0) * KIB
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGESIZE")


def reset_peak_memory() -> None:
    """Start a new peak window, if the system can (see :func:`peak_memory_method`).

    Freed memory that the allocator keeps goes back to the system first: it would count as if it were in use.
    """
    if _resettable():
        with suppress(AttributeError):  # only glibc has it
            ctypes.CDLL(None).malloc_trim(0)
        # proc_pid_clear_refs(5): 5 resets the peak resident set size (VmHWM).
        (SELF / "clear_refs").write_text("5")


def peak_memory() -> int:
    """The largest resident set of this process since :func:`reset_peak_memory`, or since it started."""
    if _resettable():
        return memory_in(text(SELF / "status"), "VmHWM")
    # getrusage(2): kibibytes on Linux, bytes on macOS.
    unit = 1 if sys.platform == "darwin" else KIB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def peak_memory_method() -> str:
    """``VmHWM`` if :func:`reset_peak_memory` works, or ``ru_maxrss``, which counts from the start of the process."""
    return "VmHWM" if _resettable() else "ru_maxrss"


def _resettable() -> bool:
    return os.access(SELF / "clear_refs", os.W_OK)


def memory_in(lines: str, key: str) -> int:
    """The bytes of a ``Key:   123 kB`` line; 0 if there is none."""
    for line in lines.splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * KIB
    return 0
