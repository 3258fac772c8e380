"""What the steps of a case consist of in one environment: a profile, taken in a process of its own."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from torchperf_ci.bench.process import Inquiry, open_worker, prepare

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

    from torchperf_ci.bench.case import Case, Settings

Kind = Literal["operator", "kernel", "phase"]
KINDS: tuple[Kind, ...] = get_args(Kind)

# The CPU's compiled kernels then say when they begin and end, as a GPU's do by themselves.
KERNELS_SHOWN = {"TORCHINDUCTOR_CPP_ENABLE_KERNEL_PROFILE": "1"}
NAME_LENGTH = 500
"""Characters; C++ kernels have names of several thousand, which differ at their beginnings."""

# What differs from one compilation to the next: the numbers of a generated kernel and of its graph, and what its sizes
# are specialised for; the number of a compiled region; and the hashes that generated code is filed under.
_NUMBERED = re.compile(r"^(?:graph_\d+_)?((?:triton|cpp)_\w*?)(?:_\d+)*(?:_(?:\d+[a-z]+)+)?$")
_REGION = re.compile(r"(?<=Torch-Compiled Region): \d+/\d+")
_HASH = re.compile(r"\b(?=\w*\d)[0-9a-z]{16,}\b")
_ADDRESS = re.compile(r"0x[0-9a-f]+")


class Key(NamedTuple):
    """What a row is about. Phases are ``forward``, ``backward`` and ``optimizer``."""

    kind: Kind
    name: str


@dataclass(frozen=True)
class Cost:
    """Its own milliseconds a step, without what it called, and its calls a step."""

    ms: float
    count: float


@dataclass(frozen=True)
class Profile:
    """Operators on the host, kernels on the device, and phases; and how often the graph was broken, by reasons."""

    costs: Mapping[Key, Cost]
    graph_breaks: Mapping[str, int] = field(default_factory=dict)


NOTHING = Cost(0.0, 0.0)
"""Of what is not there."""


def take(case: Case, settings: Settings, scratch: Path, trace: Path | None = None) -> Profile:
    """Profile a fresh process of ``case``, warm; raises :class:`WorkerFailure`.

    A ``trace`` of the steps goes to that file (``.json.gz``). The compiler's cache stays below ``scratch``.
    """
    with open_worker(case, settings, scratch, KERNELS_SHOWN) as worker:
        inquiry = Inquiry(worker, settings.timeout)
        prepare(inquiry, case, settings)
        phases = inquiry.ask("phases", budget=settings.budget)  # before the profiler slows them down
        profiled = inquiry.ask("profile", trace=str(trace or ""))
    return profile_of(profiled, phases)


def profile_of(answer: Mapping[str, Any], phases: Mapping[str, float]) -> Profile:
    """From a worker's answers. The only phase of a step is the step, so it is left out."""
    costs: dict[Key, list[Cost]] = defaultdict(list)
    for line in answer["lines"]:
        costs[Key(line["kind"], settled_name(line["name"]))].append(Cost(line["ms"], line["count"]))
    if len(phases) > 1:
        costs |= {Key("phase", name): [Cost(1000 * seconds, 1)] for name, seconds in phases.items()}
    breaks: dict[str, int] = defaultdict(int)
    for reason, count in answer["graph_breaks"].items():
        breaks[_first_words(reason)] += count
    return Profile({key: _sum(parts) for key, parts in costs.items()}, dict(breaks))


def total_ms(kind: Kind, profiles: Collection[Profile]) -> float:
    """Milliseconds a step of all that is of a kind, on average."""
    found = [cost.ms for profile in profiles for key, cost in profile.costs.items() if key.kind == kind]
    return sum(found) / len(profiles)


def settled_name(name: str) -> str:
    """A name that stays the same where the code does: generated kernels lose their numbers, graphs their hashes."""
    name = _NUMBERED.sub(r"\1", name)
    return _HASH.sub("…", _REGION.sub("", name))[:NAME_LENGTH]


def _sum(parts: Iterable[Cost]) -> Cost:
    together = list(parts)
    return Cost(sum(part.ms for part in together), sum(part.count for part in together))


def _first_words(reason: str) -> str:
    """What broke the graph and why, without hints, and without what differs from process to process."""
    first, *more = [line.strip() for line in reason.strip().splitlines()] or [""]
    explained = [line.removeprefix("Explanation: ") for line in more[:1] if line.startswith("Explanation: ")]
    return _ADDRESS.sub("0x…", ": ".join([first, *explained]))[:NAME_LENGTH]
