"""Make the machine steadier for a measurement: choose quiet CPUs, and change settings and restore them afterwards."""

from __future__ import annotations

import errno
import json
import os
import select
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from torchperf_ci.errors import NotRestoredError, SystemRefusalError
from torchperf_ci.machine.devices.interface import Device, TuningChange, VendorToolError
from torchperf_ci.machine.devices.system_files import (
    CPUS,
    cpu_files,
    number,
    numbers,
    online_cpus,
    siblings,
    text,
)
from torchperf_ci.processes import MARKS

NODES = Path("sys/devices/system/node")
PCI_DEVICES = Path("sys/bus/pci/devices")
DEEP_MICROSECONDS = 10
"""Idle states with a longer exit latency count as deep: waking from them delays short kernels noticeably."""
EFFICIENT_SHARE = 0.75
"""A CPU with less than this share of the largest capacity is an efficiency core."""
PROGRAM = Path(__file__).with_name("restorer.py")
ANSWER_SECONDS = 30.0
SILENT = "the restoring process does not answer"

_held: dict[str, int] = {}
"""The descriptors of the sockets of what this process has claimed, by name. They close when it ends in any way."""


def quiet_cpus(count: int, device: Device, root: Path = Path("/")) -> tuple[int, ...]:
    """The ``count`` quietest CPUs for a worker on ``device``; empty if there are too few or pinning is not supported.

    A single thread gets an isolated CPU (``isolcpus``), if there is one. Several threads never do: the kernel does
    not balance threads over isolated CPUs, so all would stay on one. CPUs claimed by another torchperf come last.
    """
    if sys.platform != "linux" or not _may_use(os.sched_getaffinity(0)):
        return ()
    isolated = set(numbers(text(root / CPUS / "isolated")))
    node = number(root / PCI_DEVICES / device.identity().facts.get("gpu_pci", "none") / "numa_node")
    # The kernel leaves isolated CPUs out of the affinity that processes start with.
    reserved = [cpu for cpu in quietest_first(isolated, root, node) if count == 1 and _may_use({cpu})]
    allowed = os.sched_getaffinity(0) & set(online_cpus(root)) - isolated
    cpus = reserved or _one_node_first(quietest_first(allowed, root, node), count, root)
    chosen = _free_first(cpus, count, root)
    return tuple(sorted(chosen)) if len(chosen) == count else ()


def _one_node_first(cpus: list[int], count: int, root: Path) -> list[int]:
    """The CPUs of the first NUMA node that has so many cores which no other process has claimed, then the others."""
    nodes = _nodes(root)
    cores = [cpu for cpu in cpus if siblings(root, cpu)[0] == cpu and not _is_of_another(f"cpu {cpu}", root)]
    free = Counter(nodes.get(cpu, 0) for cpu in cores)
    one = next((node for node in free if free[node] >= count), None)
    return cpus if one is None else sorted(cpus, key=lambda cpu: nodes.get(cpu, 0) != one)


def _free_first(cpus: list[int], count: int, root: Path) -> list[int]:
    """The first ``count`` CPUs that this process can claim, then already claimed ones, spread over the processes."""
    mine: list[int] = []
    for cpu in cpus:
        if len(mine) < count and _claim(f"cpu {cpu}", root):
            mine.append(cpu)
    taken = [cpu for cpu in cpus if cpu not in mine]
    first = os.getpid() % len(taken) if taken else 0
    return [*mine, *taken[first:], *taken[:first]][:count]


def _claim(what: str, root: Path) -> bool:
    """Claim a CPU or the tuning for the lifetime of this process, by a socket name that only one socket can have."""
    name = _claimed_name(what, root)
    if name not in _held:
        holder = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            holder.bind(name)
        except OSError:
            holder.close()
            return False
        _held[name] = holder.detach()  # keeps the socket open until the process ends
    return True


def _is_of_another(what: str, root: Path) -> bool:
    """Whether another process has claimed it."""
    name = _claimed_name(what, root)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asking:
        return name not in _held and not asking.connect_ex(name)


def _claimed_name(what: str, root: Path) -> str:
    return f"\0torchperf {root} {what}"


def quietest_first(cpus: Iterable[int], root: Path, near: int | None = None) -> list[int]:
    """Sort ``cpus``, the quietest first.

    Efficiency cores come last, one CPU per core comes before its siblings, NUMA node ``near`` before the others, and
    nodes are not interleaved. The machine's first core comes last within its node, because interrupts and daemons run
    there.
    """
    efficient, nodes = _efficiency_cores(root), _nodes(root)

    def disturbance(cpu: int) -> tuple[bool, int, bool, int, bool, int]:
        of_core, node = siblings(root, cpu), nodes.get(cpu, 0)
        return cpu in efficient, of_core.index(cpu), node != near, node, 0 in of_core, cpu

    return sorted(cpus, key=disturbance)


def _nodes(root: Path) -> dict[int, int]:
    """The NUMA node of each CPU; empty where the system has none."""
    return {
        cpu: node
        for node in numbers(text(root / NODES / "online"))
        for cpu in numbers(text(root / NODES / f"node{node}" / "cpulist"))
    }


def _efficiency_cores(root: Path) -> set[int]:
    """The slow CPUs of a hybrid processor, by Intel's list of them or by the kernel's estimate of capacity (Arm)."""
    capacities = {cpu: number(root / CPUS / f"cpu{cpu}/cpu_capacity") or 0 for cpu in online_cpus(root)}
    least = EFFICIENT_SHARE * max(capacities.values(), default=0)
    slow = {cpu for cpu, capacity in capacities.items() if capacity < least}
    return slow | set(numbers(text(root / "sys/devices/cpu_atom/cpus")))


def _may_use(cpus: set[int]) -> bool:
    """Whether this process may choose ``cpus``, which only an attempt reveals.

    A container's CPU set can forbid some, and a hardened service may not choose at all.
    """
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, cpus)
    except OSError:
        return False
    os.sched_setaffinity(0, before)
    return True


def pin(thread: int, cpus: tuple[int, ...]) -> None:
    """Let a thread run on ``cpus`` only; raises :class:`SystemRefusalError` if they can no longer be used."""
    try:
        os.sched_setaffinity(thread, cpus)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        msg = (
            f"CPU {', '.join(map(str, cpus))} can no longer be used: it is offline, or this container got others; "
            "call torchperf again (run with --resume), which chooses other CPUs"
        )
        raise SystemRefusalError(msg) from error


def host_changes(root: Path) -> Iterator[TuningChange]:
    """Yield the changes that can be made to the host, in order.

    Each is determined only when it is due: once SMT siblings are off, later changes concern only the remaining CPUs.
    """
    yield from (change(root) for change in (_smt, _governor, _turbo, _idle_states))


def _smt(root: Path) -> TuningChange:
    control = root / CPUS / "smt/control"
    state = text(control)
    if state not in ("on", "off", "forceoff"):
        why = f"the kernel says {state!r}" if state else "no switch for it here"
        return TuningChange("smt", refusal=why)
    return _written("smt", "off", "off", [control] if state == "on" else [])


def _governor(root: Path) -> TuningChange:
    files = cpu_files(root, "cpufreq/scaling_governor")
    if not files:
        return TuningChange("governor", refusal="no frequency scaling here, as in most virtual machines")
    return _written("governor", "performance", "performance", files)


def _turbo(root: Path) -> TuningChange:
    """Turn turbo off: a boosted clock depends on temperature and on the load of neighbouring cores."""
    for name, off in (("intel_pstate/no_turbo", "1"), ("cpufreq/boost", "0")):
        if (root / CPUS / name).exists():
            return _written("turbo", "off", off, [root / CPUS / name])
    return TuningChange("turbo", refusal="no switch for it here, as in most virtual machines")


def _idle_states(root: Path) -> TuningChange:
    states = cpu_files(root, "cpuidle/state*")
    deep = [state for state in states if (number(state / "latency") or 0) > DEEP_MICROSECONDS]
    if not deep:
        return TuningChange("deep_idle_states", refusal="there are none here")
    return _written("deep_idle_states", "off", "1", [state / "disable" for state in deep])


def _written(name: str, value: str, content: str, files: Sequence[Path]) -> TuningChange:
    """A change that writes ``content`` to each of the files that contains something else."""
    changed = [path for path in files if text(path) != content]

    def apply() -> None:
        for path in changed:
            path.write_text(content)

    return TuningChange(name, value, [{"kind": "file", "path": str(path)} for path in changed], apply)


class CannotRestoreError(Exception):
    """A state that could not be restored, so it must not be changed; the message says why."""


class Restorer:
    """Remembers states of the machine and restores them on request, or when this process dies in any way.

    It runs as a process in its own session, so that neither Ctrl-C nor the end of a canceled job stops it early. It
    holds what this process has claimed until it has ended: another run must not tune what it is about to restore.
    """

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={name: value for name, value in os.environ.items() if name not in MARKS},
            pass_fds=[*_held.values()],
        )
        self._answers = True

    def remember(self, state: Mapping[str, str]) -> None:
        """Remember one state, given as :mod:`restorer` describes; raises :class:`CannotRestoreError`."""
        assert self._process.stdin
        assert self._process.stdout
        with suppress(BrokenPipeError):
            print(json.dumps(state), file=self._process.stdin, flush=True)
        poller = select.poll()  # unlike select(), without a limit on the file descriptor's number
        poller.register(self._process.stdout, select.POLLIN)
        # After a timeout, a late answer would be mistaken for that to the next request, so ask nothing more.
        self._answers = self._answers and bool(poller.poll(1000 * ANSWER_SECONDS))
        answer = self._process.stdout.readline() if self._answers else ""
        if answer != "\n":
            raise CannotRestoreError(answer.strip() or SILENT)

    def restore(self) -> None:
        """Restore every state; raises :class:`NotRestoredError` for those that stayed changed."""
        try:
            output, _ = self._process.communicate(timeout=ANSWER_SECONDS)
        except subprocess.TimeoutExpired:
            output = ""
        failed = [line for line in output.splitlines() if line.startswith("not restored: ")]
        failed += [SILENT] if self._process.returncode != 0 else []
        if failed:
            msg = "tuning left this machine changed; set back by hand:\n" + "\n".join(failed)
            raise NotRestoredError(msg)


@dataclass(frozen=True)
class TuningReport:
    """The settings that were ``applied`` (``governor`` → ``performance``), and those ``refused``, with reasons."""

    applied: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_of_another(self) -> bool:
        """Whether another run has tuned the machine, and may restore it in the middle of this one."""
        return "all" in self.refused

    def __str__(self) -> str:
        named = "; ".join(f"{name}={value}" for name, value in sorted(self.applied.items()))
        return named or ("another run's" if self.is_of_another else "none")


OF_ANOTHER = TuningReport(refused={"all": "another torchperf is tuning this machine"})


def untuned(root: Path = Path("/")) -> TuningReport:
    """Return the report of a run that does not tune: the machine may be tuned by another."""
    return OF_ANOTHER if sys.platform == "linux" and _is_of_another("tuning", root) else TuningReport()


@contextmanager
def tuned(device: Device, root: Path = Path("/")) -> Iterator[TuningReport]:
    """Tune the host and ``device`` for the duration of the block.

    A separate process restores everything when the block ends, or when this process dies, even by SIGKILL. Take the
    fingerprint inside the block. Raises :class:`NotRestoredError` at the end if something stayed changed. Two processes
    do not tune at once: the first one, when it ends, would undo what the second one measures with.
    """
    if sys.platform == "linux" and not _claim("tuning", root):
        yield OF_ANOTHER
        return
    applied: dict[str, str] = {}
    refused: dict[str, str] = {}
    to_restore: list[Mapping[str, str]] = []
    restorer = Restorer()
    try:
        for change in chain(host_changes(root), device.tools.changes()):
            if why := change.refusal or _refusal_of(change, restorer):
                refused[change.name] = why
            else:
                applied[change.name] = change.value
                to_restore += change.undo
        if not to_restore and (held := _held.pop(_claimed_name("tuning", root), None)):
            restorer.restore()  # it holds the claim, too
            os.close(held)  # the machine stays the same for other runs
        yield TuningReport(applied, refused)
    except BaseException:
        try:
            restorer.restore()
        except NotRestoredError as error:  # not instead of what ended the block, which says how to continue
            print(f"torchperf: error: {error}", file=sys.stderr, flush=True)
        raise
    restorer.restore()


def _refusal_of(change: TuningChange, restorer: Restorer) -> str:
    """Make the change, if it is allowed and can be undone; else return why not."""
    try:
        for state in change.undo:
            restorer.remember(state)
        change.apply()
    except (OSError, CannotRestoreError, VendorToolError) as error:
        return getattr(error, "strerror", None) or str(error)
    return ""
