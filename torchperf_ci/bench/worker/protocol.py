"""The worker's answers to each request, created in the environment under test and read by the toolkit.

Like all of the worker, this module uses only the standard library. ``by_metric`` says which values are recorded under
which metric: runs, pairs and verdicts follow it, so a new one needs nothing else but its entry in
:mod:`torchperf_ci.metrics` and its reading in the worker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from torchperf_ci import metrics
from torchperf_ci.machine.devices.interface import TorchGpu

MIB = 2.0**20


Done = type(None)
"""The answer to a request that returns nothing."""


@dataclass(frozen=True)
class TorchEnvironment:
    """The torch under test and its device.

    Two measurements can be compared only if ``comparable`` is equal; ``observed`` is recorded in addition. ``seen`` is
    the GPU that torch uses. ``dependencies`` maps installed distributions that can change with a nightly build to their
    versions.
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
    """A workload of the catalogue. ``batch_sizes`` are by mode, or by mode and device class."""

    name: str
    task: str
    modes: Sequence[str]
    batch_sizes: Mapping[str, int]
    origin: str
    requires: Sequence[str] = ()


@dataclass(frozen=True)
class KnownWorkloads:
    """The catalogue: workloads by name, and their names by suite (for a suite file its path)."""

    workloads: Mapping[str, DescribedWorkload]
    suites: Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class EnvironmentUnderTest:
    """Answer to ``describe``: environment and catalogue. ``unavailable`` says, by name, why a workload cannot be built.

    ``imported`` are the files of the modules that the suite files have imported, except for installed ones.
    """

    environment: TorchEnvironment
    known: KnownWorkloads
    unavailable: Mapping[str, str]
    imported: Sequence[str] = ()


@dataclass(frozen=True)
class Built:
    """Answer to ``build``: number of parameters, switches that the workload had changed, and the digest of its
    configuration, if it has one.
    """

    parameters: int
    is_function: bool = False
    moved: Mapping[str, str] = field(default_factory=dict)
    config: str = ""


@dataclass(frozen=True)
class FirstStep:
    """Duration of the first step: wall seconds, and CPU seconds of this process and the compilers that it ran."""

    wall: float
    cpu: float

    @property
    def by_metric(self) -> Mapping[str, float]:
        """The values to record of a compiled step whose compiler found nothing in its cache."""
        return {metrics.COMPILE_TIME: self.wall, metrics.COMPILE_CPU_TIME: self.cpu}


@dataclass(frozen=True)
class WarmUp:
    """The warm-up until steps stopped getting faster. Times are in seconds; ``inner`` is steps per sample."""

    steps: int
    seconds: float
    inner: int
    stable: bool


@dataclass(frozen=True)
class Settling:
    """How many seconds a device was kept busy until its clock settled or time was up."""

    seconds: float
    settled: bool


MIN_SAMPLES = 5
"""Samples that a process takes at least, unless they would take very long."""
LONG_STEP = 1.0
"""Seconds from which on a step is long: the time is checked after each, and there may be fewer samples."""


@dataclass(frozen=True)
class Samples:
    """Seconds per step in the order taken, and the relative half-width of the median's 95% interval (None: unknown).

    ``settling`` describes the load right before the samples, on a device that needs it.
    """

    seconds: tuple[float, ...]
    inner: int
    half_width: float | None
    converged: bool
    wall_per_step: float
    cpu_per_step: float
    settling: Settling | None = None


Block = float
"""Mean seconds per step of one block."""


@dataclass(frozen=True)
class Agreement:
    """Relative L2 errors against the reference, the largest over the compared tensors.

    None means that values are not finite or have another shape.
    """

    agrees: bool
    compiled_error: float | None
    eager_error: float | None
    reference: str
    compared: str


@dataclass(frozen=True)
class Compilation:
    """Counts of compilation since the process began.

    ``recompiles`` counts compilations of a frame that had been compiled before; they may hit the cache. A graph that
    cannot be cached counts as a miss each time.
    """

    graphs: int
    graph_breaks: int
    recompiles: int
    recompile_reasons: tuple[str, ...]
    cache_hits: int
    cache_misses: int
    cudagraph_skips: int

    @property
    def all_cached(self) -> bool:
        """Whether every graph came from the cache. If the cache is switched off, graphs are neither hits nor misses."""
        return self.cache_hits > 0 and not self.cache_misses

    @property
    def by_metric(self) -> Mapping[str, float]:
        """The values to record."""
        return {metrics.GRAPH_BREAKS: float(self.graph_breaks), metrics.RECOMPILES: float(self.recompiles)}


@dataclass(frozen=True)
class Peak:
    """Peak memory of a few steps in bytes, and how the host's was read.

    ``held``: the device's peak includes all memory that the allocator holds.
    """

    device: int
    host: int
    host_method: str
    held: bool = False

    @property
    def by_metric(self) -> Mapping[str, float]:
        """The values to record, in their metrics' units."""
        return {metrics.PEAK_MEMORY: self.device / MIB, metrics.HOST_PEAK_MEMORY: self.host / MIB}


@dataclass(frozen=True)
class Leak:
    """Growth in bytes per step over the last half of ``steps`` steps; 0 steps if there was not enough time."""

    device: float = 0.0
    host: float = 0.0
    steps: int = 0


Phases = dict[str, float]
"""Seconds of each phase of a step. A step without phases is a single phase."""


CountedFlops = int
"""Floating-point operations of a step; 0 if none could be counted."""

LineKind = Literal["operator", "kernel"]


@dataclass(frozen=True)
class ProfileLine:
    """One operator (on the host) or kernel (on the device), with its own milliseconds and its calls per step."""

    kind: LineKind
    name: str
    ms: float
    count: float


@dataclass(frozen=True)
class ProfiledSteps:
    """Operators and kernels of the steps, and the number of graph breaks by reason."""

    lines: Sequence[ProfileLine]
    graph_breaks: Mapping[str, int]


Triple = tuple[str, str, str]
"""A family of ATen operators, with the dtype and the layout that it ran on."""


@dataclass(frozen=True)
class ApiUse:
    """What steps use of torch: names of public functions, and triples. ``cpu_seconds`` is for one run of each step."""

    functions: frozenset[str] = frozenset()
    triples: frozenset[Triple] = frozenset()
    cpu_seconds: float = 0.0

    @cached_property
    def operators(self) -> frozenset[str]:
        """The families of operators among the triples."""
        return frozenset(name for name, _, _ in self.triples)

    @cached_property
    def by_kind(self) -> Mapping[str, frozenset[str | Triple]]:
        """The functions, the families of operators and the triples."""
        return {"functions": self.functions, "families": self.operators, "triples": self.triples}

    def beside(self, other: ApiUse) -> Mapping[str, frozenset[str | Triple]]:
        """Return, by kind, what this one uses and ``other`` does not."""
        return {kind: used - other.by_kind[kind] for kind, used in self.by_kind.items()}


@dataclass(frozen=True)
class Inventory:
    """All that can be used of a torch build, by name (:func:`torchperf_ci.bench.worker.traces.inventory`)."""

    functions: frozenset[str]
    families: frozenset[str]
    core: frozenset[str]


@dataclass(frozen=True)
class Callers:
    """Packages that require torch, and the number of their files that call each function."""

    packages: Sequence[str]
    files: Mapping[str, int]


@dataclass(frozen=True)
class OperatorsRun:
    """ATen operators that steps run, without namespace and overload, and reasons why there may be more."""

    operators: Sequence[str]
    unknown: Sequence[str]


@dataclass
class WorkerAnswers:
    """One worker's answers about its case so far, by request; None for requests that were not made."""

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
