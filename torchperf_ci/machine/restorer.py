"""A separate process that remembers states of the machine and restores them when its parent has ended.

It is started by path (``python restorer.py``) and needs only the standard library, and a vendor's library for that
vendor's states. It reads one request per line from standard input:

* ``{"kind": "file", "path": "/sys/…"}``: the content of a file
* ``{"kind": "nvml_persistence", "uuid": "GPU-…"}``: the persistence mode
* ``{"kind": "nvml_clocks", "uuid": "GPU-…"}``: unlocked clocks; NVML cannot report an earlier lock
* ``{"kind": "amdsmi_perf_level", "uuid": "…"}``: the performance level

It answers each with a line on standard output: empty if the state is remembered, else why it could not be restored and
must not be changed. At end of file, however the parent ended, the states are restored in reverse order, and a line that
begins with ``not restored: `` names each that stayed changed.
"""

from __future__ import annotations

import contextlib
import json
import signal
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Undo = Callable[[], None]


def main() -> None:
    # Signals that stop the parent (Ctrl-C, a canceled job) must not stop the restorer.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    undos: list[tuple[str, Undo]] = []
    for line in sys.stdin:
        request = json.loads(line)
        try:
            name = request.get("path") or f"{request['kind']} of {request['uuid']}"
            undos.append((name, REMEMBER[request["kind"]](request)))
            print(flush=True)
        except Exception as error:  # noqa: BLE001  # vendors' libraries raise arbitrary exceptions
            print(_reason(error), flush=True)
    for name, undo in reversed(undos):
        try:
            undo()
        except Exception as error:  # noqa: BLE001  # the other states must still be restored
            print(f"torchperf: not restored: {name}: {_reason(error)}", file=sys.stderr)
            with contextlib.suppress(BrokenPipeError):
                print(f"not restored: {name}: {_reason(error)}", flush=True)


def _back_to(read: Callable[[], str], write: Callable[[str], object]) -> Undo:
    """Restore what ``read`` returns now, unless it is unchanged."""
    before = read()

    def undo() -> None:
        if read() != before:
            write(before)

    return undo


def remember_file(request: Mapping[str, str]) -> Undo:
    """Restore the content of a file."""
    path = Path(request["path"])
    return _back_to(path.read_text, path.write_text)


def remember_nvml_persistence(request: Mapping[str, str]) -> Undo:
    """Restore the persistence mode."""
    nvml, gpu = _nvidia(request["uuid"])
    return _back_to(
        partial(nvml.nvmlDeviceGetPersistenceMode, gpu), partial(nvml.nvmlDeviceSetPersistenceMode, gpu)
    )


def remember_nvml_clocks(request: Mapping[str, str]) -> Undo:
    """Unlock the clocks. A caller without permission cannot have locked them, so a refusal is ignored."""
    nvml, gpu = _nvidia(request["uuid"])

    def undo() -> None:
        with contextlib.suppress(nvml.NVMLError_NoPermission, nvml.NVMLError_NotSupported):
            nvml.nvmlDeviceResetGpuLockedClocks(gpu)

    return undo


def remember_amdsmi_perf_level(request: Mapping[str, str]) -> Undo:
    """Restore the performance level."""
    amdsmi, gpu = _amd(request["uuid"])
    read = partial(amdsmi.amdsmi_get_gpu_perf_level, gpu)
    level = amdsmi.AmdSmiDevPerfLevel[read().removeprefix("AMDSMI_DEV_PERF_LEVEL_")]
    return _back_to(read, lambda _before: amdsmi.amdsmi_set_gpu_perf_level(gpu, level))


REMEMBER: Mapping[str, Callable[[Mapping[str, str]], Undo]] = {
    "file": remember_file,
    "nvml_persistence": remember_nvml_persistence,
    "nvml_clocks": remember_nvml_clocks,
    "amdsmi_perf_level": remember_amdsmi_perf_level,
}


def _nvidia(uuid: str) -> tuple[Any, Any]:
    import pynvml

    pynvml.nvmlInit()
    return pynvml, pynvml.nvmlDeviceGetHandleByUUID(uuid)


def _amd(uuid: str) -> tuple[Any, Any]:
    import amdsmi

    amdsmi.amdsmi_init()
    gpus = amdsmi.amdsmi_get_processor_handles()
    return amdsmi, next(gpu for gpu in gpus if amdsmi.amdsmi_get_gpu_device_uuid(gpu) == uuid)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return " ".join(str(error).split()) or type(error).__name__


if __name__ == "__main__":
    # Python puts this file's folder first on sys.path; modules next to it must not shadow libraries.
    sys.path.pop(0)
    main()
