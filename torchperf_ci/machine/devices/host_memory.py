"""Host memory of processes in bytes: of this worker, and of another process as its parent sees it."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

from torchperf_ci.machine.devices.system_files import program_output

KIB = 1024
SELF = Path("/proc/self")
MEMINFO = Path("/proc/meminfo")


def allocated() -> int:
    """The resident set of this process."""
    return resident(os.getpid())


def resident(pid: int) -> int:
    """The resident set of process ``pid``; 0 if it is gone."""
    if sys.platform != "linux":
        return int(program_output("/bin/ps", "-o", "rss=", "-p", str(pid)).strip() or 0) * KIB
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGESIZE")


def reset_peak() -> None:
    """Start a new peak window, if the system can (see :func:`peak_method`)."""
    if _resettable():
        # proc_pid_clear_refs(5): 5 resets the peak resident set size (VmHWM).
        (SELF / "clear_refs").write_text("5")


def peak() -> int:
    """The largest resident set of this process since :func:`reset_peak`, or since it started."""
    if _resettable():
        return _kib((SELF / "status").read_text(), "VmHWM") * KIB
    # getrusage(2): kibibytes on Linux, bytes on macOS.
    unit = 1 if sys.platform == "darwin" else KIB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def peak_method() -> str:
    """``VmHWM`` if :func:`reset_peak` works, or ``ru_maxrss``, which counts from the start of the process."""
    return "VmHWM" if _resettable() else "ru_maxrss"


def available() -> int:
    """Memory available to new work without swapping; 0 if the system does not say."""
    if sys.platform != "linux":
        return 0
    return _kib(MEMINFO.read_text(), "MemAvailable") * KIB


def _resettable() -> bool:
    return os.access(SELF / "clear_refs", os.W_OK)


def _kib(text: str, key: str) -> int:
    """The value of a ``Key:   123 kB`` line."""
    for line in text.splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1])
    return 0
