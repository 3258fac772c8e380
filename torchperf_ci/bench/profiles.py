"""Profile the operators, kernels and phases of a case's steps, and compare the profiles of two builds."""

from __future__ import annotations

import re
import shutil
from collections import defaultdict
from dataclasses import dataclass, field, replace
from math import exp, log
from statistics import fmean, median
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from torchperf_ci.actions import one_line
from torchperf_ci.bench.process import WorkerConversation, open_worker, prepare
from torchperf_ci.bench.worker.protocol import Phases, ProfiledSteps
from torchperf_ci.records.files import replace_file

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from torchperf_ci.bench.case import Case, Settings


ProfileKind = Literal["operator", "kernel", "phase"]
KINDS: tuple[ProfileKind, ...] = get_args(ProfileKind)

# Makes compiled CPU kernels report when they begin and end, as GPU kernels always do.
KERNELS_SHOWN = {"TORCHINDUCTOR_CPP_ENABLE_KERNEL_PROFILE": "1"}
NAME_LENGTH = 500
"""Most characters of a name. C++ kernels have names of several thousand, which differ near their beginning."""

# Parts of names that differ from one compilation to the next: numbers and size specializations of generated kernels,
# numbers of graphs and of compiled regions, and hashes of generated code.
_NUMBERED = re.compile(r"^(?:graph_\d+_)?((?:triton|cpp)_\w*?)(?:_\d+)*(?:_(?:\d+[a-z]+)+)?$")
_REGION = re.compile(r"(?<=Torch-Compiled Region): \d+/\d+")
_HASH = re.compile(r"\b(?=\w*\d)[0-9a-z]{16,}\b")
_ADDRESS = re.compile(r"0x[0-9a-f]+")


class ProfileKey(NamedTuple):
    """Identifies an operator, kernel or phase. Phases are ``forward``, ``backward`` and ``optimizer``."""

    kind: ProfileKind
    name: str


@dataclass(frozen=True)
class Cost:
    """Milliseconds per step, excluding what it called, and calls per step."""

    ms: float
    count: float


@dataclass(frozen=True)
class Profile:
    """Costs of host operators, device kernels and phases, and the number of graph breaks by reason."""

    costs: Mapping[ProfileKey, Cost]
    graph_breaks: Mapping[str, int] = field(default_factory=dict)


NOTHING = Cost(0.0, 0.0)
"""The cost of an operator, kernel or phase that does not occur."""


def take_profile(case: Case, settings: Settings, scratch: Path, trace: Path | None = None) -> Profile:
    """Profile warm steps of ``case`` in a fresh process. Raises :class:`WorkerFailure`.

    If ``trace`` is given, a trace of the steps is written to that file (``.json.gz``). The compiler's cache is kept
    below ``scratch``.
    """
    with open_worker(case, settings, scratch, KERNELS_SHOWN) as worker:
        conversation = WorkerConversation(worker, settings.timeout)
        prepare(conversation, case, settings)
        phases = conversation.ask(
            "phases", Phases, budget=settings.budget
        )  # before the profiler slows them down
        profiled = conversation.ask("profile", ProfiledSteps, trace=str(trace or ""))
    return profile_of(profiled, phases)


def profile_of(answer: ProfiledSteps, phases: Mapping[str, float]) -> Profile:
    """Return the profile in a worker's answers. A single phase is the whole step, so it is left out."""
    costs: dict[ProfileKey, list[Cost]] = defaultdict(list)
    for line in answer.lines:
        costs[ProfileKey(line.kind, stable_name(line.name))].append(Cost(line.ms, line.count))
    if len(phases) > 1:
        costs |= {ProfileKey("phase", name): [Cost(1000 * seconds, 1)] for name, seconds in phases.items()}
    breaks: dict[str, int] = defaultdict(int)
    for reason, count in answer.graph_breaks.items():
        breaks[_first_words(reason)] += count
    return Profile({key: _sum_of_costs(parts) for key, parts in costs.items()}, dict(breaks))


def total_ms(kind: ProfileKind, profiles: Collection[Profile]) -> float:
    """Return the total milliseconds per step of one kind, averaged over the profiles."""
    times = [cost.ms for profile in profiles for key, cost in profile.costs.items() if key.kind == kind]
    return sum(times) / len(profiles)


def stable_name(name: str) -> str:
    """Return a name that is the same for the same code: without the numbers and hashes of generated kernels."""
    name = _NUMBERED.sub(r"\1", name)
    return _HASH.sub("…", _REGION.sub("", name))[:NAME_LENGTH]


def _sum_of_costs(parts: Sequence[Cost]) -> Cost:
    return Cost(sum(part.ms for part in parts), sum(part.count for part in parts))


def _first_words(reason: str) -> str:
    """Return what broke the graph and why, without hints and without addresses, which differ between processes."""
    first, *more = [line.strip() for line in reason.strip().splitlines()] or [""]
    explained = [line.removeprefix("Explanation: ") for line in more[:1] if line.startswith("Explanation: ")]
    return _ADDRESS.sub("0x…", ": ".join([first, *explained]))[:NAME_LENGTH]


QUIET = 0.02
"""If whole profiles of one build differ by less than this, milliseconds are compared without adjustment."""
MIN_ROWS = 5
"""Fewest rows whose median is used to estimate how fast the machine was."""
MIN_SHARE = 0.01
"""Smallest share of a kind's time for a row to be used: shorter rows are too short for the clock's resolution."""


def relative_slowdowns(kind: ProfileKind, old: Sequence[Profile], new: Sequence[Profile]) -> Sequence[float]:
    """Return the slowdown of each profile, old then new, relative to the average; 1 on a quiet machine.

    On a shared machine, processes of the same build differ by 10 to 40%, and all rows of a profile together. The median
    over the rows estimates by how much, because a real change moves only a few rows. The same estimate normalizes gene
    counts (the median of ratios: Anders and Huber, Genome Biology 11, R106, 2010, equation 5).
    """
    profiles = (*old, *new)
    rows = _steady_rows(_clock_of(kind, profiles), profiles)
    if len(rows) < MIN_ROWS:
        return [1.0] * len(profiles)
    slowdowns = [median(row[number] - fmean(row) for row in rows) for number in range(len(profiles))]
    if all(max(side) - min(side) < QUIET for side in (slowdowns[: len(old)], slowdowns[len(old) :])):
        return [1.0] * len(profiles)
    return [exp(slowdown) for slowdown in slowdowns]


def _clock_of(kind: ProfileKind, profiles: Sequence[Profile]) -> ProfileKind:
    """Return the kind whose slowdown to use: for phases that of kernels, or of operators if there are no kernels."""
    if kind != "phase":
        return kind
    return "kernel" if total_ms("kernel", profiles) else "operator"


def _steady_rows(kind: ProfileKind, profiles: Sequence[Profile]) -> list[list[float]]:
    """Return rows of log times, one per profile, of what is called equally often in all of them and is not tiny."""
    least_ms = MIN_SHARE * total_ms(kind, profiles)
    keys = [key for key in profiles[0].costs if key.kind == kind]
    rows = [[profile.costs.get(key, NOTHING) for profile in profiles] for key in keys]
    return [
        [log(cost.ms) for cost in row]
        for row in rows
        if min(cost.ms for cost in row) > least_ms and len({cost.count for cost in row}) == 1
    ]


MIN_SHOWN_SHARE = 0.01
"""Smallest change of time worth reporting, as a share of the total time of its kind in a step."""


@dataclass(frozen=True)
class ProfileRow:
    """An operator, kernel or phase before and after; None on a side where it does not occur.

    ``noise_ms`` is the largest difference between two profiles of the same build. ``in_time`` and ``in_count`` say
    whether its time and its number of calls certainly changed.
    """

    key: ProfileKey
    old: Cost | None
    new: Cost | None
    noise_ms: float
    in_time: bool
    in_count: bool

    @property
    def change_ms(self) -> float:
        """Change in milliseconds per step, positive if it got slower."""
        return (self.new.ms if self.new else 0.0) - (self.old.ms if self.old else 0.0)


@dataclass(frozen=True)
class ProfileChanges:
    """The differences between the profiles of two builds.

    ``rows`` lists first those that changed in time, then those that are only called more or less often, then the rest,
    each group by decreasing change of time. ``graph_breaks`` are the reasons of new graph breaks.
    """

    rows: tuple[ProfileRow, ...]
    graph_breaks: tuple[str, ...]

    @property
    def moved(self) -> tuple[ProfileRow, ...]:
        """The rows that certainly changed."""
        return tuple(row for row in self.rows if row.in_time or row.in_count)


def compare_profiles(old: Sequence[Profile], new: Sequence[Profile]) -> ProfileChanges:
    """Compare the profiles of two builds, two or more of each.

    A row has changed if the gap between the two sides is larger than the range of either side, that is, than the
    difference between profiles of the same build.
    """
    slowdowns = {kind: relative_slowdowns(kind, old, new) for kind in KINDS}
    least_ms = {kind: MIN_SHOWN_SHARE * total_ms(kind, (*old, *new)) for kind in KINDS}
    keys = dict.fromkeys(key for profile in (*old, *new) for key in profile.costs)
    rows = [_row(key, old, new, slowdowns[key.kind], least_ms[key.kind]) for key in keys]
    rows.sort(key=lambda row: (not row.in_time, not row.in_count, -abs(row.change_ms), row.key))
    return ProfileChanges(tuple(rows), _new_graph_breaks(old, new))


def _row(
    key: ProfileKey,
    old: Sequence[Profile],
    new: Sequence[Profile],
    slowdowns: Sequence[float],
    least_ms: float,
) -> ProfileRow:
    costs = [profile.costs.get(key, NOTHING) for profile in (*old, *new)]
    times = [cost.ms / slowdown for cost, slowdown in zip(costs, slowdowns, strict=True)]
    counts = [cost.count for cost in costs]
    before, after = slice(len(old)), slice(len(old), None)
    row = ProfileRow(
        key,
        _mean(times[before], counts[before]),
        _mean(times[after], counts[after]),
        noise_ms=max(_width(times[before]), _width(times[after])),
        in_time=_are_apart(times[before], times[after]),
        in_count=_are_apart(counts[before], counts[after]),
    )
    return row if abs(row.change_ms) >= least_ms else replace(row, in_time=False)


def _mean(times: Sequence[float], counts: Sequence[float]) -> Cost | None:
    return Cost(fmean(times), fmean(counts)) if any(counts) else None


def _width(values: Sequence[float]) -> float:
    return max(values) - min(values)


def _are_apart(old: Sequence[float], new: Sequence[float]) -> bool:
    gap = max(min(new) - max(old), min(old) - max(new))
    return gap > max(_width(old), _width(new))


def _new_graph_breaks(old: Sequence[Profile], new: Sequence[Profile]) -> tuple[str, ...]:
    """Return reasons that break graphs more often in every new profile than in any old one, largest increase first."""
    more = {
        reason: least - most
        for reason in new[0].graph_breaks
        if (least := min(profile.graph_breaks.get(reason, 0) for profile in new))
        > (most := max(profile.graph_breaks.get(reason, 0) for profile in old))
    }
    return tuple(sorted(more, key=lambda reason: (-more[reason], reason)))


TABLE = "operators.tsv"
TRACES = ("old.trace.json.gz", "new.trace.json.gz")
TRACE_LIMIT = 32 * 2**20
"""Largest trace that is kept, in bytes; a browser takes minutes to show a larger one."""

_COLUMNS = (
    "kind", "old_ms", "new_ms", "change_ms", "noise_ms", "old_count", "new_count", "moved", "name"
)  # fmt: skip


def save_profile_files(folder: Path, changes: ProfileChanges, traces: Mapping[str, Path]) -> None:
    """Write all rows to a table in ``folder``, and copy the traces there, by their names (:data:`TRACES`).

    Raises :class:`OSError` or :class:`OutputDirectoryError`.
    """
    replace_file(folder / TABLE, profile_table(changes.rows))
    for name, trace in traces.items():
        if trace.stat().st_size <= TRACE_LIMIT:
            temporary = folder / f".{name}.tmp"
            shutil.copyfile(trace, temporary)
            temporary.replace(folder / name)


def profile_table(rows: Sequence[ProfileRow]) -> str:
    """Return a tab-separated table with a header: milliseconds and calls per step, a dash if there is no value."""
    lines = [_COLUMNS, *map(_cells, rows)]
    return "".join("\t".join(map(one_line, line)) + "\n" for line in lines)


def _cells(row: ProfileRow) -> tuple[str, ...]:
    old_ms, old_count = _numbers(row.old)
    new_ms, new_count = _numbers(row.new)
    moved = ", ".join(word for word, sure in (("time", row.in_time), ("count", row.in_count)) if sure)
    return (
        row.key.kind, old_ms, new_ms, f"{row.change_ms:+.6f}", f"{row.noise_ms:.6f}", old_count, new_count,
        moved or "-", row.key.name,
    )  # fmt: skip


def _numbers(cost: Cost | None) -> tuple[str, str]:
    return (f"{cost.ms:.6f}", f"{cost.count:g}") if cost else ("-", "-")
