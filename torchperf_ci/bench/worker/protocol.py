"""What a worker answers to which verb: made in the environment under test, read by the toolkit.

Here, as in all of the worker, is the standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from torchperf_ci.machine.devices.interface import TorchGpu


@dataclass(frozen=True)
class Done:
    """To what is only to be done."""


@dataclass(frozen=True)
class TorchEnvironment:
    """``comparable`` must be equal for two measurements to be compared; ``observed`` is recorded beside it.

    ``seen`` is the GPU that torch uses, ``dependencies`` maps the installed distributions that can move with a nightly
    to their versions.
    """

    device: str
    hip: bool
    seen: TorchGpu
    torch_version: str
    torch_commit: str
    comparable: Mapping[str, str]
    observed: Mapping[str, str]
    dependencies: Mapping[str, str]


@dataclass(frozen=True)
class DescribedWorkload:
    """A workload of the catalogue. ``batch_sizes`` are by mode, or by mode and class of device."""

    name: str
    task: str
    modes: Sequence[str]
    batch_sizes: Mapping[str, int]
    origin: str
    requires: Sequence[str] = ()


@dataclass(frozen=True)
class Description:
    """To ``describe``: the environment, and the catalogue; ``unavailable`` says why a workload cannot be built."""

    environment: TorchEnvironment
    suites: Mapping[str, Sequence[str]]
    unavailable: Mapping[str, str]
    workloads: Sequence[DescribedWorkload]


@dataclass(frozen=True)
class Built:
    """To ``build``: how many numbers are learnt, which switches the workload had moved, and the digest of its
    configuration, where it has one.
    """

    parameters: int
    is_function: bool = False
    moved: Mapping[str, str] = field(default_factory=dict)
    config: str = ""


@dataclass(frozen=True)
class FirstStep:
    """Wall seconds, and CPU seconds of this process and of the compilers it waited for."""

    wall: float
    cpu: float


@dataclass(frozen=True)
class WarmUp:
    """What it took until steps stopped getting faster. Times in seconds; ``inner`` is steps a sample."""

    steps: int
    seconds: float
    inner: int
    stable: bool


@dataclass(frozen=True)
class Settling:
    """For how many seconds a device was kept busy until its clock had settled, or the time was up."""

    seconds: float
    settled: bool


@dataclass(frozen=True)
class Samples:
    """Seconds a step, in the order taken, and the relative half-width of the median's 95% interval (None: unknown).

    ``settling`` is what came right before them, on a device that needs it.
    """

    seconds: tuple[float, ...]
    inner: int
    half_width: float | None
    converged: bool
    wall_per_step: float
    cpu_per_step: float
    settling: Settling | None = None


@dataclass(frozen=True)
class Block:
    """Mean seconds a step."""

    seconds: float


Blocks = dict[str, list[float]]
"""To ``exercise``: seconds of each block, by the kind of work."""


@dataclass(frozen=True)
class Agreement:
    """Relative L2 errors against the reference, largest over the compared tensors; None is not finite."""

    agrees: bool
    compiled_error: float | None
    eager_error: float | None
    reference: str
    compared: str


@dataclass(frozen=True)
class Compilation:
    """Counts since the process began.

    ``recompiles`` are compilations of a frame that had been compiled before; they may hit the cache. A graph that
    cannot be cached is missed each time.
    """

    graphs: int
    graph_breaks: int
    recompiles: int
    recompile_reasons: tuple[str, ...]
    cache_hits: int
    cache_misses: int
    cudagraph_skips: int


@dataclass(frozen=True)
class Peak:
    """Bytes at the peak of a few steps, and how the host's was read. ``held``: the device's include what is kept."""

    device: int
    host: int
    host_method: str
    held: bool = False


@dataclass(frozen=True)
class Leak:
    """Growth in bytes a step over the last half of ``steps`` steps; none where there was no time for them."""

    device: float = 0.0
    host: float = 0.0
    steps: int = 0


Phases = dict[str, float]
"""Seconds of each phase of a step; a step that has none is one itself."""


@dataclass(frozen=True)
class CountedFlops:
    """Floating-point operations of a step; 0 where none could be counted."""

    flops: int


LineKind = Literal["operator", "kernel"]


@dataclass(frozen=True)
class ProfileLine:
    """One operator (on the host) or kernel (on the device): its own milliseconds and its calls, a step."""

    kind: LineKind
    name: str
    ms: float
    count: float


@dataclass(frozen=True)
class ProfiledSteps:
    """What steps consist of, and how often the compiler broke a graph, by its reasons."""

    lines: Sequence[ProfileLine]
    graph_breaks: Mapping[str, int]


Triple = tuple[str, str, str]
"""A family of ATen operators, the dtype, and the layout that it ran on."""


@dataclass(frozen=True)
class ApiUse:
    """What steps use: names of public functions, and triples. ``cpu_seconds`` are of one step of each."""

    functions: frozenset[str] = frozenset()
    triples: frozenset[Triple] = frozenset()
    cpu_seconds: float = 0.0

    @cached_property
    def operators(self) -> frozenset[str]:
        """The families of operators."""
        return frozenset(name for name, _, _ in self.triples)

    def beside(self, other: ApiUse) -> AddedUse:
        """What this one uses and ``other`` does not."""
        return AddedUse(
            self.functions - other.functions, self.operators - other.operators, self.triples - other.triples
        )


@dataclass(frozen=True)
class AddedUse:
    """What one use has and another lacks: functions, families of operators, and triples."""

    functions: frozenset[str]
    families: frozenset[str]
    triples: frozenset[Triple]


@dataclass(frozen=True)
class Inventory:
    """All that can be used of one torch, by name (see :func:`torchperf_ci.bench.worker.api_use.inventory`)."""

    functions: frozenset[str]
    families: frozenset[str]
    core: frozenset[str]


@dataclass(frozen=True)
class Callers:
    """Packages that use torch, and in how many of their files a function is called."""

    packages: Sequence[str]
    files: Mapping[str, int]


@dataclass(frozen=True)
class OperatorsRun:
    """ATen's operators that steps run, without namespace and overload, and why these may not be all."""

    operators: Sequence[str]
    unknown: Sequence[str]


@dataclass(frozen=True)
class UnbuiltDevices:
    """What torch was not built for, as ATen's folders are called."""

    devices: Sequence[str]


@dataclass
class WorkerAnswers:
    """What one worker has answered about its case so far, by verb; None where it was not asked."""

    build: Built | None = None
    first_step: FirstStep | None = None
    agreement: Agreement | None = None
    warm_up: WarmUp | None = None
    sample: Samples | None = None
    compilation: Compilation | None = None
    peak: Peak | None = None
    leak: Leak | None = None
    phases: Phases | None = None
    flops: CountedFlops | None = None
