"""Which cases there are to compare: those whose workload both sides know."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from torchperf_ci.bench import planning
from torchperf_ci.bench.selection import select
from torchperf_ci.metrics import STATUS
from torchperf_ci.verdicts.verdict import Verdict

if TYPE_CHECKING:
    from torchperf_ci.bench.case import Case
    from torchperf_ci.bench.selection import Known
    from torchperf_ci.compare.judging import Naming
    from torchperf_ci.compare.sides import ComparedBuild
    from torchperf_ci.config import Config
    from torchperf_ci.options import CompareOptions


def select_cases(
    base: ComparedBuild, head: ComparedBuild, options: CompareOptions, config: Config
) -> tuple[Case, ...]:
    """The selected cases of both sides' catalogues together; raises as :func:`select` does."""
    known = _known_to_either(base.under_test.known, head.under_test.known)
    return select(
        planning.selection(options, config, options.suite, options.filter, options.shard),
        known,
        head.settings.device,
    )


def known_to(build: ComparedBuild, case: Case) -> bool:
    """Whether the side's catalogue has the case's workload."""
    return case.workload in build.under_test.known.workloads


def one_sided(case: Case, base: ComparedBuild, head: ComparedBuild, naming: Naming) -> Verdict:
    """The verdict on a case whose workload one side does not know: a library may not be installed there."""
    series = naming(case, STATUS)
    if known_to(head, case):
        return Verdict(series, "new", f"base has no such workload{_unavailable(base)}")
    return Verdict(series, "missing", f"head has no such workload{_unavailable(head)}")


def _unavailable(build: ComparedBuild) -> str:
    return "".join(f"; {name} is not available: {why}" for name, why in build.under_test.unavailable.items())


def _known_to_either(base: Known, head: Known) -> Known:
    """In the order of head's."""
    suites = {
        name: list(dict.fromkeys([*head.suites.get(name, ()), *base.suites.get(name, ())]))
        for name in {**head.suites, **base.suites}
    }
    return replace(head, workloads={**base.workloads, **head.workloads}, suites=suites)
