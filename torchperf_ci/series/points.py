"""Series and points: how they are named, which run measured a point, and what makes two points comparable."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import median, median_low
from typing import NamedTuple

from torchperf_ci.metrics import ANCHORED, METRICS, is_positive, kind_of
from torchperf_ci.records.record import parsed_json


class SeriesGroup(NamedTuple):
    """What one job measures: a benchmark of a repository on one kind of machine."""

    repo: str
    benchmark: str
    device: str
    arch: str

    @property
    def machine(self) -> str:
        """The kind of machine in words."""
        return f"{self.device} ({self.arch})" if self.arch else self.device


@dataclass(frozen=True, order=True)
class Series:
    """One metric of one model, measured in one way on one kind of machine."""

    repo: str
    benchmark: str
    model: str
    mode: str
    dtype: str
    backend: str
    device: str
    arch: str
    metric: str

    def __hash__(self) -> int:
        """Hash the names in which most series of a store differ: with fewer, many of them have the same hash."""
        return hash((self.model, self.mode, self.dtype, self.backend, self.arch, self.metric))

    @property
    def group(self) -> SeriesGroup:
        """The group of series that one job measures."""
        return SeriesGroup(self.repo, self.benchmark, self.device, self.arch)

    @property
    def names(self) -> tuple[str, ...]:
        """The values of all fields in order; the metric is the last."""
        return tuple(vars(self).values())

    @property
    def case(self) -> Series:
        """The case: the series without its metric, equal for all metrics of the same case."""
        names = (self.repo, self.benchmark, self.model, self.mode, self.dtype, self.backend, self.device)
        return Series(*names, self.arch, "")

    @property
    def id(self) -> str:
        """A short id for URLs; the store's view ``torchperf_points`` computes the same."""
        return short_id(*self.names)

    def __str__(self) -> str:
        how = " ".join(part for part in (self.mode, self.dtype, self.backend, self.device) if part)
        return f"{self.model} {self.metric} ({how})" if how else f"{self.model} {self.metric}"


_NOTHING: Mapping[str, str] = {}


class Point(NamedTuple):
    """The result of one run for one series; a tuple, because there are millions of them.

    ``value`` is the :func:`middle` of ``repetitions`` in the metric's unit; None where there is no number.
    ``timestamp`` is in Unix seconds, 0 where unknown. ``run`` identifies the run: it is equal for all points measured
    together, and only for those. ``fingerprint`` holds the facts that must be equal for two points to be comparable,
    ``info`` what else the record says (``status``, ``reason``, words) and ``torch``, the commit of PyTorch.
    """

    value: float | None
    repetitions: tuple[float, ...] = ()
    timestamp: int = 0
    branch: str = ""
    commit: str = ""
    workflow_id: int = 0
    run_attempt: int = 0
    job_id: int = 0
    fingerprint: Mapping[str, str] = _NOTHING
    info: Mapping[str, str] = _NOTHING
    run: str = ""

    @property
    def independent(self) -> tuple[float, ...]:
        """The repetitions, or just the value if they are rounds of one process, which hide how processes differ."""
        if self.value is None or self.info.get("independent") != "false":
            return self.repetitions
        return (self.value,)

    @property
    def torch(self) -> str:
        """The commit of PyTorch; empty if unknown."""
        return self.info.get("torch", "")

    @property
    def batch_size(self) -> int | None:
        """The batch size; None if unknown."""
        return self._number_in_facts("batch_size")

    @property
    def threads(self) -> int | None:
        """The number of CPU threads, a fact of the machine or, beside an anchor, of the case; None if unknown."""
        return self._number_in_facts("torch_threads") or self._number_in_facts("threads")

    def _number_in_facts(self, name: str) -> int | None:
        text = self.fingerprint.get(name, "")
        return int(text) if re.fullmatch("[0-9]{1,9}", text) else None


Points = Mapping[Series, Sequence[Point]]
"""The points of each series, oldest first."""
RunResults = Mapping[str, Mapping[Series, Point]]
"""The results of each run, by its name: one point of each series."""


def restating(series: Iterable[Series]) -> set[Series]:
    """Return the series that restate another one: a throughput where the latency of the same case is present.

    They are stored and shown but never judged, so that one slowdown is one regression.
    """
    known = set(series)
    return {
        member
        for member in known
        if (metric := METRICS.get(member.metric)) and metric.restates
        if replace(member, metric=metric.restates) in known
    }


def without_restating(points: Points) -> Points:
    """The points that are judged."""
    again = restating(points)
    return {series: row for series, row in points.items() if series not in again}


RECENT_RUNS = 5
"""A series counts as missing from a run only if it was in one of this many runs before."""


TRUNK_DAYS = 90
"""The newest days with results, among which the trunk is found: after a quarter, a branch may have another name."""
_DAY = 86_400


def trunk_of(runs: Iterable[tuple[str, int]]) -> str:
    """Return the branch measured on most days, given branch and time of each run; empty if no run has a branch.

    ``main`` and ``master`` precede if they have at least half as many: many runs of a pull request are of few days, and
    a release may be measured as often.
    """
    known = [(branch, time // _DAY) for branch, time in runs if branch]
    newest = set(sorted({day for _, day in known})[-TRUNK_DAYS:])
    count = Counter(branch for branch, _ in known)
    days = Counter(branch for branch, day in {*known} if day in newest)
    most = max(days, key=lambda branch: (days[branch], count[branch], branch), default="")
    return next(
        (usual for usual in ("main", "master") if usual in days and 2 * days[usual] >= days[most]), most
    )


def of_trunk(points: Sequence[Point], trunk: str) -> Sequence[Point]:
    """Return the points of ``trunk``, and those without a branch, but not those of pull requests.

    If there are none, return those of the branch that is the trunk of these points.
    """
    own = [point for point in points if point.branch in ("", trunk)]
    if own or not points:
        return own
    return of_trunk(points, trunk_of((point.branch, point.timestamp) for point in points))


@lru_cache(maxsize=2**15)
def short_id(*names: str) -> str:
    """Ten hexadecimal digits for names, each behind its length in bytes."""
    text = b"".join(f"{len(name.encode())}:{name}".encode() for name in names)
    return hashlib.sha256(text).hexdigest()[:10]


def run_id(group: SeriesGroup, run: str) -> str:
    """A short name of a run on one kind of machine."""
    return short_id(*group, run)


Natural = list[list[tuple[int, int, str]]]


def run_of(timestamp: int, commit: str, workflow_id: int, run_attempt: int, place: str) -> str:
    """Name a run by its workflow run and attempt, else by commit and time, else by the ``place`` of its records.

    The store's query ``runs`` names them likewise. Runs without a time are ordered by their names, so the place comes
    before the commit.
    """
    if workflow_id:
        return f"{workflow_id}.{run_attempt}"
    if timestamp:
        return f"{commit}@{timestamp}"
    return f"{place}@{commit}" if commit else place


def runs_of(points: Iterable[Point]) -> list[str]:
    """Return the runs that measured ``points``, oldest first; runs without a time are sorted by name."""
    begun: dict[str, int] = {}
    for point in points:
        begun[point.run] = min(point.timestamp, begun.get(point.run, point.timestamp))
    return sorted(begun, key=lambda run: (begun[run], natural(run)))


def runs_of_groups(points: Points) -> dict[SeriesGroup, list[str]]:
    """Return the runs of each group, oldest first."""
    points_of_group: dict[SeriesGroup, list[Point]] = defaultdict(list)
    for series, row in points.items():
        points_of_group[series.group].extend(row)
    return {group: runs_of(row) for group, row in points_of_group.items()}


def natural(name: str) -> Natural:
    """Return a key that sorts names by the numbers in them: ``run-2/a`` before ``run-10/a``."""
    return [
        [
            (0, int(digits), "") if digits else (1, 0, text)
            for digits, text in re.findall(r"(\d+)|(\D+)", part)
        ]
        for part in name.split("/")
    ]


CASE_FACTS = ("anchor", "batch_size", "threads", "workload_config")
"""Facts that describe the case; all other facts describe the machine."""
_CASE_OWN = ("batch_size", "workload_config")
_ANCHORED_OWN = ("batch_size", "threads", "workload_config")


def comparable_facts(
    metric: str, machine: Mapping[str, str], benchmark: Mapping[str, str], metric_info: Mapping[str, str]
) -> dict[str, str]:
    """Return the fingerprint of a point, from the ``extra_info`` of the first runner, the benchmark and the metric.

    ``fingerprint_of`` in ``machine`` lists the facts that describe the machine; records of other tools have no such
    list. An anchored metric is compared by its anchor instead of the machine.
    """
    if metric == ANCHORED:
        return _select(("anchor",), metric_info) | _select(_ANCHORED_OWN, benchmark)
    return _select(machine.get("fingerprint_of", "").split(","), machine) | _select(_CASE_OWN, benchmark)


def machine_facts(facts: Mapping[str, str]) -> dict[str, str]:
    """Return those facts of a fingerprint that describe the machine."""
    return {name: fact for name, fact in facts.items() if name not in CASE_FACTS}


def differing_facts(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Describe the differences between two fingerprints, as in ``governor: powersave → performance``."""
    return [
        f"{name}: {old.get(name, 'not known')} → {new.get(name, 'not known')}"
        for name in sorted({name for name, _ in old.items() ^ new.items()})
    ]


def usual_facts(points: Iterable[Point]) -> Mapping[str, str]:
    """Return the facts of the machine that most fingerprints have; those of a case, such as its batch size, are not."""
    fingerprints = [point.fingerprint for point in points]  # most points share the mapping
    keys = {id(facts): tuple(sorted(machine_facts(facts).items())) for facts in fingerprints}
    counts = Counter(key for facts in fingerprints if (key := keys[id(facts)]))
    return dict(counts.most_common(1)[0][0]) if counts else {}


WORKLOAD_CHANGED = "the workload changed but kept its name"


def workload_changed(differs: Sequence[str]) -> bool:
    """Whether the workload itself differs, not just the machine it ran on."""
    return any(fact.startswith("workload_config: ") for fact in differs)


def _select(names: tuple[str, ...] | list[str], facts: Mapping[str, str]) -> dict[str, str]:
    return {name: facts[name] for name in names if facts.get(name)}


KEPT_INFO = ("benchmark_values", "direction", "disturbed", "independent", "not_measured", "reason", "status")
"""Keys of the metric's ``extra_info`` that a verdict may need; the rest are mostly samples, by the hundred."""


def kept_info(about_metric: Mapping[str, str], torch: str) -> dict[str, str]:
    """Return what a point keeps of a metric's ``extra_info``, and the commit of PyTorch where it is known."""
    kept = {name: about_metric[name] for name in KEPT_INFO if about_metric.get(name)}
    return kept | ({"torch": torch} if torch else {})


def measured_values(metric: str, about_metric: Mapping[str, str], values: object) -> tuple[float, ...]:
    """Return the values of a metric, in double precision where the record kept it.

    Values of zero and below are dropped from metrics that are positive by nature: harnesses report zero when they
    fail, and the database turns null into zero. So are negative ones from counts, where -1 says that nobody counted.
    """
    exact = about_metric.get("benchmark_values_exact")  # if ``torchperf upload`` kept those of before Float32
    numbers = finite_numbers((parsed_json(exact) if exact else None) or values)
    if numbers and min(numbers) <= 0:
        is_above_zero, is_count = is_positive(metric), kind_of(metric) == "count"
        return tuple(it for it in numbers if it > 0 or not (is_above_zero or (is_count and it)))
    return tuple(numbers)


def middle(metric: str, values: Sequence[float]) -> float | None:
    """Return the median, which of a count is one of the values: there is no half graph break. None without values."""
    if not values:
        return None
    return median_low(values) if kind_of(metric) == "count" else median(values)


_FLOAT32 = 1e-45, 3.4028235e38
"""The smallest and the largest positive number of a Float32."""


def finite_numbers(values: object) -> list[float]:
    """Return the finite numbers in ``values``, including those written as text; null does not count as 0.

    As in the database, those beyond a Float32, such as the largest double for "nothing measured", are not finite, and
    those too small for one are 0.
    """
    if not isinstance(values, list):
        return []
    numbers = values if {*map(type, values)} == {float} else [_float_of(value) for value in values]
    least, most = _FLOAT32
    return [number if abs(number) >= least else 0.0 for number in numbers if abs(number) <= most]


def _float_of(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]  # whatever it is
    except (TypeError, ValueError, OverflowError):
        return float("nan")
