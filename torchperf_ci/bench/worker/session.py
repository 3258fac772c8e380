"""The worker's side of the protocol: answer each request of the parent, with a result or a failure."""

from __future__ import annotations

import gc
import json
import math
import os
import socket
import sys
import traceback
from dataclasses import asdict, is_dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from torchperf_ci.bench.worker import correctness, profiling, protocol, step, timing, traces, unfreeze
from torchperf_ci.bench.worker.flops import count_flops
from torchperf_ci.bench.worker.step import REPLAYED, BuiltStep, StepRequest, build_step
from torchperf_ci.bench.worker.torch_environment import (
    COMPILER,
    UnsupportedError,
    status_of,
    told_by,
    torch_environment,
)
from torchperf_ci.bench.worker.traces import FileTrace
from torchperf_ci.machine.devices import device as device_of
from torchperf_ci.suite.discovery import find_architectures
from torchperf_ci.suite.registry import Catalogue, catalogue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from torchperf_ci.machine.devices.interface import Device
    from torchperf_ci.suite.workload import Workload


MAX_TRACEBACK_LENGTH = 2**14
"""Most characters of a traceback that are told, the last ones: those of a compiler may quote megabytes of output."""


def serve(channel_fd: int) -> None:
    """Answer requests until the parent closes the channel. A forked child that tries to answer on it exits instead."""
    os.set_inheritable(channel_fd, False)
    channel, owner = socket.socket(fileno=channel_fd), os.getpid()
    session = WorkerSession()
    for line in channel.makefile("r", encoding="utf-8"):
        arguments = json.loads(line)
        answer = _answer_to(partial(getattr(session, arguments.pop("verb")), **arguments))
        if os.getpid() != owner:
            os._exit(1)
        channel.sendall(answer.encode() + b"\n")
    # There is nothing to save, also in the log, and shutting torch down takes longer than starting the next worker.
    os._exit(0)


def _answer_to(ask: Callable[[], object]) -> str:
    """Return the answer as JSON. Phases have the names that a workload gives them, which need not be texts."""
    try:
        return json.dumps({"ok": _finite(ask())}, allow_nan=False, default=sorted)  # sets become sorted lists
    except BaseException as error:  # noqa: BLE001  # whatever a workload raises is told to the parent
        told = "" if _is_ours(error) else _valid(traceback.format_exc()[-MAX_TRACEBACK_LENGTH:])
        failure = {"status": status_of(error), "reason": _valid(_reason(error)), "traceback": told}
        return json.dumps({"error": failure})


def _finite(answer: Any) -> object:
    """Return the answer as JSON values, with None for members that are not finite, which JSON does not have."""
    if not is_dataclass(answer):
        return answer
    members = asdict(answer)  # type: ignore[arg-type]  # an answer is never a class
    return {key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in members.items()}


def _is_ours(error: BaseException) -> bool:
    """Whether the message says everything: that of a missing package, say, and the command that installs it."""
    return isinstance(error, UnsupportedError) and not error.__cause__


def _reason(error: BaseException) -> str:
    first = (told_by(error).strip().splitlines() or [""])[0]
    return (first if _is_ours(error) else f"{type(error).__name__}: {first}")[:500]


def _valid(text: str) -> str:
    """Return text that records can hold: a name of a file that is not UTF-8 has surrogates in Python."""
    return text.encode(errors="backslashreplace").decode()


_INSTALLED = frozenset({"site-packages", "dist-packages"})


def _files_of_modules(names: Iterable[str]) -> list[str]:
    """Return the files of modules, except for those of Python itself and of installed packages.

    The Python may be in the user's checkout, such as an environment of conda.
    """
    others = (name for name in names if name.partition(".")[0] not in sys.stdlib_module_names)
    files = {getattr(sys.modules[name], "__file__", None) for name in others}
    return sorted(os.path.realpath(file) for file in files if file and not _INSTALLED & {*Path(file).parts})


@cache
def _catalogue(*files: str) -> Catalogue:
    """Return the catalogue, importing suite files once, because what a file registers with torch cannot be repeated."""
    return catalogue([Path(file) for file in files])


def _workload(name: str, files: Sequence[str]) -> Workload:
    """Return a workload of this environment's catalogue, which may have fewer than another environment's.

    Raises :class:`UnsupportedError` if it is missing.
    """
    known = _catalogue(*files)
    if name not in known.workloads:
        raise UnsupportedError(f"there is no workload {name} in this environment")
    return known.workloads[name]


class WorkerSession:
    """The state of one worker process, with a method for each request, named like its verb."""

    _device: Device
    _step: BuiltStep
    _request: StepRequest
    _workload: Workload
    _file_trace: FileTrace

    compilation = staticmethod(step.compilation_counts)
    inventory = staticmethod(traces.inventory)
    files_that_call = staticmethod(traces.files_that_call)

    def __init__(self) -> None:
        self._after_first: list[torch.Tensor] = []
        self._seconds = 0.0

    def ready(self) -> None:
        """Answer nothing, which tells the parent that torch has been imported."""

    def describe(self, device: str, files: list[str]) -> protocol.EnvironmentUnderTest:
        """Describe the environment and list the catalogue of workloads."""
        before, threads = {*sys.modules}, torch.get_num_threads()
        known = _catalogue(*files)
        torch.set_num_threads(threads)  # a suite file may have set it, which no build keeps
        imported = _files_of_modules({*sys.modules} - before)
        packages = [package for workload in known.workloads.values() for package in workload.requires]
        workloads = {
            w.name: protocol.DescribedWorkload(
                w.name, w.task, w.modes, dict(w.batch_sizes), w.origin, w.requires
            )
            for w in known.workloads.values()
        }
        described = protocol.KnownWorkloads(workloads, dict(known.suites))
        environment = torch_environment(device, packages)
        return protocol.EnvironmentUnderTest(environment, described, dict(known.unavailable), imported)

    def exercise(self, device: str) -> Mapping[str, Sequence[float]]:
        """Time equal blocks of work on the device, without any workload."""
        return timing.time_equal_blocks(device_of(device, hip=torch.version.hip is not None))

    def build(
        self, workload: str, files: list[str], device: str, threads: int, **request: Any
    ) -> protocol.Built:
        """Build the step; the answer includes its number of parameters and the switches that the workload changed."""
        self._device = device_of(device, hip=torch.version.hip is not None)
        if vars(self).pop("_step", None):  # of another batch size, whose memory must be free for this one
            if COMPILER in sys.modules:  # else it compiles the second for any size, and the ninth not at all
                torch.compiler.reset()
            unfreeze()
            gc.collect()
        self._request = StepRequest(**request)
        self._workload = _workload(workload, files)
        torch.set_num_threads(threads)  # after the suite files, which may have set it
        self._step = build_step(self._workload, self._request, self._device)
        task, is_function = self._step.task, not isinstance(self._step.model, torch.nn.Module)
        parameters = sum(parameter.numel() for parameter in correctness.parameters_of(self._step.model))
        return protocol.Built(parameters, is_function, self._step.moved, task.config_digest())

    def first_step(self) -> protocol.FirstStep:
        model, versions = self._step.model, correctness.parameter_versions(self._step.model)
        answer, returned = step.time_first_step(self._device, self._step.run)
        if not self._step.task.step:
            if self._request.mode == "training":
                correctness.check_training(model, versions)
        elif self._request.backend != "eager":
            self._after_first = correctness.after_first_step(self._step, returned)
        return answer

    def dtype_check(self) -> None:
        """Run the uncompiled step; fails if a function does not run on the case's device and in its dtype."""
        correctness.check_dtype(self._eager_step(), self._request.dtype, self._device.torch_type)

    def agreement(self) -> protocol.Agreement:
        if self._step.task.step:
            return correctness.custom_step_agreement(
                self._step, self._after_first, self._eager_twin, self._request.dtype
            )
        return correctness.agreement_with_eager(self._step, self._request.mode, self._request.dtype)

    def warm_up(self, budget: float) -> protocol.WarmUp:
        warm = timing.warm_up(self._device, self._step.run, budget)
        self._seconds = warm.seconds / warm.steps
        return warm

    def sample(self, inner: int, target: float, budget: float) -> protocol.Samples:
        return timing.sample(self._device, self._step.run, inner, target, budget, self._seconds)

    def block(self, steps: int) -> protocol.Block:
        return timing.block(self._device, self._step.run, steps)

    def peak(self) -> protocol.Peak:
        self._after_first.clear()  # a copy of all parameters, of use only before
        replayed = self._request.backend in REPLAYED
        return profiling.peak(self._device, self._step.run, replayed=replayed)

    def leak(self, budget: float) -> protocol.Leak:
        return profiling.leak(self._device, self._step.run, budget)

    def phases(self, budget: float) -> Mapping[str, float]:
        return timing.phase_seconds(self._device, self._step, budget)

    def flops(self) -> protocol.CountedFlops:
        """Count FLOPs on the eager model, because kernels of a compiled graph are not operators to count."""
        return count_flops(self._eager_step())

    def _eager_step(self) -> Callable[[], object]:
        """Return an uncompiled step that does not change the model. A custom step gets a newly built model."""
        step = self._step
        if step.task.step:
            return self._eager_twin(self._request.dtype).run
        return lambda: correctness.observe(step.task, step.model, self._request.mode, step.precision)

    def _eager_twin(self, dtype: str) -> BuiltStep:
        return build_step(self._workload, replace(self._request, backend="eager", dtype=dtype), self._device)

    def profile(self, trace: str) -> protocol.ProfiledSteps:
        """Profile operators and kernels of the steps and, if they are compiled, the reasons for graph breaks."""
        profile = profiling.profile(self._device, self._step.run, trace)
        breaks = {} if self._request.backend == "eager" else profiling.graph_breaks()
        return protocol.ProfiledSteps(profile, breaks)

    def architectures(self, files: list[str], filters: list[str]) -> Mapping[str, str]:
        """Return the call that builds each architecture of the installed libraries without a workload, by name."""
        known = _catalogue(*files).workloads
        return find_architectures(known, filters)

    def api_use(self) -> protocol.ApiUse:
        """Return what a step uses of this torch."""
        return traces.used_by(self._step.run)

    def begin_file_trace(self, log: str) -> None:
        """Start to log which files are read. Must be the first request."""
        self._file_trace = FileTrace(log)
        self._file_trace.begin()

    def end_file_trace(self) -> None:
        self._file_trace.end()

    def operators(self) -> protocol.OperatorsRun:
        """Return the operators that the steps run."""
        return traces.operators_run(self._step.run)
